"""Nested loops: counters, and addresses that grow by a stride for each loop."""

from collections.abc import Iterable, Sequence

from amaranth.hdl import Array, Module, Signal, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["LoopNest", "strided"]


class LoopNest(wiring.Component):
    """Counts the iterations of loops inside one another, one iteration of the innermost a cycle.

    Parameters
    ----------
    counts
        The most iterations of each loop, innermost first.

    Members
    -------
    limits : In(struct)
        ``loop_0``, ``loop_1``, ...: iterations of each loop, less 1. Steady from ``load`` to the
        last iteration.
    load : In(1)
        Every loop is at its first iteration in the next cycle.
    advance : In(1)
        The next iteration, in the next cycle. After the last one, all loops start again.
    level : Out(range(loops + 1))
        The loop that continues with ``advance``: those inside it start again. The number of loops
        where the last iteration of all is reached.
    first, last : Out(loops)
        For each loop, whether it is at its first or at its last iteration.
    """

    def __init__(self, counts: Sequence[int]):
        self._loops = len(counts)
        limits = {f"loop_{k}": range(max(2, count)) for k, count in enumerate(counts)}
        super().__init__(
            {
                "limits": In(data.StructLayout(limits)),
                "load": In(1),
                "advance": In(1),
                "level": Out(range(self._loops + 1)),
                "first": Out(self._loops),
                "last": Out(self._loops),
            }
        )

    def elaborate(self, platform):
        m = Module()
        limits = [self.limits[f"loop_{k}"] for k in range(self._loops)]
        left = [
            Signal.like(limit, name=f"left_{k}", reset_less=True) for k, limit in enumerate(limits)
        ]
        m.d.comb += self.level.eq(self._loops)
        for k, (count, limit) in reversed(list(enumerate(zip(left, limits, strict=True)))):
            m.d.comb += [self.last[k].eq(count == 0), self.first[k].eq(count == limit)]
            with m.If(~self.last[k]):
                m.d.comb += self.level.eq(k)
        with m.If(self.advance):
            for k, (count, limit) in enumerate(zip(left, limits, strict=True)):
                with m.If(self.level == k):
                    m.d.sync += count.eq(count - 1)
                with m.Elif(self.level > k):
                    m.d.sync += count.eq(limit)
        with m.If(self.load):
            m.d.sync += [count.eq(limit) for count, limit in zip(left, limits, strict=True)]
        return m


def strided(
    m: Module, nest: LoopNest, name: str, width: int, start: ValueLike, strides: Iterable[ValueLike]
) -> Signal:
    """Return the address of a nest's iteration, a register.

    It is ``start`` at the first iteration, and grows by the stride of the loop that continues: one
    of ``strides``, innermost loop first.
    """
    strides = list(strides)
    address = Signal(width, name=name, reset_less=True)
    with m.If(nest.advance):
        # After the last iteration, the address has no meaning.
        m.d.sync += address.eq(address + Array([*strides, strides[-1]])[nest.level])
    with m.If(nest.load):
        m.d.sync += address.eq(start)
    return address
