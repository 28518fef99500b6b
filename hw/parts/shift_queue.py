"""A FIFO of a few entries in registers, whose oldest entry is always in the same one."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ShiftQueue"]


class ShiftQueue(wiring.Component):
    """Entries move up by one when the oldest is removed.

    Parameters
    ----------
    shape
        Of an entry.
    depth
        How many there are, 2 or more.

    Members
    -------
    push, data : In
        Write enable, and an entry. The writer must not write to a full queue.
    pop : In(1)
        The oldest entry is removed. There must be one.
    head : Out
        The oldest entry.
    level : Out
        How many are stored.

    Latency: a cycle.
    """

    def __init__(self, shape: ShapeLike, depth: int):
        self.depth = depth
        members = {"push": In(1), "data": In(shape), "pop": In(1), "head": Out(shape)}
        super().__init__(members | {"level": Out(range(depth + 1))})

    def elaborate(self, platform):
        m = Module()
        entries = [Signal(self.data.shape(), name=f"entry_{k}") for k in range(self.depth)]
        free = Signal.like(self.level)
        m.d.comb += [free.eq(self.level - self.pop), self.head.eq(entries[0])]
        m.d.sync += self.level.eq(free + self.push)
        for k, entry in enumerate(entries):
            after = Value.cast(entries[k + 1] if k + 1 < self.depth else entry)
            shifted = Mux(self.pop, after, Value.cast(entry))
            writes = self.push & (free == k)
            m.d.sync += Value.cast(entry).eq(Mux(writes, Value.cast(self.data), shifted))
        return m
