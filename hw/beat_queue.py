"""A part of a queue whose parts stand far from each other."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.hw.near import near

__all__ = ["BeatQueue"]

#: Bits of a part, which share what says where they are read and written, and parts that share a
#: register of ready: 16 queues of 171 bits are then 33 readers of it.
SHARING = 32
TOLD = 3


class BeatQueue(wiring.Component):
    """Keeps some of the bits of beats that come and go; several of them, written at once, are one.

    A ready that all parts look at comes a long way, so that it goes to a register and nowhere else.
    A cycle later each part shows the beat that it has read, or the same again, and of what says so
    nothing is further from a register than one LUT.

    Parameters
    ----------
    width
        Bits of a beat that are kept here.
    depth
        Beats that there is a place for besides the one that is shown, a power of two.

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
        How many beats there are, without the one that was shown in the cycle before.
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
        count = -(-len(self.o) // SHARING)
        tolds = near(m, self.ready, count, "told", sharing=TOLD)
        parts = [self._part(m, told, k) for k, told in enumerate(tolds)]
        place, end, valid = parts[0]
        m.d.comb += [self.level.eq(end - place), self.valid.eq(valid)]
        return m

    def _part(self, m, told, part):
        """Keep some of the bits; return where they are read and written, and if any are shown."""
        bits = slice(SHARING * part, min(SHARING * (part + 1), len(self.o)))
        width = bits.stop - bits.start
        m.submodules[f"storage_{part}"] = storage = Memory(shape=width, depth=self.depth, init=[])
        put, get = storage.write_port(), storage.read_port(domain="comb")

        def register(name, shape=1, **how):
            return Signal(shape, name=f"{name}_{part}", reset_less=True, **how)

        # A bit more than an address has, to tell a full queue from an empty one.
        shape = self.level.shape()
        end, place = (register(name, shape, attrs={"keep": True}) for name in ("end", "place"))
        behind = register("behind", shape, init=1)
        # What was shown, and if a beat was.
        before, held = register("before", width), register("held")
        # Of the cycle before: whether a beat was read, and whether one was there or behind it.
        went, there, second = (register(name) for name in ("went", "there", "second"))
        valid, load, more, goes = (
            Signal(name=f"{name}_{part}") for name in ("valid", "load", "more", "goes")
        )
        m.d.comb += [
            load.eq(~held | told),
            more.eq(Mux(went, second, there)),
            goes.eq(load & more),
            valid.eq(~load | more),
            put.addr.eq(end),
            put.data.eq(self.data[bits]),
            put.en.eq(self.write),
            get.addr.eq(place),
            self.o[bits].eq(Mux(load, get.data, before)),
        ]
        m.d.sync += [
            held.eq(valid),
            went.eq(goes),
            there.eq(end != place),
            second.eq(end != behind),
        ]
        with m.If(load):
            m.d.sync += before.eq(get.data)
        with m.If(goes):
            m.d.sync += [place.eq(behind), behind.eq(behind + 1)]
        with m.If(self.write):
            m.d.sync += end.eq(end + 1)
        with m.If(self.reset):
            m.d.sync += [held.eq(0), went.eq(0), there.eq(0)]
            m.d.sync += [end.eq(0), place.eq(0), behind.eq(1)]
        return place, end, valid
