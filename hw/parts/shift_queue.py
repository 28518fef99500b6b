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
        m.d.comb += self.head.eq(entries[0])
        m.d.sync += self.level.eq(self.level - self.pop + self.push)
        data = Value.cast(self.data)
        for k, entry in enumerate(entries):
            # The first free entry takes the data in each cycle: ``push`` only counts it.
            after = Value.cast(entries[k + 1]) if k + 1 < self.depth else data
            shifts = self.pop & (self.level != k + 1)
            with m.If(self.pop | (self.level == k)):
                m.d.sync += Value.cast(entry).eq(Mux(shifts, after, data))
        return m
