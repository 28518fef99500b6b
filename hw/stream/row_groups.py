"""Scales and minima of the groups of rows, which come from memory before the rows."""

from amaranth.hdl import Array, Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.products.gemv_layouts import groups_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import RECORD

__all__ = ["RowGroups"]

#: Parts of a beat of groups: a beat of codes of 8 bits takes one, one of 4 bits takes two.
PARTS = 8


class RowGroups(wiring.Component):
    """Keeps scales and minima of some rows, and gives those of each beat of weights.

    After the constants of as many rows as fit into a beat, there are those of the groups of these
    rows, of ``config.group_beats``: 32 bits a group, 0 for groups beyond the row's last one.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`, with ``groups``.

    Members
    -------
    start : In(1)
        A pulse before a matrix.
    packed, whole, row_beats : In
        Rows have groups; their codes have 8 bits; beats of a row. They are steady after ``begin``.
    begin : In(1)
        A pulse: the constants of some rows have been taken. All weights before have been.
    i : In(stream)
        Beats of memory, taken while it is ready.
    o, take : Out, In(1)
        Those of the next beat of weights; it is taken. Rows without groups have scales of 1.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "packed": In(1),
                "whole": In(1),
                "row_beats": In(RECORD["length"]),
                "begin": In(1),
                "i": In(stream.Signature(config.beat_bits)),
                "take": In(1),
                "o": Out(groups_layout(config.gemv)),
            }
        )

    @property
    def depth(self) -> int:
        """The most beats that come together."""
        config = self.config
        return max(
            config.group_beats(config.row_beats("groups", config.columns, whole=whole), whole=whole)
            for whole in (False, True)
        )

    def elaborate(self, platform):
        m = Module()
        config, size = self.config, self.config.beat_bits // PARTS
        fifo = SyncFIFO(width=config.beat_bits, depth=self.depth)
        m.submodules.fifo = ResetInserter(self.start)(fifo)
        left = Signal(range(self.depth + 1))
        part = Signal(range(PARTS))
        # A multiple of the beats of a row: a power of two, twice as many with codes of 4 bits.
        bits = config.group_beats(1, whole=True).bit_length() - 1
        m.d.comb += [
            self.i.ready.eq(left != 0),
            fifo.w_en.eq(self.i.valid & self.i.ready),
            fifo.w_data.eq(self.i.payload),
        ]
        with m.If(fifo.w_en):
            m.d.sync += left.eq(left - 1)
        with m.If(self.begin & self.packed):
            m.d.sync += left.eq(Mux(self.whole, self.row_beats, self.row_beats << 1) << bits)
        parts = [fifo.r_data[size * k : size * (k + 1)] for k in range(PARTS)]
        high = Mux(self.whole, 0, Array(parts[1::2])[part[1:]])
        one = Signal(groups_layout(config.gemv))
        m.d.comb += [group.scale.mantissa.eq(1) for group in one]
        m.d.comb += Value.cast(self.o).eq(
            Mux(self.packed, Cat(Array(parts)[part], high), Value.cast(one))
        )
        step = Mux(self.whole, 1, 2)
        with m.If(self.take & self.packed):
            m.d.sync += part.eq(part + step)
            m.d.comb += fifo.r_en.eq(part + step == PARTS)
        with m.If(self.start):
            m.d.sync += [left.eq(0), part.eq(0)]
        return m
