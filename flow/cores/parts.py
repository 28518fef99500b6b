"""Parts that cores of every kind share: registers, queues, counters, rounding."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.sim.cases import skid_buffer

__all__ = ["CORES"]

CORES = [
    Core(
        name="skid_buffer",
        title="Register slice of a stream, without a combinational ready path",
        config=spec.SkidBufferConfig,
        component=SkidBuffer,
        case=skid_buffer.case,
        paper="-",
    ),
]
