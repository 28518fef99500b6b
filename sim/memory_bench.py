"""A bench of a component with a memory behind it that keeps what it is given."""

from collections.abc import Awaitable, Callable
from random import Random

from amaranth.lib import wiring

from seedbed.sim.memory import Memory
from seedbed.sim.reset_bench import ResetBench

__all__ = ["PORTS", "MemoryBench"]

#: The ports that the memory serves.
PORTS = ("o_command", "o_write", "i_response", "i_read")


class MemoryBench(ResetBench):
    """Plays phases on the ports of ``dut`` that do not go to the memory; all ports pause at random.

    Parameters
    ----------
    dut
        The component, with the ports of the forward cache to a memory.
    page
        Beats between two boundaries that no burst crosses.
    seed
        Where latencies and pauses are drawn from.
    """

    def __init__(self, dut: wiring.Component, page: int, seed: int):
        random = Random(seed)
        super().__init__(dut, random=random, others=PORTS)
        self.memory = Memory(dut, page=page, random=random)
        self._resets_memory = True

    def run(self, process: Callable[..., Awaitable[None]]) -> None:
        """Run ``process(ctx)`` in the simulator."""
        super().run(process, self.memory.run)

    async def reset(self, ctx, *, memory: bool = True) -> None:
        """Reset the component, and the memory too or all of it but bursts that it answers."""
        self._resets_memory = memory
        await super().reset(ctx)

    def drop(self, ctx) -> None:
        """Take back what waits at the inputs, and break off what the memory has under way."""
        super().drop(ctx)
        self.memory.drop(ctx, answers=self._resets_memory)
