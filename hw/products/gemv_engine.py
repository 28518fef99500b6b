"""Matrix-vector product with a beat of packed weights per cycle."""

from dataclasses import replace

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.codes import codes
from seedbed.hw.products import gemv_decode, group_array, mac_array, row_scale
from seedbed.hw.products.activation_memory import ActivationMemory
from seedbed.hw.products.gemv_decode import GemvDecode
from seedbed.hw.products.gemv_job import GemvJob
from seedbed.hw.products.gemv_layouts import (
    job_layout,
    scale_layout,
    sums_layout,
    vector_layout,
    weights_layout,
)
from seedbed.hw.products.row_scale import RowScale
from seedbed.spec import GemvConfig
from seedbed.spec.gemv import GEMV_STATUS

__all__ = ["GemvEngine", "latency", "plain_latency"]

_STATUS = codes(GEMV_STATUS)


def _product_latency(config: GemvConfig) -> int:
    """Return the cycles from weights to the scaled sum of their row."""
    if config.decode == "groups":
        return group_array.latency(config)
    return mac_array.latency(config.mac) + row_scale.latency(config)


def plain_latency(config: GemvConfig) -> int:
    """Return :attr:`GemvEngine.plain_latency`."""
    return (1 if config.decompress else gemv_decode.latency(config)) + _product_latency(config)


def latency(config: GemvConfig) -> int:
    """Return :attr:`GemvEngine.latency`."""
    return gemv_decode.latency(config) + _product_latency(config)


class GemvEngine(wiring.Component):
    """The dense part of the core ``gemv``: jobs, vectors, decoder, multipliers.

    The pipeline never stalls. Back-pressure is credit-based: a row's last beat is accepted only if
    the result FIFO has a free entry.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.

    Members
    -------
    i, i_vector, i_weights, i_scales, o : streams of struct
        As of :class:`~seedbed.hw.products.gemv.Gemv`, without the side path.
    refuse : In(1)
        The command at ``i`` is one of a wrong shape.
    load, loading, free : In(1), Out(1), Out(1)
        With ``ahead``: a pulse before the vectors of the next job, with the columns of its command;
        they have not all come. The pulse may come while ``free``.
    swap : In(1)
        With ``ahead``: the vectors of the command at ``i`` have come after ``load``.

    Latency: ``latency`` cycles from a row's last beat to its result, ``plain_latency`` if plain.
    Throughput: a beat every cycle, rows of one beat too; a beat of the vector every cycle.
    Source: SeedLM (arXiv:2410.10714), section 4.2 and Figure 4.
    """

    interval = 1

    def __init__(self, config: GemvConfig):
        self.config = config
        members = {
            "i": In(stream.Signature(job_layout(config))),
            "refuse": In(1),
            "i_vector": In(stream.Signature(vector_layout(config))),
            "i_weights": In(stream.Signature(weights_layout(config))),
            "o": Out(stream.Signature(sums_layout(config))),
        }
        if config.trellis:
            members["i_scales"] = In(stream.Signature(scale_layout()))
        if config.ahead:
            members |= {"load": In(1), "swap": In(1), "loading": Out(1), "free": Out(1)}
        super().__init__(members)

    @property
    def plain_latency(self) -> int:
        """Cycles from the last beat of a row of plain weights to its result."""
        return plain_latency(self.config)

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row of packed weights to its result."""
        return latency(self.config)

    @property
    def _limit(self) -> int:
        """Rows that may be in flight: as many as rows of one beat need for one per cycle."""
        return self.latency + 1

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = ActivationMemory(self.config)
        m.submodules.decode = decode = GemvDecode(self.config)
        # One more than the credit: an aborted job needs an entry for its last result.
        results = replace(self.config.mac, results=self._limit + 1)
        if self.config.decode == "groups":
            m.submodules.mac = mac = group_array.GroupArray(self.config, results)
        else:
            m.submodules.mac = mac = mac_array.MacArray(results)
        job = GemvJob(self._limit, memory.last_row)
        self._count(m, memory, decode, job)
        self._sequence(m, memory, job)
        m.d.comb += [
            self.i_vector.ready.eq(job.discard | (job.loading & memory.i.ready)),
            memory.i.valid.eq(job.loading & self.i_vector.valid),
            memory.i.payload.eq(self.i_vector.payload),
            memory.start.eq(job.accepts),
            memory.columns.eq(self.i.payload.columns),
            memory.plain.eq(job.plain),
        ]
        if self.config.ahead:
            self._load_ahead(m, memory, job)
        found = self._scaled(m, mac, job) if self.config.trellis else mac.o
        m.d.comb += [
            job.error_result.eq(job.draining & job.last_in_flight),
            self.o.valid.eq(found.valid),
            found.ready.eq(self.o.ready),
            self.o.payload.status.eq(Mux(job.error_result, job.status, 0)),
            self.o.payload.last.eq(job.error_result | (job.flushing & job.last_in_flight)),
        ]
        sums = found.payload
        if not self.config.trellis:
            sums = Mux(job.error_result, 0, Value.cast(sums.sums))
        m.d.comb += Value.cast(self.o.payload.sum).eq(sums)
        self._multiply(m, memory, decode, mac, job)
        return m

    def _load_ahead(self, m, memory, job):
        """Take the vectors of the next job while one runs, into the other half of the memory."""
        half = Signal()
        with m.If(job.accepts & self.swap):
            m.d.sync += half.eq(~half)
        with m.If(self.load):
            m.d.sync += self.loading.eq(1)
        with m.Elif(memory.done | memory.fault):
            m.d.sync += self.loading.eq(0)
        m.d.comb += [
            memory.reads.eq(half),
            memory.writes.eq(half ^ self.loading),
            memory.start.eq((job.accepts & ~self.swap) | self.load),
            self.free.eq(~(job.loading | self.loading)),
        ]
        if self.config.mixed:
            # For which beats those vectors are that come now.
            m.d.comb += memory.plain.eq(plain := Signal())
            with m.If(memory.start):
                m.d.sync += plain.eq(self.i.payload.plain)
        # That of the job that runs, while another one's vectors come.
        with m.If(job.loading | (job.accepts & self.swap)):
            m.d.sync += job.last_beat.eq(memory.last_row)
        with m.If(self.loading):
            m.d.comb += [
                self.i_vector.ready.eq(memory.i.ready),
                memory.i.valid.eq(self.i_vector.valid),
            ]

    def _count(self, m, memory, decode, job):
        """Count the rows of a job, the beats of a row, and the rows without a result."""
        config, command, weights = self.config, self.i.payload, self.i_weights.payload
        rows = Signal(config.row_width)
        beat = Signal.like(memory.last_row)
        row_end, room = job.row_end, Signal()
        last_beat = job.last_beat if config.ahead else memory.last_row
        ready = decode.ready
        if config.trellis:
            # The last beat of a row is accepted together with its scale.
            ready = ready & (~row_end | self.i_scales.valid)
        m.d.comb += [
            room.eq((job.in_flight != self._limit) & ready),
            self.i_weights.ready.eq(job.discard | (job.running & room)),
            job.fire.eq(job.running & self.i_weights.valid & self.i_weights.ready),
            row_end.eq((beat == last_beat) & ~job.table),
            job.row_error.eq(job.fire & (weights.last != row_end)),
            job.row_accepted.eq(job.aborting | (job.fire & (weights.last | row_end) & ~job.table)),
            job.last_row.eq(job.row_accepted & (rows == 1)),
            job.result_fire.eq(self.o.valid & self.o.ready),
            job.last_in_flight.eq(job.in_flight == 1),
        ]
        with m.If(job.accepts):
            m.d.sync += [rows.eq(command.rows), beat.eq(0)]
            if config.mixed:
                m.d.sync += job.plain.eq(command.plain)
        with m.If(job.fire):
            with m.If(~job.table):
                m.d.sync += beat.eq(Mux(job.row_accepted, 0, beat + 1))
            with m.If(job.row_accepted):
                m.d.sync += rows.eq(rows - 1)
        if config.table_beats:
            self._count_tables(m, job, rows)
        m.d.sync += job.in_flight.eq(job.in_flight + job.row_accepted - job.result_fire)

    def _scaled(self, m, mac, job):
        """Take the scale of a row with its last beat; return the stream of scaled sums."""
        # One more than the credit, as for the results.
        m.submodules.scale = scale = RowScale(self.config, self._limit + 1)
        m.d.comb += [
            self.i_scales.ready.eq(job.discard | (job.fire & job.row_end)),
            scale.write.eq(job.fire & job.row_end),
            scale.scale.eq(self.i_scales.payload),
            # The result of an aborted job: the last in flight, after the one at the output.
            scale.clear.eq(job.draining & (job.in_flight == Mux(scale.o.valid, 2, 1))),
            scale.i.valid.eq(mac.o.valid),
            scale.i.payload.eq(mac.o.payload),
            mac.o.ready.eq(scale.i.ready),
        ]
        return scale.o

    def _count_tables(self, m, job, rows):
        """Count the beats of tables that come before the next beat of codes.

        A row's table comes a row ahead, so that it is loaded by then: before the first row there
        are two, and before the last none.
        """
        beats = self.config.table_beats
        tables = Signal(range(2 * beats + 1))
        m.d.comb += job.table.eq(tables != 0)
        with m.If(job.accepts):
            m.d.sync += tables.eq(Mux(self.i.payload.rows == 1, 1, 2) * beats)
        with m.If(job.fire):
            with m.If(job.table):
                m.d.sync += tables.eq(tables - 1)
            with m.Elif(job.row_accepted):
                m.d.sync += tables.eq(Mux(rows == 2, 0, beats))

    def _sequence(self, m, memory, job):
        """Walk through the states of a job, from its command to its last result."""
        config, command = self.config, self.i.payload
        clear = Signal()
        shape_error = Signal()
        columns_error = (command.columns == 0) | (command.columns > config.columns)
        m.d.comb += [
            clear.eq(self.i.valid & command.clear),
            shape_error.eq(columns_error | (command.rows == 0) | self.refuse),
        ]
        with m.FSM():
            for state in ("IDLE", "DISCARD"):
                with m.State(state):
                    m.d.comb += [
                        self.i.ready.eq(1),
                        job.accepts.eq(self.i.valid & ~command.clear),
                        job.discard.eq(state == "DISCARD"),
                    ]
                    with m.If(clear):
                        m.next = "IDLE"
                    with m.Elif(job.accepts & shape_error):
                        m.d.sync += job.status.eq(_STATUS["shape"])
                        m.next = "ABORT"
                    with m.Elif(job.accepts):
                        m.next = "LOAD"
                        if config.ahead:
                            with m.If(self.swap):
                                m.next = "RUN"
            with m.State("LOAD"):
                m.d.comb += [job.loading.eq(1), self.i.ready.eq(command.clear)]
                with m.If(memory.done):
                    m.next = "RUN"
                with m.If(memory.fault | clear):
                    cause = Mux(memory.fault, _STATUS["vector"], _STATUS["cleared"])
                    m.d.sync += job.status.eq(cause)
                    m.next = "ABORT"
            with m.State("RUN"):
                m.d.comb += [job.running.eq(1), self.i.ready.eq(command.clear)]
                with m.If(clear):
                    m.d.sync += job.status.eq(_STATUS["cleared"])
                    m.next = "ABORT"
                with m.If(job.last_row):
                    m.next = "FLUSH"
                with m.If(job.row_error):
                    m.d.sync += job.status.eq(_STATUS["row"])
                    m.next = "DRAIN"
                    # Of a row without weights there is no beat that ends it.
                    with m.If(job.table):
                        m.next = "ABORT"
            with m.State("FLUSH"):
                m.d.comb += job.flushing.eq(1)
                with m.If(job.result_fire & job.last_in_flight):
                    m.next = "IDLE"
            with m.State("ABORT"):
                m.d.comb += [job.aborting.eq(1), job.discard.eq(1)]
                m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += [job.draining.eq(1), job.discard.eq(1)]
                with m.If(job.result_fire & job.last_in_flight):
                    m.next = "DISCARD"

    def _multiply(self, m, memory, decode, mac, job):
        """Connect the decoder, and give its weights to the multipliers with their activations."""
        valid, last, beat = decode.valid, decode.last_weights, mac.i.payload
        first = Signal(init=1)
        row = Signal.like(memory.row)
        m.d.comb += [
            decode.start.eq(job.accepts),
            decode.plain.eq(job.plain),
            decode.table.eq(job.table),
            decode.fire.eq(job.fire),
            decode.data.eq(self.i_weights.payload.data),
            # An aborted job ends its row with an arbitrary beat, so that the pipeline is empty
            # for the next job. The result of that row becomes the job's last result.
            decode.last.eq(job.row_accepted),
            decode.abort.eq(job.aborting),
            mac.i.valid.eq(valid),
            beat.first.eq(first),
            beat.last.eq(last),
            beat.weights.eq(decode.weights),
            beat.on.eq(decode.on),
            beat.activations.eq(memory.o),
            memory.row.eq(Mux(valid, Mux(last, 0, row + 1), row)),
        ]
        if self.config.mac.exponent_width:
            m.d.comb += beat.exponents.eq(decode.exponents)
        if self.config.decode == "groups":
            m.d.comb += [
                decode.groups.eq(self.i_weights.payload.groups),
                beat.groups.eq(decode.of_weights),
                beat.totals.eq(memory.totals),
            ]
        m.d.sync += row.eq(memory.row)
        with m.If(valid):
            m.d.sync += first.eq(last)
