"""Backpropagation of the last layers of a network in int8."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.tail.bp_tail import BpTail
from seedbed.sim.cases import bp_tail

__all__ = ["CORES"]

CORES = [
    Core(
        name="bp_tail",
        title="Backpropagation of the last one or two dense layers in 8-bit integers",
        config=spec.BpTailConfig,
        component=BpTail,
        case=bp_tail.case,
        paper="ElasticZO, section 4; NITI",
    ),
]
