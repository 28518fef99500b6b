"""The power-of-two scale of a beat, addressed by the first generator's state."""

from amaranth.hdl import Array, Module, Shape, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import ScaleConfig

__all__ = ["ScaleLut"]


class ScaleLut(wiring.Component):
    """A table of the exponents e of 2^e, nearest to E||N(0, I_n)|| / ||u||, for every state.

    The table stores the offset from the least exponent. It is a constant where only one exponent
    occurs, a few LUTs where the table is small, and otherwise a memory with a registered read (one
    block RAM at 31 lanes of 14 bits).

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ScaleConfig`.

    Members
    -------
    i : In(stream of unsigned(b))
        state of generator 0. It comes, for example, from ``ahead`` of
        :class:`~seedbed.hw.generators.urng_array.UrngArray`.
    o : Out(stream of range(least, greatest + 1))
        exponent k of the scale 2^k

    Latency: ``latency`` cycles.
    Throughput: 1 exponent per cycle.
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
        fire = Signal()
        m.d.comb += [
            self.o.valid.eq(valid),
            self.i.ready.eq(~valid | self.o.ready),
            fire.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
        offsets = [exponent - config.least for exponent in config.exponents]
        shape = range(max(offsets) + 1)
        if config.style == "memory":
            table = memory.Memory(shape=Shape.cast(shape), depth=len(offsets), init=offsets)
            m.submodules.table = table
            port = table.read_port()
            m.d.comb += [port.addr.eq(self.i.payload), port.en.eq(fire)]
            m.d.comb += self.o.payload.eq(port.data + config.least)
        elif config.style == "logic":
            entry = Signal(shape)
            with m.If(fire):
                m.d.sync += entry.eq(Array(offsets)[self.i.payload])
            m.d.comb += self.o.payload.eq(entry + config.least)
        else:
            m.d.comb += self.o.payload.eq(config.least)
        return m
