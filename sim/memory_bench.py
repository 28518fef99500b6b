"""Testbench of a component with an external memory, whose contents a reset keeps."""

from collections.abc import Awaitable, Callable
from random import Random

from amaranth.lib import wiring

from seedbed.sim.memory import Memory
from seedbed.sim.reset_bench import ResetBench

__all__ = ["PORTS", "MemoryBench"]

#: The ports that the memory serves.
PORTS = ("o_command", "o_write", "i_response", "i_read")


class MemoryBench(ResetBench):
    """Runs phases on the ports of ``dut`` other than the memory's; all ports pause at random.

    Parameters
    ----------
    dut
        The component, with the memory ports of the forward cache.
    page
        Beats per page; no burst may cross a page boundary.
    seed
        Of latencies and pauses.
    """

    def __init__(self, dut: wiring.Component, page: int, seed: int):
        random = Random(seed)
        super().__init__(dut, random=random, others=PORTS)
        self.memory = Memory(dut, page=page, random=random)
        self._resets_memory = True

    def run(
        self, process: Callable[..., Awaitable[None]], *background: Callable[..., Awaitable[None]]
    ) -> None:
        """Run ``process(ctx)`` in the simulator, with the memory and background processes."""
        super().run(process, self.memory.run, *background)

    async def reset(self, ctx, *, memory: bool = True) -> None:
        """Reset the component and, with ``memory``, discard the memory's outstanding responses."""
        self._resets_memory = memory
        await super().reset(ctx)

    def clear_inputs(self, ctx) -> None:
        """Set valid of all inputs to 0, and discard the memory's bursts."""
        super().clear_inputs(ctx)
        self.memory.abort(ctx, responses=self._resets_memory)
