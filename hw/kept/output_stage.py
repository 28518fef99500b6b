"""From a layer's sums to its outputs: bias, shift, rounding, saturation, ReLU."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.layer_table import layer_layout
from seedbed.hw.kept.weight_reader import WeightReader
from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.parts.fixed_requantize import overflows
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.sparse_trainer import BIAS_BITS, MOST_BIAS_SHIFT

__all__ = ["OutputStage"]


class OutputStage(wiring.Component):
    """clamp(floor((sum + bias 2^bias_shift) / 2^shift + 1/2)), and max(0, ..) with ``relu``.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    layer : In(struct)
        See :func:`~seedbed.hw.kept.layer_table.layer_layout`; ``last`` selects the logits' format.
    start : In(1)
        A pulse before the sums of a layer.
    valid, sum, last : In
        The sum of the next row, and whether it is the last one.
    row : Out
        The row whose bias is needed.
    bias : In(signed(32))
        It, :attr:`WeightReader.bias_latency` cycles later.
    o_valid, o, o_last : Out
        The outputs, ``latency`` cycles later.

    Throughput: a sum every cycle.
    """

    #: Bias, its shift, sum, three shifts, rounding, saturation.
    latency = WeightReader.bias_latency + 7

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        super().__init__(
            {
                "layer": In(layer_layout(config)),
                "start": In(1),
                "valid": In(1),
                "sum": In(signed(config.gemv.result_width)),
                "last": In(1),
                "row": Out(config.row_width),
                "bias": In(signed(BIAS_BITS)),
                "o_valid": Out(1),
                "o": Out(signed(config.output.width)),
                "o_last": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layer = self.layer
        with m.If(self.start):
            m.d.sync += self.row.eq(0)
        with m.Elif(self.valid):
            m.d.sync += self.row.eq(self.row + 1)
        latency = WeightReader.bias_latency
        total = delayed(m, self.sum, latency + 1, "sum")
        bias = Signal(signed(BIAS_BITS + MOST_BIAS_SHIFT), reset_less=True)
        width = max(len(total), len(bias)) + 1
        biased = Signal(signed(width), reset_less=True)
        m.d.sync += [bias.eq(self.bias << layer.bias_shift), biased.eq(total + bias)]
        # One bit after the point: the half that rounds.
        value = Cat(Const(0, 1), biased).as_signed()
        for low, high in ((4, 6), (2, 4), (0, 2)):
            shifted = Signal(value.shape(), name=f"shifted_{low}", reset_less=True)
            m.d.sync += shifted.eq(value >> (layer.shift[low:high] << low))
            value = shifted
        rounded = Signal(signed(width + 1), reset_less=True)
        m.d.sync += rounded.eq(value[1:].as_signed() + value[0])
        self._saturate(m, rounded)
        flags = delay_line(
            m, Cat(self.valid, self.valid & self.last), self.latency, "flags", reset=True
        )
        m.d.comb += Cat(self.o_valid, self.o_last).eq(flags[-1])
        return m

    def _saturate(self, m, rounded):
        """Saturate to the format of an activation or of a logit; a negative number is 0 by ReLU."""
        config, layer = self.config, self.layer
        forms = Fixed(config.activation_width, 0), Fixed(config.logits.width, 0)
        overflow, low, high = (
            Mux(layer.last, *reversed(found))
            for found in (
                [overflows(rounded, form) for form in forms],
                [Const(form.low, signed(config.output.width)) for form in forms],
                [Const(form.high, signed(config.output.width)) for form in forms],
            )
        )
        negative = rounded[-1]
        with m.If(negative & layer.relu):
            m.d.sync += self.o.eq(0)
        with m.Elif(overflow):
            m.d.sync += self.o.eq(Mux(negative, low, high))
        with m.Else():
            m.d.sync += self.o.eq(rounded)
