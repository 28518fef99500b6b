"""Matrix-vector product with a beat of packed weights per cycle."""

from dataclasses import replace

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw import mac_array, seedlm_decompress
from seedbed.hw.activation_memory import ActivationMemory
from seedbed.hw.gemv_layouts import job_layout, sums_layout, vector_layout, weights_layout
from seedbed.hw.seedlm_decompress import SeedlmDecompress
from seedbed.spec import GemvConfig
from seedbed.spec.gemv import GEMV_STATUS

__all__ = ["GemvEngine", "latency", "plain_latency"]

_SHAPE, _VECTOR, _ROW, _CLEARED = map(GEMV_STATUS.index, ("shape", "vector", "row", "cleared"))


def plain_latency(config: GemvConfig) -> int:
    """Return :attr:`GemvEngine.plain_latency`."""
    return 1 + mac_array.latency(config.mac)


def latency(config: GemvConfig) -> int:
    """Return :attr:`GemvEngine.latency`."""
    return plain_latency(config) + seedlm_decompress.latency(config.decompress)


class _Job:
    """Signals of the job that runs, which its states, its counters and its data path share."""

    def __init__(self, limit: int):
        self.plain = Signal()
        self.status = Signal(3)
        # Decoded states: one of these is 1, or none while idle.
        self.loading = Signal()
        self.running = Signal()
        self.flushing = Signal()
        self.aborting = Signal()
        self.draining = Signal()
        self.discard = Signal()
        self.accepts = Signal()
        # Rows that were accepted whole and have no result yet.
        self.in_flight = Signal(range(limit + 2))
        self.fire = Signal()
        self.row_error = Signal()
        self.row_accepted = Signal()
        self.last_row = Signal()
        self.result_fire = Signal()
        self.last_in_flight = Signal()
        self.error_result = Signal()


class GemvEngine(wiring.Component):
    """y = W x, exact in integers; W is streamed once, a beat per cycle, and x is stored.

    A job is a command, the vector, the rows of W one after the other, and a result per row. With
    packed weights, whose blocks b of C columns give sums S and an exponent e, or plain weights w::

        y_r = sum over b of 2^(e_rb + 8) sum over c of S_rbc x_(C b + c)        (packed)
        y_r = sum over c of w_rc x_c                                            (plain)

    so that the value of a packed row is ``y_r 2^-8 / (2^(B - 1) - 1)`` times the scales of tensor
    and vector. Every row begins in a new beat; the unused part of its last beat counts as 0. The
    pipeline never stalls. Back-pressure is credit-based: a row's last beat is accepted only if the
    result FIFO has a free entry.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.

    Members
    -------
    i : In(stream of struct)
        ``columns`` (1 .. ``config.columns``), ``rows`` (from 1), ``plain`` (plain weights, not
        packed) and ``clear``. A command is accepted after the last result of the job before. With
        ``clear`` the other fields are ignored and a running job is aborted.
    i_vector : In(stream of struct)
        ``lanes`` (group x signed(activation_width)), ``last`` with the beat of the last column.
    i_weights : In(stream of struct)
        ``data`` (beat_bits bits: blocks or plain weights, the first one lowest), ``last`` with the
        last beat of every row.
    o : Out(stream of struct)
        ``sum`` (signed(accumulator_width)), ``status`` (see below), ``last`` with the job's last.

    Errors: the ``status`` of a job's last result is an index of
    :data:`~seedbed.spec.GEMV_STATUS`. If it is not ``ok``, that result is an extra one, with
    ``sum`` 0, and the beats of vector and weights are discarded from the error on until the next
    command. The errors are ``shape`` (columns or rows out of range), ``vector`` or ``row`` (a
    ``last`` that is missing or too early), and ``cleared``. The sources must have stopped before
    the next command, because later beats belong to its job. A command with ``clear`` ends the
    discarding and has no other effect.

    Latency: ``latency`` cycles from a row's last beat to its result, ``plain_latency`` if plain.
    Throughput: a beat every cycle, rows of one beat too; a beat of the vector every cycle.
    Source: SeedLM (arXiv:2410.10714), section 4.2 and Figure 4.
    """

    interval = 1

    def __init__(self, config: GemvConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(job_layout(config))),
                "i_vector": In(stream.Signature(vector_layout(config))),
                "i_weights": In(stream.Signature(weights_layout(config))),
                "o": Out(stream.Signature(sums_layout(config))),
            }
        )

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
        m.submodules.decompress = decompress = SeedlmDecompress(self.config.decompress)
        # One more than the credit: an aborted job needs an entry for its last result.
        results = replace(self.config.mac, results=self._limit + 1)
        m.submodules.mac = mac = mac_array.MacArray(results)
        weights = self.i_weights.payload
        job = _Job(self._limit)
        held = Signal(weights.shape(), reset_less=True)
        held_valid = Signal()
        self._count(m, memory, job)
        self._sequence(m, memory, job)
        m.d.comb += [
            self.i_vector.ready.eq(job.discard | (job.loading & memory.i.ready)),
            memory.i.valid.eq(job.loading & self.i_vector.valid),
            memory.i.payload.eq(self.i_vector.payload),
            memory.start.eq(job.accepts),
            memory.columns.eq(self.i.payload.columns),
            memory.plain.eq(job.plain),
        ]
        m.d.sync += [
            # An aborted job ends its row with an arbitrary beat, so that the pipeline is empty
            # for the next job. The result of that row becomes the job's last result.
            held_valid.eq(job.fire | job.aborting),
            held.data.eq(weights.data),
            held.last.eq(job.row_accepted),
        ]
        m.d.comb += [
            job.error_result.eq(job.draining & job.last_in_flight),
            self.o.valid.eq(mac.o.valid),
            mac.o.ready.eq(self.o.ready),
            self.o.payload.sum.eq(Mux(job.error_result, 0, mac.o.payload.sums[0])),
            self.o.payload.status.eq(Mux(job.error_result, job.status, 0)),
            self.o.payload.last.eq(job.error_result | (job.flushing & job.last_in_flight)),
        ]
        self._multiply(m, memory, decompress, mac, held, held_valid, job.plain)
        return m

    def _count(self, m, memory, job):
        """Count the rows of a job, the beats of a row, and the rows without a result."""
        command, weights = self.i.payload, self.i_weights.payload
        rows = Signal(self.config.row_width)
        beat = Signal.like(memory.last_row)
        row_end = Signal()
        m.d.comb += [
            self.i_weights.ready.eq(job.discard | (job.running & (job.in_flight != self._limit))),
            job.fire.eq(job.running & self.i_weights.valid & self.i_weights.ready),
            row_end.eq(beat == memory.last_row),
            job.row_error.eq(job.fire & (weights.last != row_end)),
            job.row_accepted.eq(job.aborting | (job.fire & (weights.last | row_end))),
            job.last_row.eq(job.row_accepted & (rows == 1)),
            job.result_fire.eq(self.o.valid & self.o.ready),
            job.last_in_flight.eq(job.in_flight == 1),
        ]
        with m.If(job.accepts):
            m.d.sync += [job.plain.eq(command.plain), rows.eq(command.rows), beat.eq(0)]
        with m.If(job.fire):
            m.d.sync += beat.eq(Mux(job.row_accepted, 0, beat + 1))
            with m.If(job.row_accepted):
                m.d.sync += rows.eq(rows - 1)
        m.d.sync += job.in_flight.eq(job.in_flight + job.row_accepted - job.result_fire)

    def _sequence(self, m, memory, job):
        """Walk through the states of a job, from its command to its last result."""
        config, command = self.config, self.i.payload
        clear = Signal()
        shape_error = Signal()
        m.d.comb += [
            clear.eq(self.i.valid & command.clear),
            shape_error.eq(
                (command.columns == 0) | (command.columns > config.columns) | (command.rows == 0)
            ),
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
                        m.d.sync += job.status.eq(_SHAPE)
                        m.next = "ABORT"
                    with m.Elif(job.accepts):
                        m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += [job.loading.eq(1), self.i.ready.eq(command.clear)]
                with m.If(memory.done):
                    m.next = "RUN"
                with m.If(memory.fault | clear):
                    m.d.sync += job.status.eq(Mux(memory.fault, _VECTOR, _CLEARED))
                    m.next = "ABORT"
            with m.State("RUN"):
                m.d.comb += [job.running.eq(1), self.i.ready.eq(command.clear)]
                with m.If(clear):
                    m.d.sync += job.status.eq(_CLEARED)
                    m.next = "ABORT"
                with m.If(job.last_row):
                    m.next = "FLUSH"
                with m.If(job.row_error):
                    m.d.sync += job.status.eq(_ROW)
                    m.next = "DRAIN"
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

    def _multiply(self, m, memory, decompress, mac, held, held_valid, plain):
        """Connect the multipliers to the decompressor or, for plain weights, to the beat."""
        config = self.config
        packed, beat = decompress.o.payload, mac.i.payload
        valid = Signal()
        last = Signal()
        first = Signal(init=1)
        row = Signal.like(memory.row)
        bits = config.block_bits
        blocks = [held.data[bits * b : bits * (b + 1)] for b in range(config.mac.blocks)]
        m.d.comb += [
            decompress.i.valid.eq(held_valid & ~plain),
            decompress.i.payload.last.eq(held.last),
            decompress.o.ready.eq(1),
            valid.eq(Mux(plain, held_valid, decompress.o.valid)),
            last.eq(Mux(plain, held.last, packed.last)),
            mac.i.valid.eq(valid),
            beat.first.eq(first),
            beat.last.eq(last),
            beat.activations.eq(memory.o),
            memory.row.eq(Mux(valid, Mux(last, 0, row + 1), row)),
        ]
        m.d.comb += [to.eq(b) for to, b in zip(decompress.i.payload.blocks, blocks, strict=True)]
        m.d.sync += row.eq(memory.row)
        with m.If(valid):
            m.d.sync += first.eq(last)
        for lane, weight in enumerate(packed.weights):
            b, at = lane // config.block, lane * config.plain_width
            if lane < config.plain_lanes:
                raw = held.data[at : at + config.plain_width].as_signed()
                m.d.comb += beat.weights[lane].eq(Mux(plain, raw, weight))
            elif b * config.block < config.plain_lanes:
                m.d.comb += beat.weights[lane].eq(Mux(plain, 0, weight))
            else:
                m.d.comb += beat.weights[lane].eq(weight)
        for b, exponent in enumerate(packed.exponents):
            m.d.comb += [
                beat.exponents[b].eq(Mux(plain, -8, exponent)),
                beat.on[b].eq(~plain | (b * config.block < config.plain_lanes)),
            ]
