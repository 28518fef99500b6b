"""Perturbation stream: a seed in, the numbers k eps z out."""

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators import lutopt, prng_pool, urng_array
from seedbed.hw.generators.lutopt import Lutopt
from seedbed.hw.generators.prng_pool import PrngPool
from seedbed.hw.generators.scale_lut import ScaleLut
from seedbed.hw.generators.urng_array import UrngArray
from seedbed.hw.parts.gf2 import product
from seedbed.spec import PerturbationConfig, ScaleConfig

__all__ = ["Perturbation", "beat_layout", "command_layout", "exponent_above"]


def command_layout(config: PerturbationConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`Perturbation`."""
    return data.StructLayout(
        {
            "seed": Shape.cast(range(config.seeds.stop)),
            "numbers": config.count_width,
            "eps": signed(config.eps_width),
            "negative": 1,
        }
    )


def beat_layout(config: PerturbationConfig) -> data.StructLayout:
    """Return the layout of a beat, see :class:`Perturbation`."""
    return data.StructLayout(
        {
            "lanes": data.ArrayLayout(signed(config.width), config.lanes),
            "count": Shape.cast(range(config.lanes + 1)),
            "exponent": Shape.cast(config.exponents),
            "negative": 1,
            "last": 1,
        }
    )


def _increased(eps, above):
    """Return eps + ``above``, without a carry chain where the table's exponents need one bit."""
    if len(Value.cast(above)) > 1:
        return eps + above
    return Cat(bit ^ (above & eps[:k].all()) for k, bit in enumerate([*eps, eps[-1]])).as_signed()


def exponent_above(m: Module, array: UrngArray, config: ScaleConfig) -> Value | int:
    """Add the table of a grown array's scales; return the exponent of its beat less the least."""
    m.submodules.scale = scale = ScaleLut(config)
    m.d.comb += [
        scale.i.valid.eq(array.advance),
        scale.i.payload.eq(product(config.array.lfsr.matrix, array.ahead)),
        scale.o.ready.eq(array.advance),
    ]
    if config.style == "constant":
        return 0
    # A memory's clock-to-output delay is long, so the table's output is registered. It is read one
    # beat earlier to compensate.
    above = Signal(range(config.greatest - config.least + 1))
    with m.If(array.advance):
        m.d.sync += above.eq(scale.o.payload - config.least)
    return above


class Perturbation(wiring.Component):
    """Generates the d numbers of k eps z, where z is determined by a seed.

    A beat is n signed integers with one common exponent and one common sign::

        k eps z_j = (-1)**negative * lanes[j] * 2**-fraction_bits * 2**exponent

    eps is a power of two: its exponent is added to the scale's, the integers are unchanged. k is a
    sign bit, which selects addition or subtraction in the sink's adder. The same seed gives the
    same z, bit for bit; +eps, -eps and the update are three commands with one seed.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.PerturbationConfig`.

    Members
    -------
    i : In(stream of struct)
        command: one perturbation stream
        seed : seed of the stream, or address in the pool. ``urng``: the array's first word, not
            zero; ``pool``: the index of the first number; ``lutopt``: any word of 32 bits.
        numbers : length of the stream in numbers. It is d; 0 gives one beat of count 0.
        eps (signed) : step size e: numbers are scaled by 2^e
        negative : 1: negate all numbers. k is -1.
    o : Out(stream of struct)
        perturbations: lane x 2^exponent, negated if negative is 1
        lanes (n x signed(b)) : numbers before scaling and negation
        count : number of valid lanes. It is n, or less in the last beat.
        exponent (signed) : scale exponent, constant over the stream
        negative : sign, constant over the stream
        last : last beat of the stream
    i_pool : In(stream of struct)
        pool contents, write stream. ``pool`` only. The contents are already scaled; see
        :class:`~seedbed.hw.generators.prng_pool.PrngPool`.
        number : next number of the pool
        last : last number of the pool

    Latency: ``latency`` cycles from command to first beat. ``urng``: n cycles, in which the array
    grows; ``pool``: one more than the pool's; ``lutopt``: that of
    :class:`~seedbed.hw.generators.lutopt.Lutopt`.
    Throughput: 1 beat per cycle. The next command is accepted after the last beat.
    Source: PeZO (ICCAD 2025), sections 3.1 and 3.2; replay by seed as in MeZO.
    """

    interval = 1

    def __init__(self, config: PerturbationConfig):
        self.config = config
        members = {
            "i": In(stream.Signature(command_layout(config))),
            "o": Out(stream.Signature(beat_layout(config))),
        }
        if config.source == "pool":
            members["i_pool"] = In(stream.Signature(prng_pool.number_layout(config.pool)))
        super().__init__(members)

    @property
    def latency(self) -> int:
        """Cycles from the command to the first beat."""
        if self.config.source == "urng":
            return urng_array.latency(self.config.array)
        if self.config.source == "lutopt":
            return lutopt.latency(self.config.lutopt)
        return 1 + prng_pool.latency(self.config.pool)

    def elaborate(self, platform):
        m = Module()
        busy = Signal()
        start = Signal()
        eps = Signal(signed(self.config.eps_width))
        negative = Signal()
        m.d.comb += [
            self.i.ready.eq(~busy),
            start.eq(self.i.valid & ~busy),
            self.o.payload.negative.eq(negative),
        ]
        with m.If(start):
            m.d.sync += [
                busy.eq(1),
                eps.eq(self.i.payload.eps),
                negative.eq(self.i.payload.negative),
            ]
        with m.If(self.o.valid & self.o.ready & self.o.payload.last):
            m.d.sync += busy.eq(0)
        sources = {"urng": self._from_array, "pool": self._from_pool, "lutopt": self._from_lutopt}
        source = sources[self.config.source]
        m.d.comb += self.o.payload.exponent.eq(_increased(eps, source(m, busy, start)))
        return m

    def _countdown(self, m, start, step):
        """Count d down by n per step; return the current beat's count and whether it is the last.

        The register holds n less the numbers that remain: ``last`` is its sign. Between
        perturbations nothing remains; d and -n are subtracted. One operand is the register itself,
        so that adder and multiplexer share their LUTs.
        """
        lanes = self.config.lanes
        excess = Signal(range(lanes + 1 - 2**self.config.count_width, lanes + 1), init=lanes)
        count = Signal(self.o.payload.count.shape())
        last = Signal()
        m.d.comb += [
            last.eq(excess >= 0),
            count.eq(Mux(last, (lanes - excess)[: len(count)], lanes)),
        ]
        with m.If(start | step):
            m.d.sync += excess.eq(excess - Mux(start, self.i.payload.numbers, -lanes))
        with m.If(step & last):
            m.d.sync += excess.eq(lanes)
        return count, last

    def _from_array(self, m, busy, start):
        """Connect the array; return the term that its scale adds to the exponent."""
        m.submodules.array = array = UrngArray(self.config.array)
        self._from_generator(m, busy, start, array.i_seeds, array.o)
        return exponent_above(m, array, self.config.scale)

    def _from_lutopt(self, m, busy, start):
        """Connect the linear generator; its scale is constant, so the exponent's term is 0."""
        m.submodules.generator = generator = Lutopt(self.config.lutopt)
        self._from_generator(m, busy, start, generator.i_seed, generator.o)
        return 0

    def _from_generator(self, m, busy, start, seeds, words):
        """Connect a generator that never ends: its seeds, and its words as signed numbers."""
        fire = Signal()
        count, last = self._countdown(m, start, fire)
        m.d.comb += [
            seeds.valid.eq(start),
            seeds.payload.eq(self.i.payload.seed),
            # Between perturbations a beat of the previous one is pending and is discarded.
            words.ready.eq(~busy | self.o.ready),
            self.o.valid.eq(busy & words.valid),
            fire.eq(self.o.valid & self.o.ready),
            self.o.payload.count.eq(count),
            self.o.payload.last.eq(last),
        ]
        for number, word in zip(self.o.payload.lanes, words.payload, strict=True):
            m.d.comb += number.eq(Cat(word[:-1], ~word[-1]))

    def _from_pool(self, m, busy, start):
        """Connect the pool; its numbers are already scaled, so the exponent's term is 0."""
        m.submodules.pool = pool = PrngPool(self.config.pool)
        wiring.connect(m, wiring.flipped(self.i_pool), pool.i_pool)
        index = Signal.like(self.i.payload.seed)
        requesting = Signal()
        seek = Signal()
        request_fire = Signal()
        count, last = self._countdown(m, start, request_fire)
        m.d.comb += [
            pool.i.valid.eq(requesting),
            pool.i.payload.seek.eq(seek),
            pool.i.payload.start.eq(index),
            pool.i.payload.count.eq(count),
            pool.i.payload.last.eq(last),
            request_fire.eq(requesting & pool.i.ready),
            self.o.valid.eq(pool.o.valid),
            pool.o.ready.eq(self.o.ready),
            self.o.payload.lanes.eq(pool.o.payload.lanes),
            self.o.payload.count.eq(pool.o.payload.count),
            self.o.payload.last.eq(pool.o.payload.last),
        ]
        with m.If(request_fire):
            m.d.sync += [seek.eq(0), requesting.eq(~last)]
        with m.If(start):
            m.d.sync += [requesting.eq(1), seek.eq(1), index.eq(self.i.payload.seed)]
        return 0
