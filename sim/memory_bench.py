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

    def run(self, process: Callable[..., Awaitable[None]]) -> None:
        """Run ``process(ctx)`` in the simulator."""
        super().run(process, self.memory.run)

    def drop(self, ctx) -> None:
        """Take back what waits at the inputs, and break off what the memory has under way."""
        super().drop(ctx)
        self.memory.drop(ctx)
