"""The error of the layer before: which products are summed, and the rounding of the sums."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.loop_nest import LoopNest, strided
from seedbed.hw.tail.logit_error import error_write_layout
from seedbed.spec import BpTailConfig
from seedbed.spec.bp_tail import ERROR_SHIFT
from seedbed.spec.elasticzo import LIMIT

__all__ = ["InnerError", "sum_bits"]


def sum_bits(config: BpTailConfig) -> int:
    """Return the bits of an inner error before rounding, with its sign."""
    return (config.classes * LIMIT * (LIMIT + 1)).bit_length() + 1


class InnerError(wiring.Component):
    """Asks for the products of W' d, class after class of each word of inputs, and rounds the sums.

    With t the sum of an input, error = t / 2^8, rounded half away from zero, in -127..127; and 0
    where the activation is not positive.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`, of two layers.

    Members
    -------
    start : In(1)
        The first product's addresses are there in the next cycle.
    valid : Out(1)
        A product is asked for: of the class ``output`` and the inputs' word ``word``.
    output, word : Out
    first, last : Out(1)
        Of the products of a word.
    captured : In(1)
        The sums of a word are there.
    sums : In(lanes x signed)
    positive : In(lanes)
        Whether the activations are.
    write : Out(struct)
        ``enable``, ``address`` (of the input) and ``error``, one a cycle.
    busy : Out(1)
        From ``start`` to the last product, and from ``captured`` to the last error of a word.

    Throughput: a product a cycle. A word's errors leave while the next word's are summed.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        words = config.layers[-1].words
        super().__init__(
            {
                "start": In(1),
                "valid": Out(1),
                "output": Out(range(config.classes)),
                "word": Out(range(max(2, words))),
                "first": Out(1),
                "last": Out(1),
                "captured": In(1),
                "sums": In(data.ArrayLayout(signed(sum_bits(config)), config.lanes)),
                "positive": In(config.lanes),
                "write": Out(error_write_layout(words * config.lanes)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, words = self.config, self.config.layers[-1].words
        m.submodules.nest = nest = LoopNest([config.classes, words])
        m.d.comb += [
            nest.limits.loop_0.eq(config.classes - 1),
            nest.limits.loop_1.eq(words - 1),
            nest.load.eq(self.start),
            nest.advance.eq(self.valid),
            self.first.eq(nest.first[0]),
            self.last.eq(nest.last[0]),
            self.output.eq(
                strided(m, nest, "class_counter", len(self.output), 0, [1, 1 - config.classes])
            ),
            self.word.eq(strided(m, nest, "word_counter", len(self.word), 0, [0, 1])),
        ]
        m.d.sync += self.valid.eq(self.start | (self.valid & ~nest.last.all()))
        self._round(m)
        return m

    def _round(self, m):
        """Round a word's sums, lane by lane; the lanes' inputs follow one another."""
        lanes = self.config.lanes
        sums = Signal(self.sums.shape(), reset_less=True)
        positive = Signal(lanes, reset_less=True)
        left = Signal(range(lanes + 1))
        rounded = Signal(signed(sum_bits(self.config) - ERROR_SHIFT + 1))
        m.d.comb += [
            # Half away from zero: half a unit is added, of a negative number slightly less.
            rounded.eq((sums[0] + (1 << ERROR_SHIFT - 1) - sums[0][-1]) >> ERROR_SHIFT),
            self.write.enable.eq(left != 0),
            self.write.error.eq(
                Mux(
                    positive[0],
                    Mux(rounded > LIMIT, LIMIT, Mux(rounded < -LIMIT, -LIMIT, rounded)),
                    0,
                )
            ),
            self.busy.eq(self.valid | self.write.enable),
        ]
        with m.If(self.write.enable):
            m.d.sync += [
                left.eq(left - 1),
                positive.eq(positive >> 1),
                *(sums[k].eq(sums[k + 1]) for k in range(lanes - 1)),
                self.write.address.eq(self.write.address + 1),
            ]
        with m.If(self.captured):
            m.d.sync += [left.eq(lanes), positive.eq(self.positive), sums.eq(self.sums)]
        with m.If(self.start):
            m.d.sync += self.write.address.eq(0)
        return m
