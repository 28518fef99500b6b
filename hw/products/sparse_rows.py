"""Adds the products of sparse entries to the dense sums of their rows."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.codes import codes
from seedbed.hw.products.sparse_layouts import products_layout, result_layout
from seedbed.spec import SparseMacConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_STATUS

__all__ = ["SparseRows"]

_STATUS = codes(SPARSE_MAC_STATUS)


def _each(sums):
    """Return the sum of each vector."""
    return [*sums] if isinstance(sums, data.View) else [sums]


class SparseRows(wiring.Component):
    """Adds dense sums, one per row, and products of entries, of which a row may have none.

    One adder for both: a cycle adds a product, or a dense sum, which is the last one of its row.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig`.

    Members
    -------
    start : In(1)
        A pulse before the rows of a matrix.
    run : In(1)
        Sums are added.
    rows : In
        How many rows there are.
    valid, row, products : In
        A product of each vector, and their row, in ascending order; steady until ``taken``. Only in
        ``run``.
    taken : Out(1)
        It is added in this cycle: all rows before its own have been given.
    ended, error : In(1)
        No product comes any more; and those that came are not all, because of an entry.
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
        No further row can be given: ``ended`` and ``error``.

    Latency: 1 cycle. Throughput: a product or a sum every cycle.
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        result = stream.Signature(result_layout(config))
        super().__init__(
            {
                "start": In(1),
                "run": In(1),
                "rows": In(config.row_width),
                "valid": In(1),
                "row": In(config.row_width),
                "products": In(products_layout(config)),
                "taken": Out(1),
                "ended": In(1),
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
        width, vectors = self.config.sum_width, self.config.vectors
        given, out = self.i.payload, self.o.payload
        row = Signal.like(self.row, name="next_row")
        ready = Signal()
        row_given = Signal()
        m.d.comb += [
            self.taken.eq(self.valid & (self.row == row)),
            # The next row is complete: a product of a later row is there, or none comes any more.
            ready.eq(
                self.run & ((self.valid & ~self.taken) | (self.ended & ~self.error)) & self.free
            ),
            self.broken.eq(self.ended & self.error),
            self.last_row.eq(row + 1 == self.rows),
            self.free.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(ready | self.drain),
            self.fire.eq(ready & self.i.valid),
            row_given.eq(self.fire & (self.fault == 0)),
        ]
        with m.If(given.status != 0):
            m.d.comb += self.fault.eq(given.status)
        with m.Elif(given.last != self.last_row):
            m.d.comb += self.fault.eq(_STATUS["row"])
        with m.If(self.start):
            m.d.sync += row.eq(0)
        with m.Elif(row_given):
            m.d.sync += row.eq(row + 1)
        with m.If(self.free):
            m.d.sync += [
                self.o.valid.eq(row_given | self.report),
                out.status.eq(Mux(self.report, self.status, 0)),
                out.last.eq(self.report | given.last),
            ]
        sums = data.ArrayLayout(signed(width), vectors)
        totals = Signal(sums, name="totals", reset_less=True)
        each = zip(_each(out.sum), _each(given.sum), totals, self.products, strict=True)
        for to, dense, total, product in each:
            added = Signal(signed(width), name="added")
            m.d.comb += added.eq(total + Mux(self.taken, product, dense))
            with m.If(self.taken):
                m.d.sync += total.eq(added)
            with m.If(row_given | ~self.run):
                m.d.sync += total.eq(0)
            with m.If(self.free):
                m.d.sync += to.eq(added)
            with m.If(self.free & self.report):
                m.d.sync += to.eq(0)
        return m
