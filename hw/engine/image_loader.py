"""Puts an image into the store, where a convolution's windows will find it."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.store_writes import put_layout
from seedbed.hw.engine.vector_loader import vectors_layout
from seedbed.spec.engine import EngineConfig

__all__ = ["ImageLoader"]


class ImageLoader(wiring.Component):
    """Counts through the rows of an image.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    buffer_select : In(1)
        Of the store, steady during an image.
    i : In(stream of struct)
        ``values`` (ways numbers), ``last``: row by row, column by column, channel by channel. Every
        row begins in a new beat. The unused part of its last beat is ignored.
    o : Out(stream of struct)
        ``address``, ``values``, ``count``: to the engine.
    done, length_error : Out(1)
        With the transfer of ``last``: all of the image has come, or less or more of it. What is
        too much is dropped.

    No latency. Throughput: a beat every cycle.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        super().__init__(
            {
                "buffer_select": In(1),
                "i": In(stream.Signature(vectors_layout(config))),
                "o": Out(stream.Signature(put_layout(config))),
                "done": Out(1),
                "length_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, given, put = self.config.plan, self.i, self.o
        ways, region = plan.ways, plan.image
        rows, along = region.shape[0], region.shape[1] * region.shape[2]
        beats = -(-along // ways)
        beat = Signal(range(beats))
        row = Signal(range(rows))
        offset = Signal(range(rows * region.stride + along))
        discard = Signal()
        fire = Signal()
        ends = Signal()
        row_last = Signal()
        # A number in the store may be wider than a value.
        pairs = zip(put.payload.values, given.payload.values, strict=True)
        m.d.comb += [
            put.valid.eq(given.valid & ~discard),
            given.ready.eq(put.ready | discard),
            *(to.eq(value) for to, value in pairs),
            put.payload.address.eq(
                region.origin + offset + (self.buffer_select << (len(put.payload.address) - 1))
            ),
            put.payload.count.eq(ways),
            fire.eq(given.valid & given.ready),
            row_last.eq(beat == beats - 1),
            ends.eq(row_last & (row == rows - 1) & ~discard),
            self.done.eq(fire & given.payload.last & ends),
            self.length_error.eq(fire & given.payload.last & ~ends),
        ]
        with m.If(row_last):
            m.d.comb += put.payload.count.eq(along - (beats - 1) * ways)
        with m.If(fire):
            m.d.sync += [beat.eq(beat + 1), offset.eq(offset + ways)]
            with m.If(row_last):
                step = region.stride - (beats - 1) * ways
                m.d.sync += [beat.eq(0), row.eq(row + 1), offset.eq(offset + step)]
            with m.If(ends):
                m.d.sync += discard.eq(1)
            with m.If(given.payload.last):
                m.d.sync += [beat.eq(0), row.eq(0), offset.eq(0), discard.eq(0)]
        return m
