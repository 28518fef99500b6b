"""Application ``lm``: a language model whose matrices are in the SDRAM, tuned by forward passes."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import connect
from rich.console import Console
from threadpoolctl import threadpool_limits

from seedbed.boards.board_top import BAUD
from seedbed.boards.device import Device
from seedbed.boards.lm_engine import BoardMatrices, inputs, outputs, require_fit
from seedbed.boards.matrix_commands import MatrixCommands
from seedbed.boards.matrix_store import add_store, feed_rows
from seedbed.boards.memory import MEMORY_REGISTERS, memory_ports, require_memory
from seedbed.boards.registers import Register, ports
from seedbed.boards.stream_job import JOB_REGISTERS, add_job, feed, give
from seedbed.flow.cli.lm import Model
from seedbed.flow.jobs.lm_core import SMALL, Job, products, products_bar
from seedbed.flow.jobs.lm_integer import BITS, Setup, setup
from seedbed.flow.jobs.lm_task import Windows, embedded, load
from seedbed.golden.language_model import perplexity
from seedbed.spec import GemvConfig, SdramConfig

__all__ = ["BOARDS", "MEMORY", "REGISTERS", "VARIANTS", "Top", "run"]

#: A beat of the engine is one of the memory, which takes two cycles for it.
MEMORY = SdramConfig(beat_bits=32)
REGISTERS = (
    *MEMORY_REGISTERS,
    *JOB_REGISTERS,
    Register("product_cycles", "read", "cycles of the products in which none waited for the line"),
)
#: Configurations: for the boards, and for a quick simulation.
VARIANTS = {
    "four": GemvConfig(beat_bits=32, columns=2048, row_width=16, vectors=4, entries=8192),
    "one": GemvConfig(beat_bits=32, columns=512, row_width=16, vectors=1, entries=1024),
}
VARIANTS |= {f"trellis-{name}": replace(of, decode="trellis") for name, of in VARIANTS.items()}
#: The configuration of each board.
BOARDS = {"ulx3s-85f": "four"}
#: Steps from which on a tuning may show something, and what fewer show.
LEAST = 20
FEW = (
    "{steps} steps of {batch} windows show that the board computes as the model does; the "
    "perplexity of a whole text falls over tens of steps: seedbed demo lm --rtl"
)


class Top(wiring.Component):
    """Multiplies, perturbs and updates by the words from the host.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.

    Members
    -------
    control, status
        :data:`REGISTERS`.
    i : In(stream of unsigned(32))
        Packets to the ports of :func:`inputs`.
    o : Out(stream of unsigned(32))
        Words of the ports of :func:`outputs`.
    leds : Out(8)
        The number of jobs.
    o_command, o_write, i_response, i_read
        To the memory.
    """

    def __init__(self, config: GemvConfig):
        self.config = config
        super().__init__(ports(REGISTERS) | memory_ports(MEMORY))

    def elaborate(self, platform):
        m = Module()
        hold = self.control.hold[0]
        splitter, merger = add_job(m, self, inputs(self.config, MEMORY), outputs(self.config))
        commands = MatrixCommands(self.config, MEMORY)
        m.submodules.commands = ResetInserter(hold)(commands)
        store = add_store(m, self, MEMORY)
        feed(m, splitter.o_matrix, store.i_store)
        feed(m, splitter.o_command, commands.i)
        feed(m, splitter.o_entries, commands.i_entries)
        feed(m, splitter.o_vector, commands.i_vector)
        connect(m, commands.o_matrix, store.i)
        feed_rows(m, MEMORY, store, commands)
        for name in ("sum", "value", "end"):
            give(m, getattr(commands, f"o_{name}"), getattr(merger, f"i_{name}"))
        m.d.comb += [
            store.stop.eq(hold),
            commands.reading.eq(store.busy),
            commands.memory_error.eq(store.error),
            self.status.product_cycles.eq(commands.cycles),
            self.leds.eq(self.status.jobs),
        ]
        return m


def run(
    device: Device,
    console: Console,
    config: GemvConfig,
    *,
    model: Model = None,
    lines: Annotated[int, typer.Option(min=1, help="With --model: lines of each text.")] = 60,
    steps: Annotated[int, typer.Option(help="Steps of the tuning.")] = 2,
    batch: Annotated[int, typer.Option(help="Windows of a step.")] = 2,
    rate: Annotated[
        float | None, typer.Option(help="The first step's rate. Default: 0.03, or 0.003 (--model).")
    ] = None,
    fraction: Annotated[
        float | None, typer.Option(help="The fraction of kept weights. Default: 0.01, or 0.001.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A mask of kept weights.")
    ] = None,
    characters: Annotated[int, typer.Option(help="Held-out characters that are judged.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of batches and perturbations.")] = 0,
    folder: Annotated[Path, typer.Option(help="Where intermediate files are stored.")] = Path(
        "build/demo/board-lm"
    ),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the job that an earlier host started.")
    ] = False,
) -> None:
    """Judge a language model on held-out text, tune it on the board, and judge it again.

    Every sum and every new value is compared with the golden model's.

    Raises ``AssertionError`` for a difference, and ``ValueError`` for a value out of range and for
    a model that does not fit.
    """
    assert config.sparse
    defaults = SMALL if model is None else {}
    given = {"fraction": fraction, "rate": rate}
    job = Job(
        keep=keep, steps=steps, batch=batch, characters=characters, seed=seed, decode=config.decode,
        **defaults | {name: value for name, value in given.items() if value is not None},
    )  # fmt: skip
    progress = Console(stderr=True)
    folder.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        task = embedded(progress) if model is None else load(model, lines)
        made = setup(
            task, folder, config.sparse, job.fraction, job.keep, decode=job.decode,
            spread=job.spread, console=progress,
        )  # fmt: skip
        judged = made.held[0][:characters], made.held[1][:characters]
        require_fit(config, MEMORY, made.matrices)
        console.print(require_memory(device, MEMORY))
        floats = [perplexity(of, *judged) for of in (task.parameters, made.restored)]
        console.print(
            f"perplexity of {len(judged[1])} held-out characters: {floats[0]:.4f} in float32, "
            f"{floats[1]:.4f} at {BITS} bits with kept weights",
            soft_wrap=True,
        )
        settings = repr((replace(job, keep=None), *(part.tolist() for part in judged)))
        total = products(2 * len(judged[1])) + products(2 * job.steps * job.batch, job.spread)
        with products_bar(progress, made, total) as advance:
            engine = BoardMatrices(
                device, config, MEMORY, made.matrices, settings, resume=resume, progress=advance
            )
            _tune(console, engine, made, judged, job)
    if engine.earlier:
        console.print(f"an earlier host has read the first {engine.earlier} words")
    console.print("all sums and new values are those of the model, bit for bit")
    _report(device, console, engine)


def _tune(console: Console, engine: BoardMatrices, made: Setup, judged: Windows, job: Job) -> None:
    """Judge, tune and judge again."""
    before = made.model.perplexity(engine, *judged)
    console.print(f"perplexity on the board, before: {before:.4f}")
    for step in range(job.steps):
        loss, slope = job.train(made, engine, step)
        console.print(f"step {step + 1}: loss {loss:.4f}, slope {slope:+.4f}")
    after = made.model.perplexity(engine, *judged)
    console.print(f"{made.entries} kept weights were tuned; perplexity after: {after:.4f}")
    if job.steps < LEAST:
        console.print(FEW.format(steps=job.steps, batch=job.batch), soft_wrap=True)


def _report(device: Device, console: Console, engine: BoardMatrices) -> None:
    """Print what the core and the line did."""
    cycles, products = device.read("product_cycles"), engine.products
    line = 40 * max(engine.sent, engine.received) / BAUD
    mhz = MEMORY.clock_mhz
    console.print(
        f"{products:,} products in {cycles:,} cycles of the core, {cycles / mhz / 1e6:.3f} s "
        f"at {mhz} MHz"
    )
    console.print(
        f"{engine.sent:,} words to the board and {engine.received:,} from it: {line:.3f} s or more "
        f"at {BAUD:,} baud"
    )
