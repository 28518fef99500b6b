"""Numbers of PeZO's generators, one for each entry of a sparse matrix."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators.lutopt import Lutopt
from seedbed.hw.generators.perturbation import exponent_above
from seedbed.hw.generators.prng_pool import PrngPool, at_least
from seedbed.hw.generators.urng_array import UrngArray
from seedbed.spec import SparseMacConfig
from seedbed.spec.lutopt import SEED_BITS

__all__ = ["SparseNumbers", "generator_of", "number_of"]


def generator_of(config: SparseMacConfig) -> wiring.Component:
    """Return what draws the numbers of a seed: a stream ``o``, with seeds at ``i_seed``."""
    return Lutopt(config.generator) if config.source == "lutopt" else SparseNumbers(config)


def number_of(config: SparseMacConfig, generator: wiring.Component) -> Value:
    """Return the number at a generator's output."""
    found = generator.o.payload
    if config.source != "lutopt":
        return found
    bits = Cat(found)[: config.number_width]
    # Odd numbers, so that they are symmetric: twice a word, and 1.
    return Cat(1, bits[:-1], ~bits[-1])


class SparseNumbers(wiring.Component):
    """The numbers of a seed, from an array of LFSRs or from a pool.

    A beat of the array has a number for each of the next entries, lane after lane, times a power of
    two that the beat's state chooses. The pool has a number for each entry, from an index on.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig` with the source ``urng`` or ``pool``.

    Members
    -------
    i_seed : In(stream of unsigned(32))
        Any word. It is accepted in the cycle that transfers the pending number.
    o : Out(stream of signed(number_width + 1))
        Numbers. After reset, the first seed comes before a number is used.

    Latency: from a seed to its first number: lanes + 1 cycles with ``urng``, 3 with ``pool``.
    Throughput: 1 number per cycle.
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        number = signed(config.number_width + 1)
        super().__init__(
            {"i_seed": In(stream.Signature(SEED_BITS)), "o": Out(stream.Signature(number))}
        )

    def elaborate(self, platform):
        m = Module()
        start = Signal()
        m.d.comb += [
            self.i_seed.ready.eq(self.o.valid & self.o.ready),
            start.eq(self.i_seed.valid & self.i_seed.ready),
        ]
        source = {"urng": self._from_array, "pool": self._from_pool}[self.config.source]
        source(m, start)
        return m

    def _from_array(self, m, start):
        """Give the lanes of a beat, one after the other."""
        config = self.config
        m.submodules.array = array = UrngArray(config.perturbation.scale.array)
        above = exponent_above(m, array, config.perturbation.scale)
        width = config.number_width
        lane, valid, step = Signal(range(config.perturbation.scale.lanes)), Signal(), Signal()
        number = Signal(signed(width + 1), reset_less=True)
        word = self.i_seed.payload[:width]
        last = lane == config.perturbation.scale.lanes - 1
        chosen = Array(array.o.payload)[lane]
        m.d.comb += [
            # The state 0 is absorbing.
            array.i_seeds.payload.eq(Mux(word.any(), word, ~word)),
            array.i_seeds.valid.eq(start),
            step.eq(array.o.valid & (~valid | self.o.ready)),
            array.o.ready.eq((step & last) | start),
            self.o.valid.eq(valid),
            self.o.payload.eq(number),
        ]
        with m.If(~valid | self.o.ready):
            m.d.sync += [
                valid.eq(array.o.valid & ~start),
                number.eq(Cat(chosen[:-1], ~chosen[-1]).as_signed() << above),
            ]
        with m.If(start | (step & last)):
            m.d.sync += lane.eq(0)
        with m.Elif(step):
            m.d.sync += lane.eq(lane + 1)

    def _from_pool(self, m, start):
        """Read a number after the other, from an index that the seed chooses."""
        m.submodules.pool = pool = PrngPool(self.config.perturbation.pool)
        index = Signal(pool.i.payload.start.shape())
        # The bits are reversed, so that seeds in a row are far apart.
        bits = self.i_seed.payload[: len(index)][::-1]
        # In the cycle after a seed, the number that was requested before it is dropped.
        flush, seek = Signal(), Signal(init=1)
        m.d.comb += [
            pool.i.valid.eq(~start),
            pool.i.payload.seek.eq(seek),
            pool.i.payload.start.eq(index),
            pool.i.payload.count.eq(1),
            self.o.valid.eq(pool.o.valid & ~flush),
            self.o.payload.eq(pool.o.payload.lanes[0]),
            pool.o.ready.eq(self.o.ready | flush),
        ]
        m.d.sync += flush.eq(start)
        with m.If(pool.i.valid & pool.i.ready):
            m.d.sync += seek.eq(0)
        with m.If(start):
            m.d.sync += [
                index.eq(Mux(at_least(bits, self.config.perturbation.pool.size), 0, bits)),
                seek.eq(1),
            ]
