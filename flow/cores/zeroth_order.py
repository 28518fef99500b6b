"""Training of a network in int8 by forward passes."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer
from seedbed.sim.cases import zo_trainer

__all__ = ["CORES"]

CORES = [
    Core(
        name="zo_trainer",
        title="Zeroth-order training of a network in int8",
        config=spec.ZoTrainerConfig,
        component=ZoTrainer,
        case=zo_trainer.case,
        paper="ElasticZO, Algorithm 2",
    ),
]
