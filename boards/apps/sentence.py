"""Application ``sentence``: a program of the streamed engine in the memory, for texts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from rich.console import Console

from seedbed.boards.device import Device
from seedbed.boards.matrix_store import MatrixStore
from seedbed.boards.memory import CLOCK_MHZ, MEMORY_REGISTERS, memory_ports, require_memory
from seedbed.boards.registers import Register, ports
from seedbed.boards.sentence_job import Sentences, inputs, outputs
from seedbed.boards.stream_job import JOB_REGISTERS, add_job, feed, give
from seedbed.flow.export.vectors import npy_bytes
from seedbed.flow.importer.program_file import read
from seedbed.flow.jobs.kept_tuning import LARGE, Settings, Tuning, train
from seedbed.flow.run.files import require_output, write_atomic
from seedbed.flow.run.options import Force, show_table
from seedbed.golden.kept_weights import trainable
from seedbed.golden.stream_engine import StreamEngine as Model
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.sim.cases.stream_programs import WORDS, drawn_program
from seedbed.spec import SdramConfig, SkidBufferConfig, StreamEngineConfig

__all__ = ["BOARDS", "MEMORY", "REGISTERS", "VARIANTS", "Top", "run"]

MEMORY = SdramConfig(beat_bits=256, clock_mhz=100, pad_cycles=2)
REGISTERS = (
    *MEMORY_REGISTERS,
    *JOB_REGISTERS,
    Register("image", "write", "for the host: CRC-32 of the program in the memory, or 0"),
    Register("run_cycles", "read", "cycles of the last command, from its start to its status"),
)
_COMMON: dict[str, Any] = {
    "lanes": 4, "beat_bits": MEMORY.beat_bits, "address_bits": MEMORY.address_bits, "burst": 64,
}  # fmt: skip
#: Configurations: for a quick simulation, and one with room for MiniLM and 16 tokens.
VARIANTS = {
    "nano": StreamEngineConfig(
        **_COMMON, products=4, store=2048, cache=2048, records=256, block=16, context=32,
        columns=256,
    ),
    "minilm": StreamEngineConfig(
        **_COMMON, products=8, vectors=2, store=13824, cache=18432, records=1024, block=16,
        context=16, columns=1536,
    ),
}  # fmt: skip
#: The same with a trellis code, and a thousandth of the weights of MiniLM's largest matrix.
VARIANTS |= {f"trellis-{name}": replace(of, trellis=4, kept=1024) for name, of in VARIANTS.items()}
#: The same with kept weights that are tuned in the memory; those of MiniLM have room for 3 fraction
#: bits.
VARIANTS |= {
    f"tune-{name}": replace(VARIANTS[f"trellis-{name}"], tune=fraction)
    for name, fraction in (("nano", 5), ("minilm", 3))
}
#: The clocks of those that are for a board, and of their memory. Others have 60 and 100 MHz.
CLOCKS_MHZ = {f"{name}minilm": 50 for name in ("", "trellis-", "tune-")}
MEMORY_CLOCKS_MHZ = dict.fromkeys(CLOCKS_MHZ, 75)
#: The configuration of each board.
BOARDS = {"ulx3s-85f": "minilm"}
#: Texts of at most 16 letters, and elements of the random program's vectors.
TEXTS = ["a dog runs", "dogs are running", "rain and wind"]
SIZE = 32
#: The random program's vectors are small, and so are the differences of the losses.
SMALL = {"rate": 1e6}
#: Texts of two classes.
CLASSES = (
    ("0", "it is a bore"), ("1", "a warm film"), ("0", "dull and long"), ("1", "funny and kind"),
    ("0", "no story"), ("1", "well told"),
)  # fmt: skip


class Top(wiring.Component):
    """Runs a program by the words from the host: its image once, commands, and tokens.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    control, status
        :data:`REGISTERS`.
    i : In(stream of unsigned(32))
        Packets to the ports of :func:`~seedbed.boards.sentence_job.inputs`.
    o : Out(stream of unsigned(32))
        Words of the ports of :func:`~seedbed.boards.sentence_job.outputs`.
    leds : Out(8)
        The number of jobs.
    o_command, o_write, i_response, i_read
        To the memory.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(ports(REGISTERS) | memory_ports(MEMORY))

    def elaborate(self, platform):
        m = Module()
        config, hold = self.config, self.control.hold[0]
        splitter, merger = add_job(m, self, inputs(config), outputs(config))
        engine = StreamEngine(config)
        m.submodules.engine = ResetInserter(hold)(engine)
        m.submodules.store = store = MatrixStore(MEMORY)
        if config.writes:
            self._writes(m, engine, splitter.o_program, store, hold)
        else:
            feed(m, splitter.o_program, store.i_store)
        # A program is read after it is written.
        stored = ~store.busy & ~splitter.o_program.valid
        command, given = splitter.o_command, engine.i
        m.d.comb += [
            store.stop.eq(hold),
            given.valid.eq(command.valid & stored),
            command.ready.eq(given.ready & stored),
            given.payload.as_value().eq(command.payload.data),
            self.leds.eq(self.status.jobs),
        ]
        feed(m, splitter.o_tokens, engine.i_tokens)
        self._elements(m, engine, merger.i_vectors, hold)
        give(m, engine.o_status, merger.i_status)
        self._memory(m, engine, store, hold)
        self._count(m, engine)
        return m

    def _writes(self, m, engine, program, store, hold):
        """Give the store the engine's beats while a command runs, and else those of a program.

        A beat that the store has taken is written although the engine is reset meanwhile.
        """
        running, owed = Signal(), Signal()
        command, write, into, answer = (
            engine.o_command, engine.o_write, store.i_store, engine.i_response,
        )  # fmt: skip
        beat = program.payload
        own = Cat(write.payload.data, command.payload.address, Const(1))
        offered = command.valid & command.payload.write & write.valid
        m.d.comb += [
            into.valid.eq(Mux(running, offered, program.valid)),
            Value.cast(into.payload).eq(Mux(running, own, Cat(beat.data, beat.tag, beat.last))),
            program.ready.eq(into.ready & ~running),
            write.ready.eq(into.ready & offered & running),
        ]
        with m.If(engine.o_status.valid & engine.o_status.ready):
            m.d.sync += running.eq(0)
        with m.If(engine.i.valid & engine.i.ready):
            m.d.sync += running.eq(1)
        with m.If(answer.ready):
            m.d.sync += answer.valid.eq(0)
        with m.If(into.valid & into.ready):
            m.d.sync += owed.eq(running)
        with m.If(self.i_response.valid & owed):
            m.d.sync += [owed.eq(0), answer.valid.eq(1)]
            m.d.sync += answer.payload.error.eq(self.i_response.payload.error)
        with m.If(hold):
            m.d.sync += [running.eq(0), owed.eq(0), answer.valid.eq(0)]

    def _elements(self, m, engine, to, hold):
        """Give the elements of the result one by one."""
        beat, lanes = engine.o.payload, self.config.lanes
        place = Signal(range(lanes))
        last = place == lanes - 1
        m.d.comb += [
            to.valid.eq(engine.o.valid),
            to.payload.eq(beat.values[place] & ((1 << len(beat.values[0])) - 1)),
            to.payload[-1].eq(beat.last & last),
            engine.o.ready.eq(to.ready & last),
        ]
        with m.If(to.valid & to.ready):
            m.d.sync += place.eq(Mux(last, 0, place + 1))
        with m.If(hold):
            m.d.sync += place.eq(0)

    def _memory(self, m, engine, store, hold):
        """Connect the engine, which reads, and the store, which writes and has precedence."""
        command, asked = self.o_command, engine.o_command
        # Registers both ways: beats come from the memory's clock, whose FIFO is elsewhere.
        shape = self.i_read.payload.shape()
        m.submodules.beats = beats = SkidBuffer(SkidBufferConfig(width=shape.size), shape)
        wiring.connect(m, wiring.flipped(self.i_read), beats.i)
        read = beats.o
        # A command that is offered stays until its transfer.
        waits, held, writes = Signal(), Signal(), Signal()
        reads, ready = asked.valid, command.ready & ~writes
        if self.config.writes:
            # The store takes the engine's writes.
            reads = asked.valid & ~asked.payload.write
            ready = Mux(asked.payload.write, engine.o_write.ready, ready)
        m.d.comb += [
            writes.eq(Mux(waits, held, store.o_command.valid)),
            command.valid.eq(Mux(writes, store.o_command.valid, reads)),
            command.payload.eq(
                Mux(writes, Value.cast(store.o_command.payload), asked.payload.as_value())
            ),
            store.o_command.ready.eq(command.ready & writes),
            asked.ready.eq(ready),
            engine.i_read.valid.eq(read.valid),
            engine.i_read.payload.eq(read.payload),
            # What an engine that was reset had asked for.
            read.ready.eq(engine.i_read.ready | hold),
        ]
        wiring.connect(m, store.o_write, wiring.flipped(self.o_write))
        wiring.connect(m, wiring.flipped(self.i_response), store.i_response)
        m.d.sync += [waits.eq(command.valid & ~command.ready), held.eq(writes)]

    def _count(self, m, engine):
        """Count the cycles of a command."""
        cycles = Signal(32)
        m.d.sync += cycles.eq(cycles + 1)
        with m.If(engine.i.valid & engine.i.ready):
            m.d.sync += cycles.eq(0)
        with m.If(engine.o_status.valid & engine.o_status.ready):
            m.d.sync += self.status.run_cycles.eq(cycles)


def run(
    device: Device,
    console: Console,
    config: StreamEngineConfig,
    *,
    program: Annotated[
        Path | None,
        typer.Option(
            help="The folder of an encoder, by 'seedbed import MODEL --format plain' or trellis; "
            "by default, a small random one, whose tokens are letters."
        ),
    ] = None,
    text: Annotated[
        list[str], typer.Option(help="A text; several times for several texts.")
    ] = TEXTS,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="Y.npy", help="Write the vectors to this file."),
    ] = None,
    tune: Annotated[
        int,
        typer.Option(
            min=0,
            help="Tune kept weights on two classes of texts in N steps, with the configurations "
            "tune-nano and tune-minilm.",
        ),
    ] = 0,
    classes: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The texts to tune on: a text a line, after its class, 0 or 1, and a tab; by "
            "default, a few.",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=4096, help="The texts of a step.")] = 16,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="What a kept weight changes for a difference of the losses of 1, in units of its "
            "trellis code; by default 1000000, with --program 200.",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Run a program on texts; compare their vectors with the model, bit for bit.

    With ``--tune``, weights are tuned in the board's memory before. Every vector on the way is
    compared, so that losses and steps are those of the model. Raises ``AssertionError`` for a
    difference, and ``ValueError`` for a program or a text that does not fit.
    """
    if output:
        require_output(output, force=force)
    if tune and not config.tune:
        raise ValueError("this configuration tunes no weights: tune-nano and tune-minilm do")
    engine, tokens = _program(program, config.trellis)
    if tune:
        engine = _trainable(engine, config.tune)
    sentences = Sentences(config, engine, MEMORY)
    summary = (
        _tuned(sentences, tokens, _classes(classes), program, tune, batch, rate) if tune else ""
    )
    vectors = [sentences.run(tokens(each)) for each in text]
    console.print(require_memory(device, MEMORY))
    stored = device.read("image") == sentences.crc
    if not stored or tune:
        device.write("image", 0)
    job = sentences.job(stored=stored)
    _, words = job.run(device)
    job.require_same(words)
    if not tune:
        device.write("image", sentences.crc)
    where = "was in the memory" if stored else "is in the memory"
    console.print(f"the program, {len(sentences.image):,} bytes, {where}")
    if summary:
        console.print(summary, soft_wrap=True)
    cycles = device.read("run_cycles")
    (name,) = (name for name, of in VARIANTS.items() if of == config)
    mhz = CLOCKS_MHZ.get(name, CLOCK_MHZ)
    console.print(
        f"{len(text)} texts, vectors as in the model, bit for bit; the last one took {cycles:,} "
        f"cycles, {cycles / mhz / 1e3:,.2f} ms at {mhz} MHz"
    )
    fraction = engine.program.vectors[engine.program.result].fraction
    found = [np.ldexp(each.astype(float), -fraction) for each in vectors]
    # The vectors of a random program mean nothing.
    if program and all(len(each) == 1 for each in found):
        _nearest(console, text, np.concatenate(found))
    if output:
        write_atomic(output, npy_bytes(np.concatenate(found)))
        console.print(f"the vectors are in {output}", soft_wrap=True)


def _tuned(
    sentences: Sentences, tokens: Callable[[str], np.ndarray], classes: list[tuple[str, str]],
    program: Path | None, steps: int, batch: int, rate: float | None,
) -> str:  # fmt: skip
    """Tune in the model, so that the job does the same; return a sentence on it."""
    given = (LARGE if program else SMALL) | ({} if rate is None else {"rate": rate})
    settings = Settings(steps=steps, batch=batch, **given)
    labels = np.array([int(label) for label, _ in classes])
    tuning = Tuning(sentences.engine, [tokens(each) for _, each in classes], labels)
    every = np.arange(len(classes))
    head = tuning.head(every)
    before = float(tuning.losses(sentences, head, every)[0].mean())
    done = [*train(tuning, sentences, head, settings, every)]
    after = float(tuning.losses(sentences, head, every)[0].mean())
    return (
        f"{tuning.count:,} kept weights were tuned in the memory in {len(done)} steps: the loss of "
        f"{len(every)} texts was {before:.6f}, and is {after:.6f}, as in the model"
    )


def _trainable(engine: Model, fraction: int) -> Model:
    """Return a program whose kept weights have the fraction bits of the core."""
    found = trainable(engine.parameters, fraction)
    if not any(of.kept for of in found.values()):
        raise ValueError("the program has no kept weights: import it with --format trellis --keep")
    return Model(engine.program, found)


def _classes(path: Path | None) -> list[tuple[str, str]]:
    """Return texts with their classes, ``0`` or ``1``, of a file or those that are embedded."""
    if path is None:
        return [*CLASSES]
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        label, _, text = line.partition("\t")
        if label not in ("0", "1") or not text.strip():
            raise ValueError(f"{path}, line {number}: it must have 0 or 1, a tab, and a text")
        found.append((label, text))
    if {label for label, _ in found} != {"0", "1"}:
        raise ValueError(f"{path} must have texts of both classes")
    return found


def _program(folder: Path | None, trellis: int) -> tuple[Model, Callable[[str], np.ndarray]]:
    """Return the model of a program, and what gives the tokens of a text.

    A random one has matrices with a trellis code of ``trellis`` bits, if that is not 0.
    """
    if folder is None:
        rng = np.random.default_rng(1)
        engine = drawn_program(
            "encoder", rng, size=SIZE, layers=2, trellis=trellis, keeps=trellis > 0
        )
        return engine, lambda text: np.frombuffer(text.encode(), np.uint8).astype(np.int64) % WORDS
    loaded = read(folder)
    try:
        engine = Model(loaded.program, loaded.parameters)
    except ValueError as problem:
        raise ValueError(f"{folder}: {problem}") from problem
    return engine, loaded.tokens


def _nearest(console: Console, texts: list[str], vectors: np.ndarray) -> None:
    """Print the nearest other text of each, by the cosine of their vectors."""
    if len(texts) < 2:
        return
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-30)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    best = cosines.argmax(axis=1)
    rows = [
        [t, texts[k], f"{cosines[n, k]:.3f}"]
        for n, (t, k) in enumerate(zip(texts, best, strict=True))
    ]
    show_table(console, ["text", "nearest", "cosine"], rows)
