"""Matrix-vector product at the speed at which packed weights come."""

from dataclasses import replace

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw import mac_array, seedlm_decompress
from seedbed.hw.activation_memory import ActivationMemory
from seedbed.hw.seedlm_decompress import SeedlmDecompress
from seedbed.spec import SeedlmGemvConfig
from seedbed.spec.seedlm_gemv import GEMV_STATUS

__all__ = ["SeedlmGemv", "command_layout", "result_layout", "vector_layout", "weights_layout"]

_SHAPE, _VECTOR, _ROW, _CLEARED = map(GEMV_STATUS.index, ("shape", "vector", "row", "cleared"))


def command_layout(config: SeedlmGemvConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`SeedlmGemv`."""
    fields = {"columns": range(config.columns + 1), "rows": config.row_width, "plain": 1}
    return data.StructLayout(fields | {"clear": 1})


def vector_layout(config: SeedlmGemvConfig) -> data.StructLayout:
    """Return the layout of a beat of activations, see :class:`SeedlmGemv`."""
    lanes = data.ArrayLayout(signed(config.activation_width), config.group)
    return data.StructLayout({"lanes": lanes, "last": 1})


def weights_layout(config: SeedlmGemvConfig) -> data.StructLayout:
    """Return the layout of a beat of weights, see :class:`SeedlmGemv`."""
    return data.StructLayout({"data": config.beat_bits, "last": 1})


def result_layout(config: SeedlmGemvConfig) -> data.StructLayout:
    """Return the layout of a result, see :class:`SeedlmGemv`."""
    fields = {"sum": signed(config.mac.accumulator_width), "status": 3, "last": 1}
    return data.StructLayout(fields)


class SeedlmGemv(wiring.Component):
    """y = W x, exact in integers; W passes by once, a beat a cycle, and x stays here.

    A job is a command, the vector, the rows of W one after the other, and a result a row. With
    packed weights, whose blocks b of C columns give sums S and an exponent e, or plain weights w::

        y_r = sum over b of 2^(e_rb + 8) sum over c of S_rbc x_(C b + c)        (packed)
        y_r = sum over c of w_rc x_c                                            (plain)

    so that the value of a packed row is ``y_r 2^-8 / (2^(B - 1) - 1)`` times the scales of tensor
    and vector. Every row begins with a beat of its own; what is left over of its last beat counts
    as 0. Nothing stalls between input and results: a row's last beat is let in only where a place
    among the results is free.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SeedlmGemvConfig`.

    Members
    -------
    i : In(stream of struct)
        ``columns`` (1 .. ``config.columns``), ``rows`` (from 1), ``plain`` (which sort of weights)
        and ``clear``. A job's command waits until the one before has given its last result. With
        ``clear`` the rest counts for nothing and a job that runs is cut short.
    i_vector : In(stream of struct)
        ``lanes`` (group x signed(activation_width)), ``last`` with the one that holds the last
        column.
    i_weights : In(stream of struct)
        ``data`` (beat_bits bits: blocks or plain weights, the first one lowest), ``last`` with the
        last beat of every row.
    o : Out(stream of struct)
        ``sum`` (signed(accumulator_width)), ``status`` (see below), ``last`` with the job's last.

    Errors: a job ends with a result of ``last``, whose ``status`` says how, by its place in
    :data:`~seedbed.spec.GEMV_STATUS`. Other than ``ok`` it is no row's, its ``sum`` is 0, and
    vector and weights are taken and dropped from the fault on until the next command: ``shape``
    (columns or rows out of range), ``vector`` or ``row`` (a ``last`` that is missing or too early),
    ``cleared``. What sends must have stopped before that command, for what comes behind it belongs
    to its job; one with ``clear`` ends the dropping and does no more.

    Latency: ``latency`` cycles from a row's last beat to its result, ``plain_latency`` if plain.
    Throughput: a beat every cycle, rows of one beat too; a beat of the vector every cycle.
    Source: SeedLM (arXiv:2410.10714), section 4.2 and Figure 4.
    """

    interval = 1

    def __init__(self, config: SeedlmGemvConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config))),
                "i_vector": In(stream.Signature(vector_layout(config))),
                "i_weights": In(stream.Signature(weights_layout(config))),
                "o": Out(stream.Signature(result_layout(config))),
            }
        )

    @property
    def plain_latency(self) -> int:
        """Cycles from the last beat of a row of plain weights to its result."""
        return 1 + mac_array.latency(self.config.mac)

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row of packed weights to its result."""
        return self.plain_latency + seedlm_decompress.latency(self.config.decompress)

    @property
    def _limit(self) -> int:
        """Rows that may be on their way: as many as rows of one beat need for one a cycle."""
        return self.latency + 1

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = ActivationMemory(self.config)
        m.submodules.decompress = decompress = SeedlmDecompress(self.config.decompress)
        # One more than are let in: a job that is broken off needs a place for its last result.
        results = replace(self.config.mac, results=self._limit + 1)
        m.submodules.mac = mac = mac_array.MacArray(results)
        config, command, weights = self.config, self.i.payload, self.i_weights.payload
        rows = Signal(config.row_width)
        plain = Signal()
        status = Signal(3)
        # Rows that were let in whole and have not left, and the beat of the row that is next.
        flying = Signal(range(self._limit + 2))
        beat = Signal.like(memory.last_row)
        accepts = Signal()
        clears = Signal()
        misfit = Signal()
        # What the engine is at: one of these, or none of them where it waits for a command.
        loading = Signal()
        running = Signal()
        flushing = Signal()
        breaks = Signal()
        fails = Signal()
        dropping = Signal()
        faulty = Signal()
        moved = Signal()
        ends = Signal()
        wrong = Signal()
        enters = Signal()
        taken = Signal()
        final = Signal()
        held = Signal(weights.shape(), reset_less=True)
        held_valid = Signal()
        m.d.comb += [
            clears.eq(self.i.valid & command.clear),
            misfit.eq(
                (command.columns == 0) | (command.columns > config.columns) | (command.rows == 0)
            ),
            self.i_vector.ready.eq(dropping | (loading & memory.i.ready)),
            memory.i.valid.eq(loading & self.i_vector.valid),
            memory.i.payload.eq(self.i_vector.payload),
            memory.start.eq(accepts),
            memory.columns.eq(command.columns),
            memory.plain.eq(plain),
            self.i_weights.ready.eq(dropping | (running & (flying != self._limit))),
            moved.eq(running & self.i_weights.valid & self.i_weights.ready),
            ends.eq(beat == memory.last_row),
            wrong.eq(moved & (weights.last != ends)),
            enters.eq(breaks | (moved & (weights.last | ends))),
            taken.eq(self.o.valid & self.o.ready),
            final.eq(flying == 1),
            faulty.eq(fails & final),
        ]
        with m.If(accepts):
            m.d.sync += [plain.eq(command.plain), rows.eq(command.rows), beat.eq(0)]
        with m.If(moved):
            m.d.sync += beat.eq(Mux(enters, 0, beat + 1))
            with m.If(enters):
                m.d.sync += rows.eq(rows - 1)
        m.d.sync += [
            flying.eq(flying + enters - taken),
            # A job that is broken off ends its row, with whatever beat: nothing of it stays behind,
            # and what comes of that row becomes its last result.
            held_valid.eq(moved | breaks),
            held.data.eq(weights.data),
            held.last.eq(enters),
        ]
        with m.FSM():
            for state in ("IDLE", "DROP"):
                with m.State(state):
                    m.d.comb += [
                        self.i.ready.eq(1),
                        accepts.eq(self.i.valid & ~command.clear),
                        dropping.eq(state == "DROP"),
                    ]
                    with m.If(clears):
                        m.next = "IDLE"
                    with m.Elif(accepts & misfit):
                        m.d.sync += status.eq(_SHAPE)
                        m.next = "BREAK"
                    with m.Elif(accepts):
                        m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += [loading.eq(1), self.i.ready.eq(command.clear)]
                with m.If(memory.done):
                    m.next = "RUN"
                with m.If(memory.fault | clears):
                    m.d.sync += status.eq(Mux(memory.fault, _VECTOR, _CLEARED))
                    m.next = "BREAK"
            with m.State("RUN"):
                m.d.comb += [running.eq(1), self.i.ready.eq(command.clear)]
                with m.If(clears):
                    m.d.sync += status.eq(_CLEARED)
                    m.next = "BREAK"
                with m.If(enters & (rows == 1)):
                    m.next = "FLUSH"
                with m.If(wrong):
                    m.d.sync += status.eq(_ROW)
                    m.next = "FAULT"
            with m.State("FLUSH"):
                m.d.comb += flushing.eq(1)
                with m.If(taken & final):
                    m.next = "IDLE"
            with m.State("BREAK"):
                m.d.comb += [breaks.eq(1), dropping.eq(1)]
                m.next = "FAULT"
            with m.State("FAULT"):
                m.d.comb += [fails.eq(1), dropping.eq(1)]
                with m.If(taken & final):
                    m.next = "DROP"
        m.d.comb += [
            self.o.valid.eq(mac.o.valid),
            mac.o.ready.eq(self.o.ready),
            self.o.payload.sum.eq(Mux(faulty, 0, mac.o.payload.sums[0])),
            self.o.payload.status.eq(Mux(faulty, status, 0)),
            self.o.payload.last.eq(faulty | (flushing & final)),
        ]
        self._multiply(m, memory, decompress, mac, held, held_valid, plain)
        return m

    def _multiply(self, m, memory, decompress, mac, held, held_valid, plain):
        """Feed the multipliers from the decompressor or, plain, from the beat itself."""
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
