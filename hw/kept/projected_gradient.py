"""From the losses of both passes of a batch to the gain of its update."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.fixed_requantize import saturate
from seedbed.spec.fixed import Fixed
from seedbed.spec.sparse_trainer import RATE_BITS, RATE_SHIFT_BITS

__all__ = ["ProjectedGradient"]


class ProjectedGradient(wiring.Component):
    """gain = clamp(floor((L+ - L-) rate / 2^shift + 1/2)), of the sums of a batch's losses.

    Parameters
    ----------
    loss_width, sum_width, gain_width
        Bits of a loss, of the sum of those of a batch, and of a gain.

    Members
    -------
    add, subtract, loss : In
        A loss of L+, or of L-.
    start, rate, shift : In
        A pulse: all losses have come; then the next batch begins.
    done, gain, saturated : Out
        A pulse, and the gain from then on, and whether it did not fit.

    Latency: ``shift + latency`` cycles.
    """

    #: Product, rounding, saturation.
    latency = 7

    def __init__(self, *, loss_width: int, sum_width: int, gain_width: int):
        self.sum_width, self.gain_width = sum_width, gain_width
        super().__init__(
            {
                "add": In(1),
                "subtract": In(1),
                "loss": In(signed(loss_width)),
                "start": In(1),
                "rate": In(RATE_BITS),
                "shift": In(RATE_SHIFT_BITS),
                "done": Out(1),
                "gain": Out(signed(gain_width)),
                "saturated": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        total = Signal(signed(self.sum_width))
        with m.If(self.add):
            m.d.sync += total.eq(total + self.loss)
        with m.Elif(self.subtract):
            m.d.sync += total.eq(total - self.loss)
        # The registers of a multiplier.
        factor = delayed(m, total, 1, "total")
        rate = delayed(m, Cat(self.rate, Const(0, 1)).as_signed(), 1, "rate")
        product = delayed(m, factor * rate, 2, "product")
        begin = delayed(m, self.start, 3, "start", reset=True)
        # One bit after the point: the half that rounds.
        value = Signal(signed(len(product) + 1), reset_less=True)
        left = Signal(RATE_SHIFT_BITS)
        busy = Signal()
        rounded = Signal(signed(len(product) + 1), reset_less=True)
        last = Signal()
        m.d.comb += last.eq(busy & (left == 0))
        with m.If(self.start):
            m.d.sync += [total.eq(0), left.eq(self.shift)]
        with m.If(begin):
            m.d.sync += [value.eq(Cat(Const(0, 1), product)), busy.eq(1)]
        with m.Elif(busy):
            m.d.sync += [value.eq(value >> 1), left.eq(Mux(last, 0, left - 1)), busy.eq(~last)]
        m.d.sync += rounded.eq(value[1:].as_signed() + value[0])
        fit, overflow = saturate(m, rounded, Fixed(self.gain_width, 0), "gain")
        rounded_valid = delayed(m, last, 1, "rounded_valid", reset=True)
        m.d.sync += self.done.eq(rounded_valid)
        with m.If(rounded_valid):
            m.d.sync += [self.gain.eq(fit), self.saturated.eq(overflow)]
        return m
