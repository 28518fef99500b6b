"""Walks the rows of dense layers, as the parameter memory has them."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.loop_nest import LoopNest, strided
from seedbed.spec import BpTailConfig

__all__ = ["RowWalk"]


class RowWalk(wiring.Component):
    """Gives output and inputs of each word of ``lanes`` numbers, row by row, way by way.

    A row has ``row_lanes`` inputs of each of ``ways`` outputs. A group of outputs has as many rows
    as its inputs take. What the last row and the last group have more than the layer is padding.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`.
    last_only
        The walk is over the last layer only; ``word`` and ``output`` begin with 0. Otherwise,
        words are those of all layers, one after the other, and the outputs of the first of two
        layers come after those of the last one.

    Members
    -------
    layer : In
        Which layer. Steady from ``load`` to the last word.
    load : In(1)
        The first word of the layer is there in the next cycle.
    advance : In(1)
        The next word is there in the next cycle.
    word : Out
        Which ``lanes`` of the layer's inputs.
    output : Out
        Which of its outputs.
    address : Out(range(config.entries))
        Number of the word among those that are no padding, over all layers.
    padding : Out(1)
        Of the whole word.
    partial : Out(1)
        The word is the last of an output: its last lanes may be padding.
    last : Out(1)
        The layer's last word.
    """

    def __init__(self, config: BpTailConfig, *, last_only: bool = False):
        self.config = config
        layers = self._layers = config.layers[-1:] if last_only else config.layers
        word_bases = [0, config.layers[0].words][: len(layers)]
        output_bases = [config.classes, 0][-len(layers) :]
        self._bases = word_bases, output_bases
        self._row_words = config.row_lanes // config.lanes
        words = [
            base + each.group_rows * self._row_words
            for base, each in zip(word_bases, layers, strict=True)
        ]
        outputs = [
            base + each.groups * config.ways
            for base, each in zip(output_bases, layers, strict=True)
        ]
        super().__init__(
            {
                "layer": In(range(max(2, len(layers)))),
                "load": In(1),
                "advance": In(1),
                "word": Out(range(max(words) + 1)),
                "output": Out(range(max(outputs) + 1)),
                "address": Out(range(config.entries + 1)),
                "padding": Out(1),
                "partial": Out(1),
                "last": Out(1),
            }
        )

    def _of_layer(self, values: Sequence[int]) -> Value:
        """Return the value of the layer that is walked."""
        first, *others = values
        return Mux(self.layer, others[0], first) if others else Value.cast(first)

    def elaborate(self, platform):
        m = Module()
        config, layers, row_words = self.config, self._layers, self._row_words
        word_bases, output_bases = self._bases
        rows = [each.group_rows for each in layers]
        groups = [each.groups for each in layers]
        counts = [row_words, config.ways, max(rows), max(groups)]
        m.submodules.nest = nest = LoopNest(counts)
        limits = data.View(nest.limits.shape(), nest.limits.as_value())
        entries = [each.outputs * each.words for each in layers]
        m.d.comb += [
            limits.loop_0.eq(row_words - 1),
            limits.loop_1.eq(config.ways - 1),
            limits.loop_2.eq(self._of_layer([count - 1 for count in rows])),
            limits.loop_3.eq(self._of_layer([count - 1 for count in groups])),
            nest.load.eq(self.load),
            nest.advance.eq(self.advance),
            self.last.eq(nest.last.all()),
        ]
        word = strided(
            m, nest, "word_counter", len(self.word), self._of_layer(word_bases),
            [1, 1 - row_words, 1, self._of_layer([1 - count * row_words for count in rows])],
        )  # fmt: skip
        output = strided(
            m, nest, "output_counter", len(self.output), self._of_layer(output_bases),
            [0, 1, 1 - config.ways, 1],
        )  # fmt: skip
        ends = [base + each.words for base, each in zip(word_bases, layers, strict=True)]
        stops = [base + each.outputs for base, each in zip(output_bases, layers, strict=True)]
        m.d.comb += [
            self.word.eq(word),
            self.output.eq(output),
            self.padding.eq((word >= self._of_layer(ends)) | (output >= self._of_layer(stops))),
            self.partial.eq(word + 1 == self._of_layer(ends)),
        ]
        with m.If(self.advance & ~self.padding):
            m.d.sync += self.address.eq(self.address + 1)
        with m.If(self.load):
            m.d.sync += self.address.eq(
                self._of_layer([sum(entries[:k]) for k in range(len(layers))])
            )
        return m
