"""A perturbation as a stream: seed in, k eps z out."""

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw import prng_pool, urng_array
from seedbed.hw.gf2 import product
from seedbed.hw.prng_pool import PrngPool
from seedbed.hw.scale_lut import ScaleLut
from seedbed.hw.urng_array import UrngArray
from seedbed.spec import PerturbationConfig

__all__ = ["Perturbation", "beat_layout", "command_layout"]


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


class Perturbation(wiring.Component):
    """Gives k eps z, exactly d numbers of it, for the seed that names z.

    A beat is n signed integers with one exponent and one sign for all of them::

        k eps z_j = (-1)**negative * lanes[j] * 2**-fraction_bits * 2**exponent

    eps is a power of two, so that no number is touched: its exponent and the scale's add up, and k
    goes along as a sign, which the consumer's adder takes as add or subtract. The same seed gives
    the same z, bit for bit; +eps, -eps and the update are three commands with one seed.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.PerturbationConfig`.

    Members
    -------
    i : In(stream of struct)
        One command a perturbation: ``seed`` (``urng``: the array's first word, not zero; ``pool``:
        the place of the first number), ``numbers`` (d; at 0 there is still one beat, of count 0),
        ``eps`` (signed exponent of two), ``negative`` (k = -1).
    o : Out(stream of struct)
        ``lanes`` (n x signed(b)), ``count`` (how many of them belong to the d numbers: n, but fewer
        in the last beat), ``exponent`` (signed), ``negative``, ``last``.

    i_pool : In(stream of struct)
        ``pool`` only: new contents, scaled before; see :class:`~seedbed.hw.prng_pool.PrngPool`.

    Latency: from the command to the first beat n cycles (``urng``: the array grows) or that of the
    pool. Throughput: a beat every cycle; the next command is taken after the last beat.
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
        source = self._from_array if self.config.source == "urng" else self._from_pool
        m.d.comb += self.o.payload.exponent.eq(source(m, busy, start) + eps)
        return m

    def _countdown(self, m, start, step):
        """Count d down by a beat's numbers a step; return this beat's count and whether it is last.

        The register holds the complement of what remains: -1 between perturbations, d and -n are
        subtracted from it. With one operand plain, adder and multiplexer share their LUTs. Whether
        a beat is the last is found a beat earlier, beside the subtraction and not behind it.
        """
        lanes = self.config.lanes
        spent = Signal(self.config.count_width, init=-1)
        remaining = Signal.like(spent)
        count = Signal(self.o.payload.count.shape())
        last = Signal()
        m.d.comb += [
            remaining.eq(~spent),
            count.eq(Mux(last, remaining, lanes)),
        ]
        with m.If(start | step):
            m.d.sync += [
                spent.eq(spent - Mux(start, self.i.payload.numbers, -lanes)),
                last.eq(Mux(start, self.i.payload.numbers < lanes + 1, remaining < 2 * lanes + 1)),
            ]
        with m.If(step & last):
            m.d.sync += spent.eq(-1)
        return count, last

    def _from_array(self, m, busy, start):
        """Numbers from the array; return what its scale adds to the exponent."""
        m.submodules.array = array = UrngArray(self.config.array)
        m.submodules.scale = scale = ScaleLut(self.config.scale)
        taken = Signal()
        count, last = self._countdown(m, start, taken)
        m.d.comb += [
            array.i_seeds.valid.eq(start),
            array.i_seeds.payload.eq(self.i.payload.seed),
            # Between perturbations a beat of the last one is pending: it is thrown away.
            array.o.ready.eq(~busy | self.o.ready),
            scale.i.valid.eq(array.moves),
            scale.i.payload.eq(product(self.config.array.lfsr.matrix, array.ahead)),
            scale.o.ready.eq(array.moves),
            self.o.valid.eq(busy & array.o.valid),
            taken.eq(self.o.valid & self.o.ready),
            self.o.payload.count.eq(count),
            self.o.payload.last.eq(last),
        ]
        for number, word in zip(self.o.payload.lanes, array.o.payload, strict=True):
            m.d.comb += number.eq(Cat(word[:-1], ~word[-1]))
        if self.config.scale.style == "constant":
            return 0
        # A table in a memory answers late in the cycle: its answer is kept for the next beat, and
        # asked for one beat earlier still.
        above = Signal(range(self.config.scale.greatest - self.config.scale.least + 1))
        with m.If(array.moves):
            m.d.sync += above.eq(scale.o.payload - self.config.scale.least)
        return above

    def _from_pool(self, m, busy, start):
        """Numbers from the pool, which were scaled before; they add nothing to the exponent."""
        m.submodules.pool = pool = PrngPool(self.config.pool)
        wiring.connect(m, wiring.flipped(self.i_pool), pool.i_pool)
        place = Signal.like(self.i.payload.seed)
        asking = Signal()
        seek = Signal()
        asked = Signal()
        count, last = self._countdown(m, start, asked)
        m.d.comb += [
            pool.i.valid.eq(asking),
            pool.i.payload.seek.eq(seek),
            pool.i.payload.start.eq(place),
            pool.i.payload.count.eq(count),
            pool.i.payload.last.eq(last),
            asked.eq(asking & pool.i.ready),
            self.o.valid.eq(pool.o.valid),
            pool.o.ready.eq(self.o.ready),
            self.o.payload.lanes.eq(pool.o.payload.lanes),
            self.o.payload.count.eq(pool.o.payload.count),
            self.o.payload.last.eq(pool.o.payload.last),
        ]
        with m.If(asked):
            m.d.sync += [seek.eq(0), asking.eq(~last)]
        with m.If(start):
            m.d.sync += [asking.eq(1), seek.eq(1), place.eq(self.i.payload.seed)]
        return 0
