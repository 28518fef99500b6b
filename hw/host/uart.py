"""Asynchronous serial receiver and transmitter: 8 data bits, no parity, one stop bit."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["UartReceiver", "UartTransmitter"]

#: Data bits of a byte.
BITS = 8


class UartReceiver(wiring.Component):
    """Receives bytes; each bit is sampled once, in its middle.

    Parameters
    ----------
    divisor
        Clock cycles of a bit, 4 or more.

    Members
    -------
    rx : In(1)
        The line, asynchronous; high when idle.
    o : Out(stream of unsigned(8))
        A byte. The line has no back-pressure: a byte that arrives while one is pending is lost, as
        is one without a stop bit.
    """

    def __init__(self, divisor: int):
        self.divisor = divisor
        super().__init__({"rx": In(1, init=1), "o": Out(stream.Signature(BITS))})

    def elaborate(self, platform):
        m = Module()
        line = Signal(init=1)
        m.submodules.line = FFSynchronizer(self.rx, line, init=1)
        busy = Signal()
        timer = Signal(range(self.divisor))
        # Sampled bits; the start bit reaches the end with the last data bit.
        bits = Signal(BITS + 1, init=-1)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(~busy):
            m.d.sync += [timer.eq(self.divisor // 2 - 1), bits.eq(-1), busy.eq(~line)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(self.divisor - 1), bits.eq(Cat(bits[1:], line))]
            with m.If(bits.all() & line):
                # The middle of a start bit is high: it was noise.
                m.d.sync += busy.eq(0)
            with m.If(~bits[0]):
                m.d.sync += busy.eq(0)
                with m.If(line & (~self.o.valid | self.o.ready)):
                    m.d.sync += [self.o.payload.eq(bits[1:]), self.o.valid.eq(1)]
        return m


class UartTransmitter(wiring.Component):
    """Transmits bytes, one after the other without a pause if ``i`` is always valid.

    Parameters
    ----------
    divisor
        Clock cycles of a bit, 4 or more.

    Members
    -------
    i : In(stream of unsigned(8))
        A byte, transferred at the end of its stop bit.
    tx : Out(1)
        The line, from a register; high when idle.
    """

    def __init__(self, divisor: int):
        self.divisor = divisor
        super().__init__({"i": In(stream.Signature(BITS)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        timer = Signal(range(self.divisor))
        # Start bit, data and stop bit.
        index = Signal(range(BITS + 2))
        bits = Cat(Const(0, 1), self.i.payload, Const(1, 1))
        end = Signal()
        m.d.comb += [end.eq(timer == self.divisor - 1), self.i.ready.eq(end & (index == BITS + 1))]
        m.d.sync += self.tx.eq(bits.bit_select(index, 1) | ~self.i.valid)
        with m.If(self.i.valid):
            m.d.sync += timer.eq(timer + 1)
            with m.If(end):
                m.d.sync += [timer.eq(0), index.eq(index + 1)]
                with m.If(index == BITS + 1):
                    m.d.sync += index.eq(0)
        return m
