"""External memory: bursts, an SDRAM, and the cache of activations in it."""

from seedbed import spec
from seedbed.flow.cores.core import Core
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.hw.memory.sdram import Sdram
from seedbed.sim.cases import forward_cache, sdram

__all__ = ["CORES"]

CORES = [
    Core(
        name="forward_cache",
        title="Cache of 4-bit activations in external memory",
        config=spec.ForwardCacheConfig,
        component=ForwardCache,
        case=forward_cache.case,
        paper="InstantFT, sections 3.1 and 3.2",
    ),
    Core(
        name="sdram",
        title="Controller of an SDR SDRAM, with a port for bursts and a self-test",
        config=spec.SdramConfig,
        component=Sdram,
        case=sdram.case,
        paper="-",
    ),
]
