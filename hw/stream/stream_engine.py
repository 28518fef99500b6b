"""Runs programs in external memory: transformers, and dense networks, for a block of tokens."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import (
    command_layout,
    read_layout,
    response_layout,
    write_layout,
)
from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.hw.stream.attend_products import AttendProducts
from seedbed.hw.stream.burst_reader import BurstReader
from seedbed.hw.stream.given_results import given_results
from seedbed.hw.stream.job_intake import JobIntake
from seedbed.hw.stream.matrix_unit import MatrixUnit
from seedbed.hw.stream.memory_writes import MemoryWrites
from seedbed.hw.stream.narrow_reader import NarrowReader
from seedbed.hw.stream.program_store import ProgramStore
from seedbed.hw.stream.record_walker import RecordWalker
from seedbed.hw.stream.stream_layouts import (
    input_layout,
    is_given,
    job_layout,
    record_kinds,
    result_layout,
    status_layout,
    token_layout,
)
from seedbed.hw.stream.vector_input import connect_input
from seedbed.hw.stream.vector_pass import VectorPass
from seedbed.hw.stream.vector_store import vector_store
from seedbed.spec import SkidBufferConfig, StreamEngineConfig
from seedbed.spec.engine_records import NUMBERS

__all__ = ["StreamEngine"]


class StreamEngine(wiring.Component):
    """Walks a program for a block of tokens, and gives the vectors of its result.

    A program is in external memory: a header, records of passes, and parameters. It is loaded and
    checked once. A block of T tokens is then walked record by record: weights of a matrix are read
    once for ``vectors`` tokens. Keys and values are kept for the blocks that follow: on the chip,
    or with ``external`` in memory.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    i : In(stream of struct)
        command. A command is accepted after the status of the one before.
        kind : 0 load: the program is read and checked; 1 run: it is walked for a block of tokens;
            2 tune: kept weights are changed, with the option only
        address : where the program is in memory, in beats; valid with load
        start : 1: the block's first token is the first of all; valid with run
        first : first address that is written, in beats; valid with load and tune. With ``external``
            or ``tune`` only.
        end : address after the last one that is written; valid with load and tune. With
            ``external`` or ``tune`` only.
        seed : seed of the signs, nonzero; valid with tune. With ``tune`` only.
        delta : what is added to values of kept weights, times their signs; valid with tune. With
            ``tune`` only.
    i_tokens : In(stream of struct)
        tokens of a block. They are accepted after a command to run.
        token : number of the token
        label : its class, for a loss; another number than those of classes has the greatest loss.
            With ``classes`` only.
        last : last token of the block
    i_vectors : In(stream of struct)
        vectors of a block, one for each token. A packet belongs to each command to run. With
        ``inputs`` only.
        values (lanes x signed(16)) : elements of the vector. Those beyond its length are ignored.
        last : last beat of the block
    o_command : Out(stream of struct)
        bursts of memory
        address : address of the first beat, in beats
        write : 1: write burst, with keys in memory or tune; 0: read burst
        length : beats of the burst, minus 1
    i_read : In(stream of struct)
        beats that are read, in the order of the commands
        data : read data of the beat
        error : 1: the data is invalid
        last : last beat of its burst
    o_write : Out(stream of struct)
        beats that are written. With ``external`` or ``tune`` only.
        data : write data of the beat
        last : 1: a burst has one beat
    i_response : In(stream of struct)
        answers, one per write burst. With ``external`` or ``tune`` only.
        error : 1: the burst was not written
    o : Out(stream of struct)
        vectors of the result, one for each token, or one for the block
        values (lanes x signed(24)) : elements of the vector. Those beyond its length are 0.
        last : last beat of the vector
    o_status : Out(stream of struct)
        status, one per command
        kind : kind of the command
        status : 0 ok, 1 memory error, 2 damaged program, 3 program too large, 4 no program, 5 block
            too long, unknown token, or other vectors. Index of
            :data:`~seedbed.spec.STREAM_ENGINE_STATUS`.

    Errors: a program is refused before anything is done: ``damaged`` (a wrong CRC, a program for
    another core, a record that would not end) and ``size``. A block is refused before anything is
    done: ``missing`` and ``tokens``. An error of the memory ends a block after the record that
    reads: its result is cut short, and the next block has the same position. A memory that does not
    answer for ``timeout_cycles`` is such an error. Another number of vectors than the program reads
    ends a block in the same way, with ``tokens``.

    Latency: that of the program.
    Throughput: 1 beat of weights per cycle.
    """

    interval = 1

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        writes = {
            "o_write": Out(stream.Signature(write_layout(config.beat_bits))),
            "i_response": In(stream.Signature(response_layout())),
        }
        super().__init__(
            {
                "i": In(stream.Signature(job_layout(config))),
                "i_tokens": In(stream.Signature(token_layout(config))),
                **(
                    {"i_vectors": In(stream.Signature(input_layout(config)))}
                    if config.inputs
                    else {}
                ),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
                **(writes if config.writes else {}),
                "o": Out(stream.Signature(result_layout(config))),
                "o_status": Out(stream.Signature(status_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.intake = intake = JobIntake(config)
        m.submodules.program = program = ProgramStore(config)
        m.submodules.walker = walker = RecordWalker(config)
        m.submodules.reader = reader = BurstReader(config)
        m.submodules.vectors = vectors = VectorPass(config)
        m.submodules.attend = products = AttendProducts(config)
        m.submodules.narrow = narrow = NarrowReader(config)
        m.submodules.matrix = matrix = MatrixUnit(config)
        for name in ("i", "i_tokens", "o_status"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(intake, name))
        wiring.connect(m, wiring.flipped(self.i_read), reader.i_read)
        # Registers: a record is there for two cycles before it begins.
        is_ = {
            name: delayed(m, value, 1, f"is_{name}")
            for name, value in record_kinds(config, walker.record).items()
        }
        takers = {"matrix": matrix.i, "pass": vectors.i}
        failed, done = reader.failed, vectors.done
        if config.writes:
            writes = MemoryWrites(m, config)
            writes.connect(m, self, is_, intake, program, walker, reader, products)
            failed |= writes.writer.failed
        else:
            wiring.connect(m, wiring.flipped(self.o_command), reader.o_command)
        if config.external:
            takers["restore"] = writes.exchange.i
            # One that has no row to move has done so.
            done &= writes.exchange.done
        wrong = connect_input(m, self, intake, walker, vectors) if config.inputs else Const(0)
        m.d.comb += [program.failed.eq(failed), intake.failed.eq(failed)]
        m.d.comb += walker.failed.eq(failed | wrong)
        self._program(m, intake, program, walker, reader)
        tunes = writes.tuner.busy if config.tune else Const(0)
        self._memory(m, is_, program, walker, reader, takers, tunes)
        if config.tune:
            writes.tune(m, intake, walker, reader, failed)
            m.d.comb += matrix.fractional.eq(program.header.trellis[0])
        self._pass(m, is_, walker, vectors, products)
        self._narrow(m, is_, walker, narrow, products, matrix)
        self._matrix(m, is_, walker, narrow, matrix)
        vector_store(m, config, vectors, products, narrow, matrix)
        matrix_ended = matrix.done
        if config.ahead:
            matrix_ended |= walker.leaves & matrix.loaded
        ended = Mux(is_["matrix"], matrix_ended, Mux(is_["keep"], narrow.done, done))
        waits = given_results(m, self, is_, intake, walker, matrix, vectors)
        m.d.comb += walker.ended.eq(ended & ~waits)
        return m

    def _program(self, m, intake, program, walker, reader) -> None:
        """Connect commands, the program and its records."""
        m.d.comb += [
            reader.clear.eq(intake.begins),
            program.start.eq(intake.load),
            program.address.eq(intake.address),
            program.index.eq(walker.index),
            program.take.eq(walker.take),
            intake.load_done.eq(program.done),
            intake.load_status.eq(program.status),
            intake.loaded.eq(program.loaded),
            intake.header.eq(program.header),
            intake.walked.eq(walker.done),
            intake.index.eq(walker.in_block),
            walker.start.eq(intake.walk),
            walker.header.eq(program.header),
            walker.record.eq(program.record),
            *(
                getattr(walker, name).eq(getattr(intake, name))
                for name in ("count", "position", "token")
            ),
        ]

    def _memory(self, m, is_, program, walker, reader, parts, tunes) -> None:
        """Give the beats of memory to the part that asked for them, by kind of record.

        While a command to tune runs, ``tunes``, they are not for these.
        """
        loading = Signal()
        running = Signal()
        # Registers both ways: whether a beat is good is decided from what comes of memory, and
        # whether it is taken, by the record and all parts.
        bits = self.config.beat_bits
        m.submodules.beats = beats = SkidBuffer(SkidBufferConfig(width=bits + 1))
        # Rows that are asked for ahead are of the matrix that begins next. Some of the one that
        # runs may not have been taken then: those of both differ in a bit.
        latest, current = Signal(), Signal()
        chosen = {kind: ~loading & running & is_[kind] for kind in parts}
        if self.config.ahead:
            m.d.comb += walker.left.eq(reader.left)
            m.d.sync += latest.eq(latest ^ (walker.read & is_["matrix"]))
            with m.If(walker.begins & is_["matrix"]):
                m.d.sync += current.eq(latest)
            chosen = {kind: each & ~walker.flight for kind, each in chosen.items()}
            chosen["matrix"] |= walker.flight
            chosen["matrix"] &= beats.o.payload[bits] == current
        m.d.comb += [
            reader.start.eq(program.read | walker.read),
            reader.address.eq(Mux(loading, program.read_address, walker.read_address)),
            reader.beats.eq(Mux(loading, program.read_beats, walker.read_beats)),
        ]
        with m.If(program.start):
            m.d.sync += loading.eq(1)
        with m.Elif(walker.start):
            m.d.sync += loading.eq(0)
        with m.If(walker.begins):
            m.d.sync += running.eq(1)
        with m.Elif(walker.ended):
            m.d.sync += running.eq(0)
        takers = {
            program.i: loading,
            walker.i: ~loading & ~running,
            **{to: chosen[kind] for kind, to in parts.items()},
        }
        m.d.comb += [
            beats.i.valid.eq(reader.o.valid & ~tunes),
            beats.i.payload.eq(Cat(reader.o.payload, latest)),
            reader.o.ready.eq(beats.i.ready),
            beats.o.ready.eq(Cat(to.ready & chosen for to, chosen in takers.items()).any()),
        ]
        for to, chosen in takers.items():
            m.d.comb += [to.valid.eq(beats.o.valid & chosen), to.payload.eq(beats.o.payload[:bits])]

    def _pass(self, m, is_, walker, vectors, products) -> None:
        """Connect passes of the vector unit, and the products that they begin with."""
        record = walker.record
        is_mix, is_scores = (
            delayed(m, record.numbers == NUMBERS.index(name), 1, f"is_{name}")
            for name in ("mix", "scores")
        )
        m.d.comb += [
            vectors.start.eq(walker.begins & is_["pass"]),
            vectors.record.eq(record),
            vectors.length.eq(walker.length),
            vectors.constant.eq(walker.constant),
            *(
                getattr(vectors, f"{name}_at").eq(getattr(walker, f"{name}_at"))
                for name in ("number", "factor", "addend", "target")
            ),
            vectors.products.eq(products.o),
            vectors.products_valid.eq(products.valid),
            products.pop.eq(vectors.products_pop),
            products.start.eq(vectors.start & (is_mix | is_scores)),
            products.mix.eq(is_mix),
            products.tokens.eq(walker.seen),
            products.head.eq(record.head),
            products.at.eq(walker.number_at),
            products.cache_at.eq(walker.cache_at),
            products.row.eq(walker.header.row),
            products.unwritten.eq(vectors.unwritten),
            walker.idle.eq(vectors.idle),
        ]

    def _narrow(self, m, is_, walker, narrow, products, matrix) -> None:
        """Connect vectors that are shifted: to the multipliers, or to the cache."""
        record, keeps = walker.record, is_["keep"]
        heads = record.rows[: len(narrow.count)]
        place = Signal.like(products.write_at)
        m.d.comb += [
            narrow.start.eq((walker.begins & keeps) | matrix.load),
            narrow.at.eq(walker.number_at),
            narrow.stride.eq(Mux(keeps, record.head, walker.header.frame)),
            narrow.length.eq(walker.length),
            narrow.count.eq(Mux(keeps, Mux(heads == 0, 1, heads), self.config.vectors)),
            narrow.run.eq(Mux(keeps, record.head, matrix.runs)),
            narrow.small.eq(keeps),
            narrow.exact.eq(~keeps & ~record.narrow),
            narrow.pop.eq(Mux(keeps, narrow.valid, matrix.pop)),
            products.write.eq(keeps & narrow.valid),
            products.write_at.eq(place),
            products.write_bank.eq(walker.keep_bank),
            products.kept.shift.eq(narrow.shift),
            *(to.eq(value) for to, value in zip(products.kept.numbers, narrow.values, strict=True)),
        ]
        with m.If(walker.begins):
            m.d.sync += place.eq(walker.keep_at + walker.cache_at)
        with m.Elif(products.write):
            m.d.sync += place.eq(place + 1)

    def _matrix(self, m, is_, walker, narrow, matrix) -> None:
        """Connect the products of matrices."""
        record = walker.record
        m.d.comb += [
            matrix.start.eq(walker.begins & is_["matrix"]),
            matrix.columns.eq(walker.length),
            matrix.row_beats.eq(walker.row_beats),
            matrix.target_at.eq(walker.target_at),
            matrix.stride.eq(walker.header.frame),
            matrix.tokens.eq(walker.tokens),
            *(getattr(matrix, name).eq(record[name]) for name in ("rows", "shift", "add", "wide")),
            *([matrix.packed.eq(is_[self.config.packed])] if self.config.packed else []),
            *([matrix.whole.eq(record.constant[0])] if self.config.groups else []),
            *([matrix.kept.eq(walker.kept)] if self.config.kept else []),
            matrix.given.eq(is_given(self.config, record)),
            matrix.values.eq(narrow.values),
            matrix.shifts.eq(narrow.shifts),
            matrix.valid.eq(narrow.valid & is_["matrix"]),
        ]
        if self.config.ahead:
            m.d.comb += [
                matrix.follows.eq(walker.follows),
                walker.matrix_done.eq(matrix.done),
                walker.matrix_loading.eq(matrix.loading),
            ]
