"""Application ``sentence``: a program of the streamed engine in the memory, for texts."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from amaranth.hdl import Module, Mux, ResetInserter, Signal, Value
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
from seedbed.flow.run.files import require_output, write_atomic
from seedbed.flow.run.options import Force, show_table
from seedbed.golden.stream_engine import StreamEngine as Model
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.sim.cases.stream_programs import WORDS, drawn_program
from seedbed.spec import SdramConfig, StreamEngineConfig

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
#: The configuration of each board.
BOARDS = {"ulx3s-85f": "minilm"}
#: Texts of at most 16 letters, and elements of the random program's vectors.
TEXTS = ["a dog runs", "dogs are running", "rain and wind"]
SIZE = 32


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
        command, read = self.o_command, self.i_read
        # A command that is offered stays until its transfer.
        waits, held, writes = Signal(), Signal(), Signal()
        m.d.comb += [
            writes.eq(Mux(waits, held, store.o_command.valid)),
            command.valid.eq(Mux(writes, store.o_command.valid, engine.o_command.valid)),
            command.payload.eq(
                Mux(
                    writes, Value.cast(store.o_command.payload), engine.o_command.payload.as_value()
                )
            ),
            store.o_command.ready.eq(command.ready & writes),
            engine.o_command.ready.eq(command.ready & ~writes),
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
    force: Force = False,
) -> None:
    """Run a program on texts; compare their vectors with the model, bit for bit.

    Raises ``AssertionError`` for a difference, and ``ValueError`` for a program or a text that does
    not fit.
    """
    if output:
        require_output(output, force=force)
    engine, blocks = _program(program, text, config.trellis)
    sentences = Sentences(config, engine, blocks, MEMORY)
    vectors = sentences.vectors()
    console.print(require_memory(device, MEMORY))
    stored = device.read("image") == sentences.crc
    if not stored:
        device.write("image", 0)
    job = sentences.job(vectors, stored=stored)
    _, words = job.run(device)
    job.require_same(words)
    device.write("image", sentences.crc)
    where = "was in the memory" if stored else "is in the memory"
    console.print(f"the program, {len(sentences.image):,} bytes, {where}")
    cycles = device.read("run_cycles")
    console.print(
        f"{len(text)} texts, vectors as in the model, bit for bit; the last one took {cycles:,} "
        f"cycles, {cycles / CLOCK_MHZ / 1e3:,.2f} ms at {CLOCK_MHZ} MHz"
    )
    fraction = engine.program.vectors[engine.program.result].fraction
    found = [np.ldexp(each.astype(float), -fraction) for each in vectors]
    # The vectors of a random program mean nothing.
    if program and all(len(each) == 1 for each in found):
        _nearest(console, text, np.concatenate(found))
    if output:
        write_atomic(output, npy_bytes(np.concatenate(found)))
        console.print(f"the vectors are in {output}", soft_wrap=True)


def _program(folder: Path | None, texts: list[str], trellis: int) -> tuple[Model, list[np.ndarray]]:
    """Return the model of a program, and the tokens of texts.

    A random one has matrices with a trellis code of ``trellis`` bits, if that is not 0.
    """
    if folder is None:
        rng = np.random.default_rng(1)
        engine = drawn_program(
            "encoder", rng, size=SIZE, layers=2, trellis=trellis, keeps=trellis > 0
        )
        return engine, [np.frombuffer(t.encode(), np.uint8).astype(np.int64) % WORDS for t in texts]
    loaded = read(folder)
    try:
        engine = Model(loaded.program, loaded.parameters)
    except ValueError as problem:
        raise ValueError(f"{folder}: {problem}") from problem
    return engine, [loaded.tokens(each) for each in texts]


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
