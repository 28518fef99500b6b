# amaranth: UnusedElaboratable=no
"""A training in the emitted trainer of programs, whose log and results are the model's."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from seedbed.golden.engine_image import EngineImage
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.stream_trainer import (
    Sample,
    Tuned,
    Work,
    head_beats,
    sample_bytes,
    train,
    training,
)
from seedbed.golden.tuning_log import Step
from seedbed.hw.kept.stream_trainer import StreamTrainer
from seedbed.hw.kept.stream_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.stream.stream_layouts import result_layout
from seedbed.sim.cases.stream_engine import limits
from seedbed.sim.cases.stream_trainer import job, status
from seedbed.sim.job import Act, Difference, Memory, check
from seedbed.sim.jobs.stream_job import whole_beats
from seedbed.sim.payloads import pack, words
from seedbed.sim.verilog.cosim import Bench, Cosim
from seedbed.spec.stream_trainer import STREAM_TRAINER_STATUS, StreamTrainerConfig

__all__ = ["Training", "bench", "contents", "run"]


@dataclass(frozen=True)
class Training:
    """The steps of a training, and the cycles and beats that were read in the core."""

    steps: list[tuple[Step, int, int]]
    cycles: int
    beats: int


def bench(config: StreamTrainerConfig) -> Bench:
    """Return the testbench of a core."""
    return Bench(StreamTrainer(config).signature, page=config.burst)


def contents(
    config: StreamTrainerConfig, image: EngineImage, samples: Sequence[Sample]
) -> tuple[bytes, int]:
    """Return a memory with a program and samples after it, and the beat of the first sample."""
    address = len(image.beats) + image.saved
    raw = image_bytes(config.engine, image.beats).ljust(address * config.beat_bits // 8, b"\0")
    head = head_beats(config, samples)
    return raw + b"".join(sample_bytes(config, each, head) for each in samples), address


def run(
    cosim: Cosim, config: StreamTrainerConfig, image: EngineImage, program: Tuned,
    samples: Sequence[Sample], work: Work, *, memory: Memory,
) -> Training:  # fmt: skip
    """Load a program, and train it on samples that follow it in memory, by one command.

    ``program`` is the model of it. Raises :class:`~seedbed.sim.harness.Mismatch` for a status, a
    result or a step that differs.
    """
    raw, address = contents(config, image, samples)
    beats = np.frombuffer(raw, "<u4")
    cosim.fill(memory, 32 * len(beats) // config.beat_bits, beats)
    limit = limits(config.engine, image)
    _act(cosim, config, "load", limit, {"o_status": _ended("load")})
    found: list[np.ndarray] = []
    steps = list(train(config, program, samples, work, done=found.append))
    rows = whole_beats(config, np.concatenate(found))
    log = np.array([(step.seed, step.change) for step, *_ in steps])
    outputs = {
        "o": pack(result_layout(config), len(rows), values=rows, last=np.ones(len(rows))),
        "o_log": pack(log_layout(config), len(steps), seed=log[:, 0], change=log[:, 1]),
        "o_status": _ended("train", len(steps)),
    }
    fields = training(config, samples, work, address=address, tuned=image.tuned)
    done = _act(cosim, config, "train", fields, outputs)
    return Training(steps, done.cycles, done.beats)


def _ended(kind: str, steps: int = 0) -> np.ndarray:
    return words([status(kind, steps=steps)], status_layout())


def _act(cosim: Cosim, config: StreamTrainerConfig, kind: str, fields, outputs):
    inputs = {"i": words([job(config, kind, **fields)], job_layout(config))}
    messages: dict = {"o": _unequal, "o_log": _step, "o_status": partial(_failed, kind)}
    act = Act(name=kind, inputs=inputs, outputs=outputs, messages=messages)
    # Some cycles between acts, for what would come too late.
    result = cosim.run(act, settle=16)
    check([act], {kind: result})
    return result


def _unequal(of: Difference) -> str:
    return f"result {of.at} is not the model's"


def _step(of: Difference) -> str:
    return f"step {of.at} of the log is not the model's"


def _failed(kind: str, of: Difference) -> str:
    ((name,), _) = of.fields("status")
    return f"the command to {kind} ended with the status {STREAM_TRAINER_STATUS[name]}"
