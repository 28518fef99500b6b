"""A matrix's sparse, trainable part: added to the sums of a dense engine, and updated."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators.lutopt import Lutopt
from seedbed.hw.parts.codes import codes
from seedbed.hw.products.sparse_entries import SparseEntries
from seedbed.hw.products.sparse_lane import SparseLane
from seedbed.hw.products.sparse_layouts import (
    command_layout,
    entry_layout,
    result_layout,
    shape_is_wrong,
    vector_layout,
)
from seedbed.hw.products.sparse_numbers import SparseNumbers
from seedbed.hw.products.sparse_rows import SparseRows
from seedbed.hw.products.sparse_vector import SparseVector
from seedbed.spec import SparseMacConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS, SPARSE_MAC_STATUS

__all__ = ["SparseMac"]

_KINDS, _STATUS = codes(SPARSE_MAC_KINDS), codes(SPARSE_MAC_STATUS)


class _Pass:
    """Signals of the pass that runs, which its states and its data path share."""

    def __init__(self, config: SparseMacConfig):
        self.command = Signal(command_layout(config), reset_less=True)
        self.status = Signal(3)
        self.product = Signal()
        self.accepts = Signal()
        self.clear = Signal()
        # Decoded states: one of these is 1, or none while idle.
        self.loading = Signal()
        self.running = Signal()
        self.draining = Signal()
        self.reporting = Signal()
        self.discard = Signal()
        # The clock enable of the entries' pipeline.
        self.ce = Signal()


class SparseMac(wiring.Component):
    """Adds a sparse matrix to a dense one, by its products with the same vector, and trains it.

    Entry n is a row, a column and a value v_n, sorted by row, then by column, each place once. With
    the numbers z_n of a seed and k one of -1, 0, 1, see :class:`~seedbed.spec.SparseMacConfig`::

        v_n' = clamp(v_n + k z_n 2^scale)
        o_r  = dense_r + 2^shift sum of v_n' x_column over the entries of row r    (product)
        v_n  = clamp(v_n - floor(gain z_n 2^(shift - 16) + 1/2))                   (update)

    ``product`` takes the vector, and then the dense engine's results on ``i_sums``, one per row.
    ``update`` reads and writes each value once. ``load`` writes entries to the core's memory.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig`.

    Members
    -------
    i : In(stream of struct)
        command: one pass over the entries of a matrix
        kind : 0 product, 1 update, 2 load of entries into the memory. Index of
            ``SPARSE_MAC_KINDS``.
        rows : matrix rows
        columns : matrix columns
        count : entries of the matrix
        first : address of the first entry in the memory. Not with streamed entries.
        shift : left shift of products, or of gain x number
        perturb : 1: values are perturbed in a product. One bit per vector; without it k is 0.
        negative : 1: the perturbation is subtracted. One bit per vector; k is -1, otherwise 1.
        scale : left shift of the perturbation
        seed : seed of the numbers: any word
        gain : gain of an update, with 16 fraction bits
        clear : 1: abort the current command; no command is started. The other fields are ignored.
    i_vector : In(stream of struct)
        input vector of a product
        lanes (group x signed(activation_width)) : next elements of the vector
        last : last beat of the vector. It has the last column.
    i_entries : In(stream of struct)
        entries, sorted by row, then by column. ``count`` entries of a ``load``, or of every command
        if entries are streamed.
        row : row of the entry
        column : column of the entry
        value : difference to the dense weight
    i_sums : In(stream of struct)
        results of the dense product, one per row. They come from
        :class:`~seedbed.hw.products.gemv.Gemv`.
        sum : dense sum of the row
        status : 0 ok; others are passed on as the end of the product
        last : last result of the dense product
    o : Out(stream of struct)
        results, one per row of a product, one per other command. The result of another command
        comes when all is done.
        sum : sum of the row with its sparse part
        status : 0 ok, 1 shape error, 2 vector error, 3 row error, 4 cleared, 5 entries not sorted,
            6 entry repeated, 7 entry out of range. Index of ``SPARSE_MAC_STATUS``.
        last : last result of the command
    o_entries : Out(stream of struct)
        entries after an update
        row : row of the entry
        column : column of the entry
        value : new value
        last : last entry of the matrix

    Errors: the ``status`` of a command's last result is an index of ``SPARSE_MAC_STATUS``. If it is
    not ``ok``, that result is an extra one with ``sum`` 0. Entries before a wrong one are loaded or
    updated; of a ``product``, the rows before that of the last right entry have results. A
    ``product`` takes the dense results up to their ``last``. Vector and entries are discarded from
    the error on until the next command; those that come with it, or after it, are its own.

    Latency: ``latency`` cycles from a dense sum to its result. It is longer while entries of the
    row are not done.
    Throughput: 1 entry and 1 sum per cycle. An update takes an entry every cycle.
    Source: SensZOQ (arXiv:2406.02913), sections 3 and 4.
    """

    latency = 1
    interval = 1

    def __init__(self, config: SparseMacConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config))),
                "i_vector": In(stream.Signature(vector_layout(config))),
                "i_entries": In(stream.Signature(entry_layout(config))),
                "i_sums": In(stream.Signature(result_layout(config))),
                "o": Out(stream.Signature(result_layout(config))),
                "o_entries": Out(stream.Signature(entry_layout(config, last=1))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.entries = entries = SparseEntries(config)
        m.submodules.lane = lane = SparseLane(config)
        generator = Lutopt(config.generator) if config.source == "lutopt" else SparseNumbers(config)
        m.submodules.generator = generator
        m.submodules.vector = vector = SparseVector(config)
        m.submodules.rows = rows = SparseRows(config)
        job = _Pass(config)
        m.d.comb += [
            job.accepts.eq(self.i.valid & self.i.ready & ~self.i.payload.clear),
            job.clear.eq(self.i.valid & self.i.ready & self.i.payload.clear),
            job.product.eq(job.command.kind == _KINDS["product"]),
            job.ce.eq((~rows.valid | rows.taken) & (~self.o_entries.valid | self.o_entries.ready)),
        ]
        with m.If(job.accepts):
            m.d.sync += job.command.eq(self.i.payload)
        # Conditions of all: flip-flops are cleared, and need no gates.
        if config.entries:
            with m.If(job.accepts & (self.i.payload.kind == _KINDS["load"])):
                m.d.sync += job.command.gain.eq(0)
        with m.If(job.accepts & (self.i.payload.kind != _KINDS["product"])):
            m.d.sync += job.command.scale.eq(0)
        self._entries(m, job, entries, lane)
        self._numbers(m, job, generator, entries, lane)
        self._vector(m, job, vector, lane)
        self._rows(m, job, rows, lane)
        self._sequence(m, job, generator, vector, rows, entries, lane)
        return m

    def _entries(self, m, job, entries, lane):
        """Connect the entries to the lane, and its updated entries to memory and output."""
        command, streamed = job.command, not self.config.entries
        load = Signal()
        m.d.comb += [
            load.eq(command.kind == _KINDS["load"]),
            entries.start.eq(job.accepts),
            entries.count.eq(self.i.payload.count),
            entries.rows.eq(command.rows),
            entries.columns.eq(command.columns),
            entries.streamed.eq(streamed | load),
            entries.ce.eq(job.ce),
            entries.i.valid.eq(self.i_entries.valid),
            entries.i.payload.eq(self.i_entries.payload),
            self.i_entries.ready.eq(entries.i.ready | job.discard),
            entries.write.eq(job.ce & lane.o.valid & ~job.product),
            entries.write_index.eq(load),
            entries.entry.eq(lane.o.entry),
            lane.i.eq(entries.o),
            lane.error.eq(entries.error != 0),
            lane.ce.eq(job.ce),
            lane.run.eq(job.running),
            lane.update.eq(~job.product),
            *(
                port.eq(command[name])
                for name, port in {
                    "perturb": lane.perturb,
                    "negative": lane.negative,
                    "scale": lane.scale,
                    "shift": lane.shift,
                    "gain": lane.gain,
                }.items()
            ),
            self.o_entries.valid.eq(
                job.running & lane.o.valid & (command.kind == _KINDS["update"])
            ),
            self.o_entries.payload.row.eq(lane.o.entry.row),
            self.o_entries.payload.column.eq(lane.o.entry.column),
            self.o_entries.payload.value.eq(lane.o.entry.value),
            self.o_entries.payload.last.eq(lane.o.last),
        ]
        if not streamed:
            m.d.comb += entries.first.eq(self.i.payload.first)

    def _numbers(self, m, job, generator, entries, lane):
        """Seed the generator with each command, and take a number with each entry."""
        number = generator.o.payload
        if self.config.source == "lutopt":
            bits = Cat(number)[: self.config.number_width]
            # Odd numbers, so that they are symmetric: twice a word, and 1.
            number = Cat(1, bits[:-1], ~bits[-1])
        m.d.comb += [
            generator.i_seed.valid.eq(job.accepts),
            generator.i_seed.payload.eq(self.i.payload.seed),
            generator.o.ready.eq(job.accepts | (job.ce & entries.o.valid)),
            entries.run.eq(job.running & generator.o.valid),
            lane.number.eq(number),
        ]

    def _vector(self, m, job, vector, lane):
        """Load the vector, and read the activation of each entry's column."""
        m.d.comb += [
            vector.start.eq(job.accepts),
            vector.columns.eq(job.command.columns),
            vector.load.eq(job.loading),
            vector.i.valid.eq(self.i_vector.valid),
            vector.i.payload.eq(self.i_vector.payload),
            self.i_vector.ready.eq(vector.i.ready | job.discard),
            vector.column.eq(lane.i.entry.column),
            vector.read.eq(job.ce & job.running),
            lane.activations.eq(vector.o),
        ]

    def _rows(self, m, job, rows, lane):
        """Connect the sums of rows, or give the result of a pass."""
        wiring.connect(m, wiring.flipped(self.i_sums), rows.i)
        wiring.connect(m, wiring.flipped(self.o), rows.o)
        m.d.comb += [
            rows.start.eq(job.accepts),
            rows.run.eq(job.running & job.product),
            rows.rows.eq(job.command.rows),
            rows.valid.eq(lane.valid & job.product),
            rows.row.eq(lane.row),
            rows.products.eq(lane.products),
            rows.ended.eq(lane.ended),
            rows.error.eq(lane.error),
            rows.report.eq(job.reporting),
            rows.status.eq(job.status),
            rows.drain.eq(job.draining),
        ]

    def _sequence(self, m, job, generator, vector, rows, entries, lane):
        """Walk through the states of a pass, from its command to its last result."""
        ends = self.i_sums.valid & self.i_sums.payload.last
        with m.FSM():
            self._idle(m, job, generator)
            with m.State("LOAD"):
                m.d.comb += [job.loading.eq(1), self.i.ready.eq(self.i.payload.clear)]
                with m.If(vector.length_error):
                    m.d.sync += job.status.eq(_STATUS["vector"])
                    m.next = "DRAIN"
                with m.Elif(job.clear):
                    m.d.sync += job.status.eq(_STATUS["cleared"])
                    m.next = "DRAIN"
                with m.Elif(vector.done):
                    m.next = "RUN"
            with m.State("RUN"):
                held = self.o_entries.valid & ~self.o_entries.ready
                m.d.comb += [job.running.eq(1), self.i.ready.eq(self.i.payload.clear & ~held)]
                with m.If(rows.fire & (rows.fault != 0)):
                    m.d.sync += job.status.eq(rows.fault)
                    m.next = "DRAIN"
                    with m.If(self.i_sums.payload.last):
                        m.next = "REPORT"
                with m.Elif(rows.fire & rows.last_row):
                    m.next = "WAIT"
                with m.Elif(job.clear):
                    m.d.sync += job.status.eq(_STATUS["cleared"])
                    m.next = "DRAIN"
                with m.Elif(job.product & rows.broken):
                    m.d.sync += job.status.eq(entries.error)
                    m.next = "DRAIN"
                with m.Elif(~job.product & lane.o.end & job.ce):
                    m.d.sync += job.status.eq(entries.error)
                    m.next = "REPORT"
            with m.State("DRAIN"):
                m.d.comb += [job.draining.eq(job.product), job.discard.eq(1)]
                m.d.comb += self.i.ready.eq(self.i.payload.clear)
                with m.If(~job.product | ends):
                    m.next = "REPORT"
            with m.State("REPORT"):
                m.d.comb += job.reporting.eq(1)
                with m.If(rows.free):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(self.o.ready):
                m.next = "IDLE"
                with m.If(job.status != 0):
                    m.next = "DISCARD"

    def _idle(self, m, job, generator):
        """Wait for a command; after an error, discard what comes before it."""
        shape_error = Signal()
        m.d.comb += shape_error.eq(shape_is_wrong(self.config, self.i.payload))
        for state in ("IDLE", "DISCARD"):
            with m.State(state):
                m.d.comb += [
                    self.i.ready.eq(generator.o.valid | self.i.payload.clear),
                    # What comes with the next command, or after it, is that command's.
                    job.discard.eq((state == "DISCARD") & ~self.i.valid),
                ]
                with m.If(job.clear):
                    m.next = "IDLE"
                with m.Elif(job.accepts):
                    m.d.sync += job.status.eq(Mux(shape_error, _STATUS["shape"], 0))
                    with m.If(shape_error):
                        m.next = "DRAIN"
                    with m.Elif(self.i.payload.kind == _KINDS["product"]):
                        m.next = "LOAD"
                    with m.Else():
                        m.next = "RUN"
