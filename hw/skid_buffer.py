"""Register slice of a stream: no ready passes through it in the same cycle."""

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import SkidBufferConfig

__all__ = ["SkidBuffer"]

#: Bits of a payload that share their enables and their select.
FANOUT = 16
#: Registers with the same value are not to be merged.
KEEP = {"keep": True}


class SkidBuffer(wiring.Component):
    """Two entries that are written and read in turns, so that valid and ready come from registers.

    The upstream sees its ready a cycle after the downstream has changed its own: the second entry
    takes the beat that is transferred in between. The downstream's ready reaches three LUTs for
    every 16 bits of the payload, and no clock enable: it may come from logic.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SkidBufferConfig`.
    shape
        Of the payload, with ``config.width`` bits; unsigned by default.

    Members
    -------
    i : In(stream of ``shape``)
    o : Out(stream of ``shape``)
        The same beats in the same order.

    Latency: ``latency`` cycle. Throughput: a beat every cycle, whatever ready does.
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
        # State, and what it is in the next cycle: beats inside, and which entry is next.
        full, valid, write, read = (Signal(name=n) for n in ("full", "valid", "write", "read"))
        will_be_full, will_be_valid = Signal(), Signal()
        will_write, will_read = Signal(), Signal()
        puts, gets = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            self.o.valid.eq(valid),
            puts.eq(self.i.valid & ~full),
            gets.eq(valid & self.o.ready),
            will_be_full.eq(Mux(puts, valid & ~gets, full & ~gets)),
            will_be_valid.eq(Mux(gets, full | puts, valid | puts)),
            will_write.eq(write ^ puts),
            will_read.eq(read ^ gets),
        ]
        m.d.sync += [
            full.eq(will_be_full),
            valid.eq(will_be_valid),
            write.eq(will_write),
            read.eq(will_read),
        ]
        payload = Signal(config.width)
        out = Signal(config.width)
        m.d.comb += [payload.eq(self.i.payload), Value.cast(self.o.payload).eq(out)]
        for group in range(0, config.width, FANOUT):
            bits = slice(group, min(group + FANOUT, config.width))
            # An entry that is free takes whatever is at the input until a beat is transferred.
            opens = [Signal(name=f"opens_{k}_{group}", init=not k, attrs=KEEP) for k in range(2)]
            selects = Signal(name=f"selects_{group}", attrs=KEEP)
            entries = [
                Signal(bits.stop - bits.start, name=f"entry_{k}_{group}", reset_less=True)
                for k in range(2)
            ]
            for k, (entry, open_) in enumerate(zip(entries, opens, strict=True)):
                m.d.sync += open_.eq(~will_be_full & (will_write == k))
                with m.If(open_):
                    m.d.sync += entry.eq(payload[bits])
            m.d.sync += selects.eq(will_read)
            m.d.comb += out[bits].eq(Mux(selects, entries[1], entries[0]))
        return m
