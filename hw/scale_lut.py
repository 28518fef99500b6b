"""The power-of-two scale of a beat, looked up by the first generator's state."""

from amaranth.hdl import Array, Module, Shape, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import ScaleConfig

__all__ = ["ScaleLut"]


class ScaleLut(wiring.Component):
    """A table of the exponents e of 2^e, nearest to E||N(0, I_n)|| / ||u||, for every state.

    Only what is above the least exponent is stored: nothing where one exponent is all there is, a
    few LUTs where the table is small, else a memory with a registered read (one block RAM at 31
    lanes of 14 bits).

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ScaleConfig`.

    Members
    -------
    i : In(stream of unsigned(b))
        A state of generator 0, wherever rotation has moved it: what
        :class:`~seedbed.hw.urng_array.UrngArray` gives as ``ahead``.
    o : Out(stream of range(least, greatest + 1))
        The exponent.

    Latency: 1 cycle. Throughput: an exponent every cycle.
    Source: PeZO (ICCAD 2025), section 3.2, Eq. 3 to 5 and Figure 2.
    """

    latency = 1
    interval = 1

    def __init__(self, config: ScaleConfig):
        self.config = config
        shape = Shape.cast(range(config.least, config.greatest + 1))
        super().__init__(
            {"i": In(stream.Signature(config.width)), "o": Out(stream.Signature(shape))}
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        valid = Signal()
        take = Signal()
        m.d.comb += [
            self.o.valid.eq(valid),
            self.i.ready.eq(~valid | self.o.ready),
            take.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
        above = [exponent - config.least for exponent in config.exponents]
        shape = range(max(above) + 1)
        if config.style == "memory":
            table = memory.Memory(shape=Shape.cast(shape), depth=len(above), init=above)
            m.submodules.table = table
            port = table.read_port()
            m.d.comb += [port.addr.eq(self.i.payload), port.en.eq(take)]
            m.d.comb += self.o.payload.eq(port.data + config.least)
        elif config.style == "logic":
            entry = Signal(shape)
            with m.If(take):
                m.d.sync += entry.eq(Array(above)[self.i.payload])
            m.d.comb += self.o.payload.eq(entry + config.least)
        else:
            m.d.comb += self.o.payload.eq(config.least)
        return m
