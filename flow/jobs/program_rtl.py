# amaranth: UnusedElaboratable=no
"""A program of the streamed engine in the emitted Verilog."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import status
from seedbed.golden.engine_image import engine_image
from seedbed.golden.stream_engine import StreamEngine
from seedbed.sim.job import Memory
from seedbed.sim.jobs.stream_job import RtlProgram, bench
from seedbed.sim.verilog.cosim import Cosim
from seedbed.spec.stream_engine import (
    TRELLIS_BITS,
    Attend,
    Matrix,
    Program,
    StreamEngineConfig,
)

__all__ = ["emitted_program", "show_blocks"]

CORE = "stream_engine"
#: A port of 64 bytes, and the most that the store, the cache and the list of records may have.
LARGE = {"store": 1 << 14, "cache": 1 << 16, "records": 4096}
#: Products of attention in a cycle, at most.
MOST = 64
#: Cycles from a burst's command to its first beat.
LATENCY = (20, 60)


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
    program = engine.program
    columns = [
        program.vectors[op.source].length for op in program.operations if isinstance(op, Matrix)
    ]
    core = registry.find(CORE)
    causal = all(op.causal for op in program.operations if isinstance(op, Attend))
    external = context * _row(program) > LARGE["cache"]
    # Of all matrices: not again for each length of a block.
    weights = _weights(engine)
    while True:
        params: dict[str, Any] = {
            **LARGE, "products": _products(program), "vectors": vectors, "block": block,
            "context": context, "columns": max(columns), "external": external, **weights,
        }  # fmt: skip
        config = core.configure(params)
        try:
            image = engine_image(config, program, engine.parameters, block=block, context=context)
            break
        except ValueError:
            if block == 1 or not causal:
                raise
        block = block // 2
    with status(console, f"emitting {CORE}"):
        path = verilog.write(core, params, build / "emitted" / CORE, kept=build / "cache")
    of = bench(core.name, config)
    with status(console, f"building the simulation of {CORE}"):
        executable = of.executable(path, core.name, build=build / "cosim")
    with Cosim(executable, of) as cosim:
        memory = Memory(latency=LATENCY)
        yield RtlProgram(cosim, config, engine, image, memory=memory, block=block)


def _weights(engine: StreamEngine) -> dict[str, int]:
    """Return the bits of a weight of a trellis code, and how many weights a matrix keeps.

    Where they can be tuned, their fraction bits, too.
    """
    coded = [of for of in engine.parameters.values() if of.trellis]
    bits = max({of.trellis.code.bits for of in coded} & {*TRELLIS_BITS}, default=0)
    kept = [
        len(of.kept.rows) if of.kept else int(np.count_nonzero(of.weights - of.trellis.weights()))
        for of in coded
        if bits
    ]
    fraction = max((of.kept.fraction for of in coded if of.kept), default=0)
    return {"trellis": bits, "kept": max(kept, default=0), "tune": fraction}


def _row(program: Program) -> int:
    """Return the beats of the cache that keys and values of a token have, of all layers."""
    kept = [
        program.vectors[name].length
        for op in program.operations
        if isinstance(op, Attend)
        for name in (op.key, op.value)
    ]
    return sum(kept) // StreamEngineConfig.lanes


def _products(program: Program) -> int:
    """Return the most products of attention in a cycle with which the program's heads go."""
    heads = [
        program.vectors[op.query].length // op.heads
        for op in program.operations
        if isinstance(op, Attend)
    ]
    both = gcd(*heads, MOST)
    return max(both, StreamEngineConfig.lanes)


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
