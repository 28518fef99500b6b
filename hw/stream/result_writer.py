"""Writes the results of passes to the store, or gives them out, a record after another."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.stream_layouts import element_layout, result_layout, unwritten_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE

__all__ = ["ResultWriter"]


class ResultWriter(wiring.Component):
    """Takes results of a record while the operands of the next one are read.

    At most one earlier record has results on their way when a record begins.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, while ``waiting`` is 0, and with it what follows, which is steady until
        ``waiting`` is 0 again:
    silent, stored, gives, at, beats : In
        The record has no results; they are written to the store, or they go out; their place and
        their beats.
    i : In(stream)
        The results.
    waits : In(1)
        The store's port is another part's.
    write, write_at, values : Out
        The store's port.
    o : Out(stream)
        Results that go out.
    waiting, draining : Out(1)
        Results of an earlier record come before those of this one; results of any record come.
    unwritten : Out
        The beats of an earlier record's results that are not in the store yet.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        results = stream.Signature(result_layout(config))
        flags = {name: In(1) for name in ("start", "silent", "stored", "gives")}
        super().__init__(
            flags
            | {
                "at": In(PLACE["place"]),
                "beats": In(config.unit.length_bits),
                "i": In(results),
                "waits": In(1),
                "write": Out(1),
                "write_at": Out(range(config.store)),
                "values": Out(element_layout(config)),
                "o": Out(results),
                "waiting": Out(1),
                "draining": Out(1),
                "unwritten": Out(unwritten_layout()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        given = self.i
        # Where results that come belong: also those of a record before the one that runs.
        stores = Signal()
        out = Signal()
        earlier = Signal()
        place = Signal.like(self.at)
        end = Signal(len(place) + 1)
        ended = Signal()
        m.d.comb += [
            given.ready.eq((~out | self.o.ready) & ~(stores & self.waits)),
            self.o.valid.eq(given.valid & out),
            Value.cast(self.o.payload).eq(Value.cast(given.payload)),
            self.write.eq(given.valid & stores & ~self.waits),
            self.write_at.eq(place),
            self.values.eq(given.payload.values),
            ended.eq(given.valid & given.ready & given.payload.last),
            self.unwritten.on.eq(earlier & stores),
            self.unwritten.first.eq(place),
            self.unwritten.end.eq(end),
        ]
        with m.If(ended):
            m.d.sync += [self.draining.eq(0), earlier.eq(0)]
        with m.If(self.write):
            m.d.sync += place.eq(place + 1)
        with m.If(self.waiting & (ended | ~self.draining)):
            m.d.sync += [
                self.waiting.eq(0),
                self.draining.eq(1),
                stores.eq(self.stored),
                out.eq(self.gives),
                place.eq(self.at),
                end.eq(self.at + self.beats),
            ]
        with m.If(self.start):
            m.d.sync += [self.waiting.eq(~self.silent), earlier.eq(self.draining & ~ended)]
        return m
