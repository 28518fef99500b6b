"""ReLU, and the maximum over a square of outputs."""

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Pool"]


class Pool(wiring.Component):
    """Takes the maximum of numbers that come one after the other, negative ones as 0 by choice.

    Parameters
    ----------
    shape, count
        Of a number, signed, and how many there are side by side.

    Members
    -------
    valid, first, relu : In(1)
        Numbers come; they begin a new maximum; negative ones count as 0.
    i : In(count x shape)
    o : Out(count x shape)
        The maxima so far, ``latency`` cycles after a number.

    Latency: ``latency`` cycle. Throughput: one set of numbers a cycle.
    """

    latency = 1

    def __init__(self, shape: Shape, count: int):
        numbers = data.ArrayLayout(shape, count)
        super().__init__(
            {"valid": In(1), "first": In(1), "relu": In(1), "i": In(numbers), "o": Out(numbers)}
        )

    def elaborate(self, platform):
        m = Module()
        for k, (value, out) in enumerate(zip(self.i, self.o, strict=True)):
            rectified = Signal(value.shape(), name=f"rectified_{k}")
            peak = Signal(value.shape(), name=f"peak_{k}", reset_less=True)
            m.d.comb += [rectified.eq(Mux(self.relu & value[-1], 0, value)), out.eq(peak)]
            with m.If(self.valid & (self.first | (rectified > peak))):
                m.d.sync += peak.eq(rectified)
        return m
