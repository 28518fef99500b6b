"""Low-rank adapters of a frozen network, and their training."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.adapters.instantft import InstantFt
from seedbed.hw.adapters.lora import Lora
from seedbed.sim.cases import instantft, lora

__all__ = ["CORES"]

CORES = [
    Core(
        name="lora",
        title="Low-rank adapters on the logits, with training",
        config=spec.LoraConfig,
        component=Lora,
        case=lora.case,
        paper="InstantFT, sections 2.2 and 3.2",
    ),
    Core(
        name="instantft",
        title="Fine-tuning of a frozen network by adapters, with an activation cache",
        config=spec.InstantFtConfig,
        component=InstantFt,
        case=instantft.case,
        paper="InstantFT, sections 3 and 4",
    ),
]
