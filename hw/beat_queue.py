"""A part of a queue whose parts stand far from each other."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["BeatQueue"]

#: Bits that share what says where they are read and written.
SHARING = 32


class BeatQueue(wiring.Component):
    """Keeps some of the bits of up to ``depth`` beats; several of them, written at once, are one.

    A ready that all parts look at comes a long way, so that it goes to a register and nowhere else.
    A cycle later each part chooses, of two places that are in registers too, the one to read.

    Parameters
    ----------
    width
        Bits of a beat that are kept here.
    depth
        Beats, a power of two.

    Members
    -------
    reset : In(1)
        Forgets all beats.
    write, data : In
        A beat comes. Whether there is room is for the writer to know.
    ready : In(1)
        The beat at ``o`` is taken, where ``valid``.
    o, valid : Out
        The oldest beat, from the cycle behind its write on.
    level : Out
        How many beats there are.
    """

    def __init__(self, width: int, depth: int):
        self.depth = depth
        super().__init__(
            {
                "reset": In(1),
                "write": In(1),
                "data": In(width),
                "ready": In(1),
                "o": Out(width),
                "valid": Out(1),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        told = Signal(reset_less=True, attrs={"keep": True})
        m.d.sync += told.eq(self.ready)
        parts = [self._part(m, told, k) for k in range(0, len(self.o), SHARING)]
        place, end = parts[0]
        m.d.comb += [self.level.eq(end - place), self.valid.eq(end != place)]
        return m

    def _part(self, m, told, first):
        """Keep some bits, from the ``first`` on; return where they are read and written."""
        bits = slice(first, min(first + SHARING, len(self.o)))
        width, part = bits.stop - first, first // SHARING
        m.submodules[f"storage_{part}"] = storage = Memory(shape=width, depth=self.depth, init=[])
        put, get = storage.write_port(), storage.read_port(domain="comb")
        # A bit more than an address has, to tell a full queue from an empty one.
        shape = self.level.shape()
        place, begin, behind = (
            Signal(shape, name=f"{name}_{part}", reset_less=True)
            for name in ("place", "begin", "behind")
        )
        end = Signal(shape, name=f"end_{part}", reset_less=True, attrs={"keep": True})
        there = Signal(name=f"there_{part}", reset_less=True)
        m.d.comb += [
            place.eq(Mux(told & there, behind, begin)),
            put.addr.eq(end),
            put.data.eq(self.data[bits]),
            put.en.eq(self.write),
            get.addr.eq(place),
            self.o[bits].eq(get.data),
        ]
        m.d.sync += [
            there.eq(end != place),
            begin.eq(place),
            behind.eq(place + 1),
        ]
        with m.If(self.write):
            m.d.sync += end.eq(end + 1)
        with m.If(self.reset):
            m.d.sync += [there.eq(0), end.eq(0), begin.eq(0), behind.eq(1)]
        return place, end
