"""A part of a queue whose parts stand far from each other."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["BeatQueue"]

#: Bits of a part, which share what says where they are read and written: they fill memories of 14
#: bits, UltraScale+'s, and 16 queues of 171 bits are 48 readers of ready.
SHARING = 70


class BeatQueue(wiring.Component):
    """Keeps some of the bits of beats that come and go; several of them, written at once, are one.

    A ready that all parts look at comes a long way, so that it goes to one LUT a part, and from it
    to a register. A cycle later that part reads the next beat, or the same again, which is shown as
    the memory has it: a LUT for each bit of the address is all that is before it.

    Parameters
    ----------
    width
        Bits of a beat that are kept here.
    depth
        Beats that there is a place for, a power of two.

    Members
    -------
    reset : In(1)
        Forgets all beats.
    write, data : In
        A beat comes. Whether there is room is for the writer to know.
    ready : In(1)
        The beat at ``o`` is taken, where ``valid``.
    o, valid : Out
        The oldest beat, from the second cycle behind its write on.
    level : Out
        How many beats there are, with the one that was shown in the cycle before.
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
        parts = [self._part(m, k) for k in range(-(-len(self.o) // SHARING))]
        left, valid = parts[0]
        m.d.comb += [self.level.eq(left), self.valid.eq(valid)]
        return m

    def _part(self, m, part):
        """Keep some of the bits; return how many beats there are, and if one is shown."""
        bits = slice(SHARING * part, min(SHARING * (part + 1), len(self.o)))
        width = bits.stop - bits.start
        m.submodules[f"storage_{part}"] = storage = Memory(shape=width, depth=self.depth, init=[])
        put, get = storage.write_port(), storage.read_port(domain="comb")

        def register(name, shape=1, **how):
            return Signal(shape, name=f"{name}_{part}", reset_less=True, **how)

        # A bit more than an address has, to tell a full queue from an empty one. The place is that
        # of the beat that was shown, if one was; the next is there already, for want of time.
        shape = self.level.shape()
        end, place = (register(name, shape, attrs={"keep": True}) for name in ("end", "place"))
        behind = register("behind", shape, init=1)
        # Of the cycle before: whether the beat was taken, whether there was one at the place of
        # now, and one behind that.
        gone, there, second = (register(name) for name in ("gone", "there", "second"))
        left, now = (Signal(shape, name=f"{name}_{part}") for name in ("left", "now"))
        valid = Signal(name=f"valid_{part}")
        m.d.comb += [
            left.eq(end - place),
            now.eq(Mux(gone, behind, place)),
            valid.eq(Mux(gone, second, there)),
            put.addr.eq(end),
            put.data.eq(self.data[bits]),
            put.en.eq(self.write),
            get.addr.eq(now),
            self.o[bits].eq(get.data),
        ]
        one, two, three = left.any(), left[1:].any(), left[2:].any() | left[:2].all()
        m.d.sync += [
            gone.eq(valid & self.ready),
            place.eq(now),
            there.eq(Mux(gone, two, one)),
            second.eq(Mux(gone, three, two)),
        ]
        with m.If(gone):
            m.d.sync += behind.eq(behind + 1)
        with m.If(self.write):
            m.d.sync += end.eq(end + 1)
        with m.If(self.reset):
            m.d.sync += [state.eq(0) for state in (gone, there, second, end, place)]
            m.d.sync += behind.eq(1)
        return left, valid
