"""An array of LFSR uniform generators whose outputs rotate."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.gf2 import product
from seedbed.spec import LfsrConfig, UrngConfig, gf2

__all__ = ["UrngArray", "latency"]

#: Lanes that one LUT enables, more or less.
ENABLED = 11


def latency(config: UrngConfig) -> int:
    """Return :attr:`UrngArray.latency`."""
    return 1 if config.seeding == "serial" else config.lanes


class UrngArray(wiring.Component):
    """n LFSRs of b bits; lane j shows generator (j + t) mod n at beat t.

    Rotation costs nothing, because the *states* move instead of the outputs::

        state[j]' = A**leap state[(j + 1) mod n]

    with A the bit-serial step of :class:`~seedbed.hw.lfsr.Lfsr`. At ``leap`` 1 that is a shift and
    one XOR of taps a lane: one LUT. A beat is n words in 1 .. 2^b - 1, the states themselves; the
    signed number is ``word - 2**(b - 1)``. Every bit is linear over GF(2) in the seeds, so the
    words fail matrix-rank and linear-complexity tests by nature.

    Seeding ``serial`` takes b beats of a bit a generator. The states move on as they are filled, so
    beat t carries at lane l bit t of the seed of generator (l - (b - 1) + t) mod n; load and data
    are the fifth and sixth input of the lane's LUT. Frames longer than b beats leave the last b.

    Seeding ``grown`` takes one word w and grows the array in n cycles: words
    ``A**(i * (leap + spacing)) w`` enter at lane n - 1 one after the other and are stepped on
    their way down, so that generator i starts at ``A**(leap * (n - 1) + i * spacing) w``.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.UrngConfig`.

    Members
    -------
    i_seeds : In(stream)
        ``serial``: a struct of ``bits`` (n x 1 bit) and ``last``; b beats a frame. No seed may be
        zero (the all-zero state is absorbing), unless ``repair`` is set, which mends frames of
        exactly b beats.
        ``grown``: unsigned(b), one word; not zero, unless ``repair`` is set.
        The first beat of a seed is accepted together with the pending output beat, if there is one,
        so that no beat changes while it waits: whoever wants to reseed takes that beat.
    o : Out(stream of ArrayLayout(unsigned(b), tile))
        Lane l is generator position l mod n. Valid from reset on, with the default seeds, but
        not while seeds are loaded.
    ahead : Out(unsigned(b))
        Only with ``grown``: the state that generator 0 has at the *next* beat, wherever rotation
        has moved it: the address for a table that answers in the next cycle.
    moves : Out(1)
        Only with ``grown``: high when the next cycle's beat is the one that ``ahead`` speaks of.

    Latency: 1 cycle from the ``last`` seed beat to the first beat (``serial``), n cycles from the
    word (``grown``). Throughput: a beat every cycle. Period with the default phases: the least
    common multiple of n and an LFSR's own, n (2^b - 1) beats where those have no common factor.
    Source: PeZO (ICCAD 2025), section 3.1.
    """

    interval = 1

    def __init__(self, config: UrngConfig):
        self.config = config
        serial = data.StructLayout({"bits": data.ArrayLayout(1, config.lanes), "last": 1})
        members = {
            "i_seeds": In(stream.Signature(serial if config.seeding == "serial" else config.width)),
            "o": Out(stream.Signature(data.ArrayLayout(config.width, config.tile))),
        }
        if config.seeding == "grown":
            members |= {"ahead": Out(config.width), "moves": Out(1)}
        super().__init__(members)

    @property
    def latency(self) -> int:
        """Cycles from the end of the seed to the first beat."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        lanes = self.config.lanes
        # Kept by these names, which a floorplan finds them by in a design around the array.
        states = [
            Signal(self.config.width, init=seed, name=f"state_{j}", attrs={"keep": True})
            for j, seed in enumerate(self.config.seeds)
        ]
        valid = Signal(init=1)
        # A free output register: nothing is pending, or it is taken in this cycle.
        free = Signal()
        m.d.comb += [
            free.eq(~valid | self.o.ready),
            self.o.valid.eq(valid),
            Cat(self.o.payload).eq(Cat(states[k % lanes] for k in range(self.config.tile))),
        ]
        moved = [product(self.config.lfsr.matrix, states[(j + 1) % lanes]) for j in range(lanes)]
        load = self._serial if self.config.seeding == "serial" else self._grown
        load(m, states, moved, valid, free)
        return m

    def _serial(self, m, states, moved, valid, free):
        seed = self.i_seeds.payload
        bits = self._repaired(m, seed, states, free) if self.config.repair else seed.bits
        m.d.comb += self.i_seeds.ready.eq(free)
        # What moves the lanes is a LUT behind `ready` that reaches all their registers: there is
        # one for every few lanes, because each has a `valid` of its own. Lanes j and n - 1 - j have
        # the same one: they stand together when their ring is folded to be placed.
        groups = -(-len(states) // ENABLED)
        valids = [Signal(init=1, name=f"valid_{k}", attrs={"keep": True}) for k in range(groups)]
        for j, state in enumerate(states):
            near = valids[min(j, len(states) - 1 - j) * groups // -(-len(states) // 2)]
            shifted = Cat(states[(j + 1) % len(states)][1:], bits[j])
            with m.If(Mux(near, self.o.ready, self.i_seeds.valid)):
                m.d.sync += state.eq(Mux(self.i_seeds.valid, shifted, moved[j]))
        with m.If(free & self.i_seeds.valid):
            m.d.sync += [v.eq(seed.last) for v in (valid, *valids)]

    def _repaired(self, m, seed, states, free):
        """Return the seed bits, with the last one set for generators that got none but zeros."""
        lanes = len(states)
        ones = Signal(lanes)
        # The marks move along with the states that they speak of.
        moved = Cat(ones[1:], ones[0])
        with m.If(free & self.i_seeds.valid):
            m.d.sync += ones.eq(Mux(seed.last, 0, moved | Cat(seed.bits)))
        repaired = Signal(data.ArrayLayout(1, lanes))
        m.d.comb += repaired.eq(Cat(seed.bits) | Mux(seed.last, ~moved, 0))
        return repaired

    def _grown(self, m, states, moved, valid, free):
        config = self.config
        word = self.i_seeds.payload
        if config.repair:
            word = Cat(word[:-1], word[-1] | ~word.any())
        entry = config.lfsr.jump(config.leap + config.spacing)
        ahead = Signal(config.width, init=gf2.apply(config.lfsr.matrix, config.seeds[0]))
        # A maximal-length register of k bits counts the 2^k - 1 lanes in one LUT.
        counter = LfsrConfig(width=config.lanes.bit_length())
        count = Signal(counter.width, init=1)
        growing = Signal()
        grown = Signal()
        start = Signal()
        m.d.comb += [
            self.i_seeds.ready.eq(free & ~growing),
            start.eq(self.i_seeds.valid & self.i_seeds.ready),
            self.ahead.eq(ahead),
            self.moves.eq(start | growing | (valid & self.o.ready)),
        ]
        with m.If(self.moves):
            for state, value in zip(states[:-1], moved[:-1], strict=True):
                m.d.sync += state.eq(value)
            m.d.sync += [
                states[-1].eq(
                    Mux(start, word, Mux(growing, product(entry, states[-1]), moved[-1]))
                ),
                ahead.eq(product(config.lfsr.matrix, Mux(start, word, ahead))),
            ]
        m.d.comb += grown.eq(count == gf2.apply(counter.jump(-1), 1))
        with m.If(start | growing):
            m.d.sync += [
                count.eq(product(counter.matrix, count)),
                growing.eq(~grown),
                valid.eq(grown),
            ]
