"""Hostile frames of ``stream_trainer``."""

from collections.abc import Iterator
from random import Random

import numpy as np

from seedbed.golden.engine_image import engine_image
from seedbed.golden.stream_trainer import Work
from seedbed.sim.cases import stream_trainer
from seedbed.sim.cases.stream_engine import Blocks, drawn
from seedbed.sim.hostile.frames import SILENT, Hostile, define, steps_of, stored
from seedbed.sim.hostile.stream_engine_frames import hostile_program, mutated_program
from seedbed.sim.verilog.script import step
from seedbed.spec import StreamTrainerConfig

__all__ = ["HOSTILE"]


def _frames(config: StreamTrainerConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.kept.stream_trainer.StreamTrainer`.

    Programs, samples and commands to train that may be damaged, errors of the memory, aborts and
    resets, and a good training after each.
    """
    random, rng = Random(seed), np.random.default_rng(seed)
    engine = drawn(config.engine, "dense", rng)
    image = engine_image(config.engine, engine.program, engine.parameters, block=3, context=3)
    blocks = Blocks(config.engine, image, engine)
    samples = stream_trainer.drawn_samples(config, engine.program, rng, (3, 3))
    of = stream_trainer.Trainings(config, blocks, samples)
    work = Work(batch=2, seed=9, eps=40, rate=900, shift=9, most=99)
    yield from define("image", [stored(of.beats)])
    good = ["ignore 0", "heal", "call image"]
    for phase in (of.given(blocks.load()), of.train(work)):
        good += steps_of(phase)
    yield from define("good", good)
    limits = {"first": 900, "end": 1300}
    for _ in range(frames):
        yield "ignore 1"
        match random.randrange(3):
            case 0:
                yield stored(hostile_program(random, config))
            case 1:
                yield stored(mutated_program(random, config, image.beats))
            case _:
                yield "call image"
        match random.randrange(8):
            case 0 | 1:
                kind = random.choice(("error", "short", "long", "response"))
                yield f"fault {random.randrange(60)} {kind} {random.randrange(4)}"
            case 2:
                yield "deaf"
        fields = {
            "address": random.randrange(of.first + 3), "samples": random.randrange(4),
            "epochs": random.randrange(3), "batch": random.randrange(4),
            "head": random.randrange(4), "seed": random.randrange(1 << 24),
            "first": random.choice((900, 899)), "end": random.randrange(880, 1000),
        }  # fmt: skip
        if config.inputs:
            fields["vectors"] = random.randrange(80)
        some = {name: fields[name] for name in fields if random.random() < 0.3}
        ranges = {name: limits[name] for name in limits if name not in some}
        train = of.command(work, **some | ranges)
        load = stream_trainer.job(config, "load", **limits)
        yield step("send", "i", [load, train])
        if random.random() < 0.8:
            # The bit is the kind of the training, which ends in any case.
            yield "until o_status 0"
        else:
            yield f"cycles {random.randrange(3000)}"
            if random.random() < 0.5:
                yield step("send", "i", [stream_trainer.job(config, "abort")])
                yield f"cycles {random.randrange(900)}"
            yield f"reset {random.randrange(2)}"
        yield "heal"
        yield "cycles 200"
        yield "call good"


HOSTILE = (
    Hostile("small", _frames, SILENT),
    Hostile("small, vectors in", _frames, SILENT | {"inputs": True}),
)
