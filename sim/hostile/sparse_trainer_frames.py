"""Hostile frames of ``sparse_trainer``."""

from collections.abc import Iterator
from random import Random

import numpy as np

from seedbed.sim.cases import sparse_trainer
from seedbed.sim.hostile.frames import SILENT, Hostile, define, steps_of
from seedbed.sim.verilog.script import step
from seedbed.spec import SparseTrainerConfig

__all__ = ["HOSTILE"]


def _frames(config: SparseTrainerConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.kept.sparse_trainer.SparseTrainer`.

    A job with an error of the memory, a memory that takes no command, samples that are too long, an
    abort or a reset, and a good job after it.
    """
    random, rng = Random(seed), np.random.default_rng(seed)
    model = sparse_trainer.drawn(config, rng, (18, 14, 5))
    phases = sparse_trainer.load(model)
    phases += [sparse_trainer.classified(model, rng, 2)]
    phases += [sparse_trainer.training(model, rng, samples=2, batch=1)]
    phases += [sparse_trainer.read_out(model)]
    good = ["ignore 0"]
    for phase in phases:
        good += steps_of(phase)
    yield from define("good", good)
    for address, beat in model.beats().items():
        yield step("store", str(address), [beat])
    yield "call good"
    for _ in range(frames):
        yield "ignore 1"
        match random.randrange(4):
            case 0:
                yield "deaf"
            case 1:
                yield f"forget {1 + random.randrange(200)}"
            case _:
                kind = random.choice(("error", "short", "long"))
                yield f"fault {random.randrange(30)} {kind} {random.randrange(1, 4)}"
        kind, count = random.choice(("train", "infer")), random.choice((1, 1, 1, 2))
        job = sparse_trainer.job(config, kind, samples=count, epochs=1, batch=1)
        x = rng.integers(-99, 99, (count, model.layers[0].columns))
        beats = random.choice((0, 0, 0, 2, 30))
        samples = [sparse_trainer.sample_payloads(config, each, 1, beats=beats) for each in x]
        yield step("send", "i_samples", [beat for sample in samples for beat in sample])
        if count > 1 or beats or random.random() < 0.3:
            # What is left of the samples goes with a reset.
            yield step("send", "i", [job])
            yield f"cycles {random.randrange(900)}"
            if random.random() < 0.5:
                yield step("send", "i", [sparse_trainer.job(config, "abort")])
                yield f"cycles {random.randrange(900)}"
            yield f"reset {random.randrange(2)}"
        else:
            # The bit is the kind of the read, which waits for the end of the job.
            yield step("send", "i", [job, sparse_trainer.job(config, "read")])
            yield "until o_status 1"
        yield "heal"
        yield "cycles 200"
        # A beat that came after the end is the error of the next command.
        yield step("send", "i", [sparse_trainer.job(config, "abort")])
        yield "until o_status 2"
        yield "call good"


HOSTILE = (
    Hostile("small", _frames, SILENT),
    Hostile("small, trellis", _frames, SILENT | {"decode": "trellis"}),
)
