"""Where the entries of a sparse matrix come from, and whether they fit it."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.codes import codes
from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.products.sparse_layouts import entry_layout, token_layout
from seedbed.spec import SparseMacConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_STATUS

__all__ = ["SparseEntries"]

_STATUS = codes(SPARSE_MAC_STATUS)


class SparseEntries(wiring.Component):
    """Gives the entries of a pass, one in every cycle of ``ce``, and then an end.

    Each entry is compared with the matrix and with the entry before. A wrong one is not given, and
    none after it.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig`.

    Members
    -------
    start : In(1)
        A pulse before ``run``, together with ``first`` and ``count`` of the pass.
    first, count : In
        Address of the first entry in the memory, and how many there are.
    rows, columns, streamed : In
        The matrix, and whether entries are those of ``i``. Steady during ``run``.
    run : In(1)
        A pass is on. Without it nothing is given.
    ce : In(1)
        Clock enable.
    i : In(stream of entries)
        Accepted during ``run``, ``count`` of them at most.
    write, write_index : In(1)
        Write ``entry`` to the next address, from ``first`` on, and whether its place is written
        too.
    entry : In(entry)
    o : Out(struct)
        Registers: ``valid``, ``end`` after the last entry, ``entry``.
    error : Out
        Registers: 0, or what is wrong with the entry that ended the pass.
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        entry = entry_layout(config)
        super().__init__(
            {
                "start": In(1),
                "first": In(range(max(2, config.entries))),
                "count": In(config.count_width),
                "rows": In(config.row_width),
                "columns": In(range(config.columns + 1)),
                "streamed": In(1),
                "run": In(1),
                "ce": In(1),
                "i": In(stream.Signature(entry)),
                "write": In(1),
                "write_index": In(1),
                "entry": In(entry),
                "o": Out(token_layout(config)),
                "error": Out(3),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # In complement. A counter that counts up, and adds nothing to what it loads, is one LUT a
        # bit.
        width = self.config.count_width
        left = Signal(width, init=(1 << width) - 1)
        none_left = Signal()
        issue = Signal()
        ended = Signal()
        issue_end = Signal()
        given = self.i.valid
        if self.config.entries:
            given = given | ~self.streamed
        m.d.comb += [
            none_left.eq(left.all()),
            issue.eq(self.run & ~none_left & given),
            issue_end.eq(self.run & none_left & ~ended),
            self.i.ready.eq(self.run & self.streamed & self.ce & ~none_left),
        ]
        with m.If(self.start | (self.ce & issue)):
            m.d.sync += left.eq(Mux(self.start, ~self.count, left) + ~self.start)
        with m.If(self.start):
            m.d.sync += ended.eq(0)
        with m.Elif(self.ce):
            m.d.sync += ended.eq(ended | issue_end)
        self._check(m, *self._read(m, issue, issue_end))
        return m

    def _read(self, m, issue, issue_end):
        """Return valid, end and the entry itself, in the same cycle."""
        if not self.config.entries:
            return issue, issue_end, self.i.payload
        config, depth = self.config, max(2, self.config.entries)
        layout = entry_layout(config)
        index_bits = layout["value"].offset
        m.submodules.index = index = memory.Memory(shape=index_bits, depth=depth, init=[])
        m.submodules.values = values = memory.Memory(
            shape=signed(config.value_width), depth=depth, init=[]
        )
        address = Signal(range(depth))
        write_address = Signal(range(depth))
        for place, moves in ((address, self.ce & issue), (write_address, self.write)):
            with m.If(self.start | moves):
                m.d.sync += place.eq(Mux(self.start, self.first, place) + ~self.start)
        ports = [(index, index.write_port(), index.read_port())]
        ports += [(values, values.write_port(), values.read_port())]
        place = Cat(self.entry.row, self.entry.column)
        for (_, put, get), word in zip(ports, (place, self.entry.value), strict=True):
            m.d.comb += [
                put.addr.eq(write_address),
                put.data.eq(word),
                get.addr.eq(address),
                get.en.eq(self.ce),
            ]
        m.d.comb += [
            ports[0][1].en.eq(self.write & self.write_index),
            ports[1][1].en.eq(self.write),
        ]
        reading = Cat(issue, issue_end) & (~self.streamed).replicate(2)
        # A memory's clock-to-output delay is long: nothing is compared in the same cycle.
        stored_valid, stored_end = delayed(m, reading, 2, "reading", enable=self.ce, reset=True)
        entry = Signal(layout)
        stored = delayed(m, Cat(ports[0][2].data, ports[1][2].data), 1, "stored", enable=self.ce)
        m.d.comb += entry.eq(Mux(self.streamed, self.i.payload, stored))
        return (
            Mux(self.streamed, issue, stored_valid),
            Mux(self.streamed, issue_end, stored_end),
            entry,
        )

    def _check(self, m, valid, end, entry):
        """Compare an entry with the matrix and with the entry before."""
        before = self.o.entry
        begun = Signal()
        found = Signal(3)
        after = Signal()
        wrong = Signal()
        m.d.comb += [
            after.eq(Cat(entry.column, entry.row) >= Cat(before.column, before.row)),
            wrong.eq(valid & (found != 0)),
        ]
        with m.If((entry.row >= self.rows) | (entry.column >= self.columns)):
            m.d.comb += found.eq(_STATUS["range"])
        with m.Elif(begun & (entry.row == before.row) & (entry.column == before.column)):
            m.d.comb += found.eq(_STATUS["repeated"])
        with m.Elif(begun & ~after):
            m.d.comb += found.eq(_STATUS["order"])
        with m.If(self.ce):
            m.d.sync += [
                self.o.valid.eq(valid & ~wrong & (self.error == 0)),
                self.o.end.eq((end | wrong) & (self.error == 0)),
            ]
            with m.If(valid):
                m.d.sync += [before.eq(entry), begun.eq(1)]
            with m.If(wrong & (self.error == 0)):
                m.d.sync += self.error.eq(found)
        with m.If(~self.run):
            m.d.sync += [self.o.valid.eq(0), self.o.end.eq(0), begun.eq(0), self.error.eq(0)]
