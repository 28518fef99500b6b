"""Adds the sparse parts of rows to their dense sums."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.sparse_layouts import result_layout
from seedbed.spec import SparseMacConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_STATUS

__all__ = ["ROWS_AHEAD", "SparseRows"]

_ROW = SPARSE_MAC_STATUS.index("row")
#: Rows whose sparse part may wait for the dense sum.
ROWS_AHEAD = 32


def _each(sums):
    """Return the sum of each vector."""
    return [*sums] if isinstance(sums, data.View) else [sums]


class SparseRows(wiring.Component):
    """Pairs dense sums, one per row, with sparse parts, of which not every row has one.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig`.

    Members
    -------
    start : In(1)
        A pulse before the rows of a matrix.
    run : In(1)
        Sums are added. Without it the parts that are kept are dropped.
    rows : In
        How many rows there are.
    push, row, parts : In
        Sparse parts, one of each vector, and their row, in ascending order. Only with ``room``.
    room : Out(1)
        A part may be given.
    summed, error : In(1)
        No part comes any more; and the parts that came are not all, because of an entry.
    report, status : In
        Give a result with ``last``, this status and the sum 0.
    drain : In(1)
        Sums are discarded.
    i, o : In, Out(stream of struct)
        ``sum``, ``status``, ``last``. An input with a status has no output.
    free : Out(1)
        The output is empty or transferred.
    fire : Out(1)
        A sum is transferred in ``run``.
    last_row : Out(1)
        It is that of the last row.
    fault : Out
        Its status, or that of a ``last`` which is early or missing.
    broken : Out(1)
        No further row can be given: ``error``, and no part is left.

    Latency: 1 cycle. Throughput: a sum every cycle.
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        result = stream.Signature(result_layout(config))
        super().__init__(
            {
                "start": In(1),
                "run": In(1),
                "rows": In(config.row_width),
                "push": In(1),
                "row": In(config.row_width),
                "parts": In(data.ArrayLayout(signed(config.partial_width), config.vectors)),
                "room": Out(1),
                "summed": In(1),
                "error": In(1),
                "report": In(1),
                "status": In(3),
                "drain": In(1),
                "i": In(result),
                "o": Out(result),
                "free": Out(1),
                "fire": Out(1),
                "last_row": Out(1),
                "fault": Out(3),
                "broken": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layout = data.StructLayout({"row": self.row.shape(), "parts": self.parts.shape()})
        fifo = SyncFIFO(width=layout.size, depth=ROWS_AHEAD)
        m.submodules.fifo = ResetInserter(~self.run)(fifo)
        head = data.View(layout, fifo.r_data)
        given, out = self.i.payload, self.o.payload
        row = Signal.like(self.row, name="next_row")
        add = Signal()
        ready = Signal()
        row_given = Signal()
        m.d.comb += [
            self.room.eq(fifo.w_rdy),
            fifo.w_data.eq(Cat(self.row, self.parts)),
            fifo.w_en.eq(self.push),
            add.eq(fifo.r_rdy & (head.row == row)),
            fifo.r_en.eq(row_given & add),
            # The next row's part is known, if it has one: that of it or of a later row is there.
            ready.eq(self.run & (fifo.r_rdy | (self.summed & ~self.error)) & self.free),
            self.broken.eq(~fifo.r_rdy & self.summed & self.error),
            self.last_row.eq(row + 1 == self.rows),
            self.free.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(ready | self.drain),
            self.fire.eq(ready & self.i.valid),
            row_given.eq(self.fire & (self.fault == 0)),
        ]
        with m.If(given.status != 0):
            m.d.comb += self.fault.eq(given.status)
        with m.Elif(given.last != self.last_row):
            m.d.comb += self.fault.eq(_ROW)
        with m.If(self.start):
            m.d.sync += row.eq(0)
        with m.Elif(row_given):
            m.d.sync += row.eq(row + 1)
        # The adder is after the registers: a part that is not added is cleared by its flip-flops,
        # and needs no gates.
        parts = Signal.like(head.parts, name="parts", reset_less=True)
        sums = Signal.like(out.sum, name="sums", reset_less=True)
        for to, dense, part in zip(_each(out.sum), _each(sums), parts, strict=True):
            m.d.comb += to.eq(dense + part)
        with m.If(self.free):
            m.d.sync += [
                parts.eq(head.parts),
                sums.eq(given.sum),
                self.o.valid.eq(row_given | self.report),
                out.status.eq(Mux(self.report, self.status, 0)),
                out.last.eq(self.report | given.last),
            ]
            with m.If(self.report | ~add):
                m.d.sync += parts.eq(0)
            with m.If(self.report):
                m.d.sync += sums.eq(0)
        return m
