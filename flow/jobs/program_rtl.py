# amaranth: UnusedElaboratable=no
"""A program of the streamed engine in the emitted Verilog."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from seedbed.flow.cores import registry
from seedbed.flow.cores.core import Core
from seedbed.flow.emit import verilog
from seedbed.flow.jobs.program_core import fitted
from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import status
from seedbed.golden.stream_engine import StreamEngine
from seedbed.sim.job import Memory
from seedbed.sim.jobs.stream_job import RtlProgram, bench
from seedbed.sim.verilog.cosim import Bench, Cosim

__all__ = ["CORE", "LATENCY", "emitted_core", "emitted_program", "show_blocks"]

#: The core.
CORE = "stream_engine"
#: Cycles from a burst's command to its first beat.
LATENCY = (20, 60)


@contextmanager
def emitted_core(
    core: Core, params: Mapping[str, Any], of: Bench, *, build: Path, console: Console
) -> Iterator[Cosim]:
    """Yield the process of a core's emitted Verilog."""
    with status(console, f"emitting {core.name}"):
        path = verilog.write(core, params, build / "emitted" / core.name, kept=build / "cache")
    with status(console, f"building the simulation of {core.name}"):
        executable = of.executable(path, core.name, build=build / "cosim")
    with Cosim(executable, of) as cosim:
        yield cosim


@contextmanager
def emitted_program(
    engine: StreamEngine, *, block: int, context: int, vectors: int, build: Path, console: Console
) -> Iterator[RtlProgram]:
    """Yield the core with a program in its memory, for blocks of at most ``block`` tokens.

    Blocks of a causal program are shorter where the store has no room for them. Keys and values are
    in memory where the chip has no room for those of all layers. ``vectors`` tokens
    share a pass over weights, and ``context`` is the most tokens in all. Raises ``ValueError`` for
    a program that the core does not take.
    """
    core = registry.find(CORE)
    found = fitted(core, engine, block=block, context=context, vectors=vectors)
    of = bench(core.name, found.config)
    with emitted_core(core, found.params, of, build=build, console=console) as cosim:
        memory = Memory(latency=LATENCY)
        yield RtlProgram(
            cosim, found.config, engine, found.image, memory=memory, block=found.config.block
        )


def show_blocks(core: RtlProgram, console: Console) -> None:
    """Print what blocks of tokens took, and how busy the memory was."""
    rows = [
        [each.tokens, f"{each.cycles:,}", f"{each.beats:,}", f"{each.cycles / each.beats:.3f}"]
        for each in core.blocks
    ]
    header = ["tokens", "cycles", "beats of memory", "cycles a beat"]
    show_table(console, header, rows, title="in the emitted Verilog, bit for bit")
    last = core.blocks[-1]
    rows = [
        [kind, f"{cycles:,}", f"{100 * cycles / last.cycles:.1f} %"]
        for kind, cycles in sorted(last.kinds.items(), key=lambda item: -item[1])
    ]
    show_table(console, ["operation", "cycles", "share"], rows, title="of the last block")
