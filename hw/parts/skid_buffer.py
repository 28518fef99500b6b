"""Skid buffer: a register slice of a stream, without a combinational path between readies."""

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import SkidBufferConfig

__all__ = ["SkidBuffer"]

#: Payload bits per copy of the write enables and of the read select.
FANOUT = 16
#: Synthesis must not merge the copies.
KEEP = {"keep": True}


class SkidBuffer(wiring.Component):
    """A two-entry FIFO whose valid and ready outputs are registers.

    The upstream ready follows the downstream ready one cycle later; the second entry stores the
    beat that is transferred in between. The downstream ready is an input of three LUTs per 16
    payload bits, and of no clock enable: it may be the output of logic.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SkidBufferConfig`.
    shape
        Of the payload, with ``config.width`` bits; unsigned by default.

    Members
    -------
    i : In(stream of ``shape``)
        input beats
    o : Out(stream of ``shape``)
        output beats: the input, unmodified and in order

    Latency: ``latency`` cycles.
    Throughput: 1 beat per cycle. This holds under back-pressure, too.
    """

    interval = 1
    latency = 1

    def __init__(self, config: SkidBufferConfig, shape: ShapeLike | None = None):
        self.config = config
        shape = config.width if shape is None else shape
        if Shape.cast(shape).width != config.width:
            raise ValueError(f"the shape must have {config.width} bits, not {shape!r}")
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # The state, and its next value: how full it is, and the entry to write and to read next.
        full, valid, write, read = (Signal(name=n) for n in ("full", "valid", "write", "read"))
        next_full, next_valid = Signal(), Signal()
        next_write, next_read = Signal(), Signal()
        push, pop = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            self.o.valid.eq(valid),
            push.eq(self.i.valid & ~full),
            pop.eq(valid & self.o.ready),
            next_full.eq(Mux(push, valid & ~pop, full & ~pop)),
            next_valid.eq(Mux(pop, full | push, valid | push)),
            next_write.eq(write ^ push),
            next_read.eq(read ^ pop),
        ]
        m.d.sync += [
            full.eq(next_full),
            valid.eq(next_valid),
            write.eq(next_write),
            read.eq(next_read),
        ]
        payload = Signal(config.width)
        out = Signal(config.width)
        m.d.comb += [payload.eq(self.i.payload), Value.cast(self.o.payload).eq(out)]
        for group in range(0, config.width, FANOUT):
            bits = slice(group, min(group + FANOUT, config.width))
            # A free entry loads the input every cycle until a beat is transferred.
            enables = [Signal(name=f"enable_{k}_{group}", init=not k, attrs=KEEP) for k in range(2)]
            select = Signal(name=f"select_{group}", attrs=KEEP)
            entries = [
                Signal(bits.stop - bits.start, name=f"entry_{k}_{group}", reset_less=True)
                for k in range(2)
            ]
            for k, (entry, enable) in enumerate(zip(entries, enables, strict=True)):
                m.d.sync += enable.eq(~next_full & (next_write == k))
                with m.If(enable):
                    m.d.sync += entry.eq(payload[bits])
            m.d.sync += select.eq(next_read)
            m.d.comb += out[bits].eq(Mux(select, entries[1], entries[0]))
        return m
