"""An array of LFSR uniform generators whose outputs rotate."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.gf2 import product
from seedbed.spec import LfsrConfig, UrngConfig, gf2

__all__ = ["UrngArray", "latency"]

#: Lanes per clock-enable LUT, approximately.
LANES_PER_ENABLE = 11


def latency(config: UrngConfig) -> int:
    """Return :attr:`UrngArray.latency`."""
    return 1 if config.seeding == "serial" else config.lanes


class UrngArray(wiring.Component):
    """n LFSRs of b bits; lane j shows generator (j + t) mod n at beat t.

    Rotation needs no extra logic. The outputs are wired to fixed lanes, and each lane loads the
    next state of the generator in the lane above::

        state[j]' = A**leap state[(j + 1) mod n]

    with A the bit-serial step of :class:`~seedbed.hw.generators.lfsr.Lfsr`. At ``leap`` 1 that is a
    shift and one XOR of taps per lane: one LUT. A beat is the n states, words in 1 .. 2^b - 1; the
    signed number is ``word - 2**(b - 1)``. Every bit is linear over GF(2) in the seeds, so the
    words necessarily fail matrix-rank and linear-complexity tests.

    Seeding ``serial`` takes b beats with one bit per generator. The states rotate while the seed
    bits are shifted in, so beat t carries at lane l bit t of the seed of generator
    (l - (b - 1) + t) mod n. Load and data are the fifth and sixth input of the lane's LUT. Of a
    frame longer than b beats, the last b count.

    Seeding ``grown`` takes one word w and grows the array in n cycles: words
    ``A**(i * (leap + spacing)) w`` enter at lane n - 1 one after the other and are stepped as they
    are shifted to lower lanes, so that generator i starts at
    ``A**(leap * (n - 1) + i * spacing) w``.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.UrngConfig`.

    Members
    -------
    i_seeds : In(stream)
        seeds of all lanes. The first beat of a seed is accepted in the cycle that transfers the
        pending output beat, if there is one, so that a valid beat is stable. To reseed, the sink
        must accept that beat.
        payload (unsigned(b)) : initial state that all lanes are derived from; nonzero unless repair
            is set. ``grown`` only: one word.
        bits (n x 1 bit) : one bit per lane, shifted in at the most significant end. ``serial``
            only: b beats per frame. No seed may be zero (the all-zero state is absorbing), unless
            ``repair`` is set, which replaces zero seeds in frames of exactly b beats.
        last : last bits of the seeds. ``serial`` only.
    o : Out(stream of ArrayLayout(unsigned(b), tile))
        uniform random numbers, one per lane. Lane l is generator position l mod n. Valid from reset
        on, with the default seeds, but not while seeds are loaded.
    ahead : Out(unsigned(b))
        state of generator 0 at the next beat. ``grown`` only. The generator may be at any lane. The
        state is the address for a table with a registered read.
    advance : Out(1)
        1: the next cycle outputs the beat of ahead. ``grown`` only.

    Latency: ``latency`` cycles from the end of the seed to the first beat. ``serial``: 1 cycle from
    the ``last`` seed beat; ``grown``: n cycles from the word.
    Throughput: 1 beat per cycle. Period with the default phases: the least common multiple of n and
    an LFSR's period, n (2^b - 1) beats where those have no common factor.
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
            members |= {"ahead": Out(config.width), "advance": Out(1)}
        super().__init__(members)

    @property
    def latency(self) -> int:
        """Cycles from the end of the seed to the first beat."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        lanes = self.config.lanes
        # A floorplan finds the registers by these names, so synthesis must keep them.
        states = [
            Signal(self.config.width, init=seed, name=f"state_{j}", attrs={"keep": True})
            for j, seed in enumerate(self.config.seeds)
        ]
        valid = Signal(init=1)
        # The output register is empty, or its beat is transferred in this cycle.
        free = Signal()
        m.d.comb += [
            free.eq(~valid | self.o.ready),
            self.o.valid.eq(valid),
            Cat(self.o.payload).eq(Cat(states[k % lanes] for k in range(self.config.tile))),
        ]
        rotated = [product(self.config.lfsr.matrix, states[(j + 1) % lanes]) for j in range(lanes)]
        load = self._serial if self.config.seeding == "serial" else self._grown
        load(m, states, rotated, valid, free)
        return m

    def _serial(self, m, states, rotated, valid, free):
        seed = self.i_seeds.payload
        bits = self._repaired(m, seed, states, free) if self.config.repair else seed.bits
        m.d.comb += self.i_seeds.ready.eq(free)
        # The lanes' clock enable is one LUT after `ready`. It is duplicated to limit its fan-out:
        # each group of lanes has a separate `valid`. Lanes j and n - 1 - j are in the same group,
        # because they are adjacent in the folded ring placement.
        groups = -(-len(states) // LANES_PER_ENABLE)
        valids = [Signal(init=1, name=f"valid_{k}", attrs={"keep": True}) for k in range(groups)]
        for j, state in enumerate(states):
            lane_valid = valids[min(j, len(states) - 1 - j) * groups // -(-len(states) // 2)]
            shifted = Cat(states[(j + 1) % len(states)][1:], bits[j])
            with m.If(Mux(lane_valid, self.o.ready, self.i_seeds.valid)):
                m.d.sync += state.eq(Mux(self.i_seeds.valid, shifted, rotated[j]))
        with m.If(free & self.i_seeds.valid):
            m.d.sync += [v.eq(seed.last) for v in (valid, *valids)]

    def _repaired(self, m, seed, states, free):
        """Return the seed bits; the last bit is set where all bits of a generator's seed are 0."""
        lanes = len(states)
        ones = Signal(lanes)
        # The flags rotate with the states that they belong to.
        rotated = Cat(ones[1:], ones[0])
        with m.If(free & self.i_seeds.valid):
            m.d.sync += ones.eq(Mux(seed.last, 0, rotated | Cat(seed.bits)))
        repaired = Signal(data.ArrayLayout(1, lanes))
        m.d.comb += repaired.eq(Cat(seed.bits) | Mux(seed.last, ~rotated, 0))
        return repaired

    def _grown(self, m, states, rotated, valid, free):
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
            self.advance.eq(start | growing | (valid & self.o.ready)),
        ]
        with m.If(self.advance):
            for state, value in zip(states[:-1], rotated[:-1], strict=True):
                m.d.sync += state.eq(value)
            m.d.sync += [
                states[-1].eq(
                    Mux(start, word, Mux(growing, product(entry, states[-1]), rotated[-1]))
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
