"""The engine on the chip: layers of a convolutional network, one after the other."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.engine.conv_engine import ConvEngine
from seedbed.hw.engine.requantize import Requantize
from seedbed.sim.cases import conv_engine, requantize

__all__ = ["CORES"]

CORES = [
    Core(
        name="requantize",
        title="Requantizer of a layer's sums to int8, with a maximum search",
        config=spec.RequantizeConfig,
        component=Requantize,
        case=requantize.case,
        paper="ElasticZO, section 4.2; NITI",
    ),
    Core(
        name="conv_engine",
        title="Inference engine for a frozen convolutional network in integers",
        config=spec.ConvEngineConfig,
        component=ConvEngine,
        case=conv_engine.case,
        paper="InstantFT, section 4.1",
    ),
]
