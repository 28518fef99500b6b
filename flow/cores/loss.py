"""From logits to a loss, its gradient, or the sign of a difference of losses."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.loss.loss_sign import LossSign
from seedbed.hw.loss.softmax_loss import SoftmaxLoss
from seedbed.sim.cases import loss_sign, softmax_loss

__all__ = ["CORES"]

CORES = [
    Core(
        name="softmax_loss",
        title="Softmax, cross-entropy loss and its gradient by lookup tables",
        config=spec.SoftmaxLossConfig,
        component=SoftmaxLoss,
        case=softmax_loss.case,
        paper="InstantFT, section 4.1",
    ),
    Core(
        name="loss_sign",
        title="Sign of a batch's loss difference from integer logits",
        config=spec.LossSignConfig,
        component=LossSign,
        case=loss_sign.case,
        paper="ElasticZO, section 4.3",
    ),
]
