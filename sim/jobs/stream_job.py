# amaranth: UnusedElaboratable=no
"""Programs of the streamed engine on the emitted Verilog, checked against the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from seedbed.golden.engine_image import EngineImage
from seedbed.golden.stream_engine import StreamEngine
from seedbed.hw.stream.stream_engine import StreamEngine as Core
from seedbed.hw.stream.stream_layouts import (
    job_layout,
    result_layout,
    status_layout,
    token_layout,
)
from seedbed.sim.cases.stream_engine import job, status, token_payloads
from seedbed.sim.job import Act, Difference, Memory, check
from seedbed.sim.payloads import pack, words
from seedbed.sim.verilog.cosim import Bench, Cosim, Probes
from seedbed.spec import STREAM_ENGINE_STATUS, StreamEngineConfig

__all__ = ["Block", "executable", "run"]

#: Cycles between acts.
SETTLE = 16


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a block of tokens took.

    Parameters
    ----------
    cycles, beats
        Cycles, and beats of memory.
    kinds
        Cycles by kind of operation.
    """

    cycles: int
    beats: int
    kinds: dict[str, int]


def _bench(top: str, config: StreamEngineConfig) -> Bench:
    """Return the testbench of a core, which counts the cycles of each record."""
    walker = f"top.rootp->{top}_packed__DOT__core__DOT__walker__DOT__"
    probes = Probes(
        signals=[(f"{walker}fsm_state != 0", f"{walker}index")],
        rows=config.records,
        visible=[(f"{top}_walker", "fsm_state"), (f"{top}_walker", "index")],
    )
    return Bench(Core(config).signature, probes=probes, page=config.burst)


def executable(verilog: Path, top: str, config: StreamEngineConfig, *, build: Path) -> Path:
    """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
    return _bench(top, config).executable(verilog, top, build=build)


def _vectors(config: StreamEngineConfig, vectors: np.ndarray) -> np.ndarray:
    """Return the beats of results as words."""
    lanes = config.lanes
    beats = -(-vectors.shape[1] // lanes)
    values = np.zeros((len(vectors), beats * lanes), np.int64)
    values[:, : vectors.shape[1]] = vectors
    count = len(vectors) * beats
    return pack(
        result_layout(config),
        count,
        values=values.reshape(count, lanes),
        last=np.arange(count) % beats == beats - 1,
    )


def _act(
    config: StreamEngineConfig, kind: str, tokens: np.ndarray, wanted: np.ndarray, start: bool
) -> Act:
    inputs = {"i": words([job(config, kind, start=start)], job_layout(config))}
    outputs = {"o_status": words([status(kind)], status_layout())}
    if len(tokens):
        inputs["i_tokens"] = words(token_payloads(tokens.tolist()), token_layout())
        outputs["o"] = _vectors(config, wanted)
    return Act(
        name=kind,
        inputs=inputs,
        outputs=outputs,
        messages={"o": _unequal, "o_status": partial(_failed, kind)},
    )


def _unequal(at: Difference) -> str:
    came, wanted = (of("values")[at.at].tolist() for of in (at.found, at.wanted))
    return f"beat {at.at} of the result is {came}, and in the model {wanted}"


def _failed(kind: str, at: Difference) -> str:
    ((name,), _) = at.fields("status")
    return f"the command to {kind} ended with the status {STREAM_ENGINE_STATUS[name]}"


def run(
    built: Path,
    top: str,
    config: StreamEngineConfig,
    image: EngineImage,
    engine: StreamEngine,
    blocks: Sequence[np.ndarray],
    *,
    memory: Memory | None = None,
    seed: int = 0,
    pauses: int = 0,
) -> list[Block]:
    """Load a program, and run blocks of tokens one after another; return what each took.

    Parameters
    ----------
    built, top
        What :func:`executable` built, and the core's name in it.
    config, image, engine
        The core, the memory image of a program, and the program's model.
    blocks
        Tokens.
    memory, seed, pauses
        See :class:`~seedbed.sim.verilog.cosim.Cosim`.

    Raises :class:`~seedbed.sim.harness.Mismatch` for a result that is not that of the model.
    """
    size = config.beat_bits // 8
    raw = b"".join(beat.to_bytes(size, "little") for beat in image.beats)
    found = []
    engine.start()
    none = np.zeros(0, np.int64)
    with Cosim(built, _bench(top, config), seed=seed, pauses=pauses) as core:
        core.fill(memory or Memory(), len(image.beats), np.frombuffer(raw, "<u4"))
        load = _act(config, "load", none, none, False)
        check([load], {load.name: core.run(load, settle=SETTLE)})
        for k, tokens in enumerate(blocks):
            act = _act(config, "run", tokens, engine.run(tokens), not k)
            result = core.run(act, settle=SETTLE)
            check([act], {act.name: result})
            kinds = dict.fromkeys(image.names, 0)
            for name, count in zip(image.names, result.counts[0].tolist(), strict=False):
                kinds[name] += count
            found.append(Block(cycles=result.cycles, beats=result.beats, kinds=kinds))
    return found
