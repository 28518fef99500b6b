"""Hostile frames of ``instantft``."""

from collections.abc import Iterator
from random import Random

import numpy as np

from seedbed.hw.adapters import instantft
from seedbed.hw.engine.parameter_loader import packet_layout
from seedbed.sim.cases import instantft as fine_tuning
from seedbed.sim.hostile.frames import Hostile, define
from seedbed.sim.verilog.script import step
from seedbed.spec.instantft import INSTANTFT_KINDS, InstantFtConfig

__all__ = ["HOSTILE"]


def _frames(config: InstantFtConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.adapters.instantft.InstantFt`."""
    random = Random(seed)
    script = fine_tuning.Session(config=config, rng=np.random.default_rng(seed))
    for trainable in (False, True):
        script.load(trainable=trainable)
    script.order("forget")
    # After a failed command, samples are dropped until the next one is taken.
    phases = script.phases()
    script.train([[0, 2], [2, 1]], batch=2, rate=config.lora.rate(0.02))
    script.order("read")
    script.infer([1])
    good = []
    for phase in [*phases, *script.phases()]:
        for name in fine_tuning.INPUTS:
            good += [step("send", name, phase.inputs[name])] * bool(phase.inputs[name])
        for name in fine_tuning.OUTPUTS:
            good += [step("expect", name, phase.outputs[name])] * bool(phase.outputs[name])
        good.append("done")
    yield from define("good", ["ignore 0", *good])
    images = [_image(config, random) for _ in range(64)]
    for k, image in enumerate(images):
        yield from define(f"image{k}", [step("send", "i_samples", image)])
    last, clear = instantft.result_layout(config)["last"].offset, INSTANTFT_KINDS.index("clear")
    yield "call good"
    for _ in range(frames):
        yield "ignore 1"
        for _ in range(random.choice((0, 0, 1, 2))):
            kind = random.choice(("error", "error", "short", "long", "response"))
            yield f"fault {random.randrange(3)} {kind} {random.randrange(7)}"
        match random.randrange(4):
            case 0:
                yield step("send", "i_parameters", _packet(config, random))
                yield "done"
                # The next command says whether the packet fitted.
                yield step("send", "i", [_command(config, kind=clear)])
                yield f"until o {last}"
            case 1:
                yield f"stray {random.choice((0, 1, 1, 2, 5))}"
                yield "cycles 100"
            case _:
                yield from _job(config, random, len(images), last)
        if random.random() < 0.2:
            yield f"reset {random.randrange(2)}"
        # What is queued belongs to the frame: an image is sent to its end.
        yield "done"
        yield "heal"
        yield "cycles 20"
        yield "call good"


def _command(config: InstantFtConfig, **fields: int) -> int:
    names = ("samples", "epochs", "batch", "rate")
    return instantft.command_layout(config).const(dict.fromkeys(names, 0) | fields).as_bits()


def _image(config: InstantFtConfig, random: Random) -> list[int]:
    layout = instantft.sample_layout(config)
    rows, columns, channels = config.engine.plan.image.shape
    beats = rows * -(-columns * channels // config.ways)
    if random.random() < 0.1:
        beats = max(1, beats + random.choice((-7, -1, 1, 2, 9)))
    index = random.choice((*range(config.entries), *range(config.entries), config.entries, 65535))
    return [
        layout.const(
            {
                "pixels": [random.randrange(256) for _ in range(config.ways)],
                "label": random.randrange(config.softmax_loss.classes),
                "index": index,
                "last": k == beats - 1,
            }
        ).as_bits()
        for k in range(beats)
    ]


def _packet(config: InstantFtConfig, random: Random) -> list[int]:
    layout = packet_layout(config.engine)
    plan, trainable = config.engine.plan, random.randrange(2)
    rows = plan.trainable_rows if trainable else plan.frozen_rows
    beats = rows * plan.ways * plan.lanes // 2
    beats = random.choice((beats, beats - 1, beats + 1, 1, random.randrange(1, 2 * beats)))
    low, high = -(1 << (config.engine.word - 1)), 1 << (config.engine.word - 1)
    return [
        layout.const(
            {
                "word": [random.randrange(low, high) for _ in range(2)],
                "trainable": trainable,
                "last": k == beats - 1,
            }
        ).as_bits()
        for k in range(beats)
    ]


def _job(config: InstantFtConfig, random: Random, images: int, last: int) -> Iterator[str]:
    """Yield a random command and as many images as it may take, or fewer, and then a reset."""
    kind = random.choice((*[0] * 12, *range(8)))
    samples = random.choice((0, *range(1, 4), *range(1, 4)))
    epochs = random.choice((0, 1, 2, 1, 2, 2))
    fields = {
        "kind": kind,
        "samples": samples,
        "epochs": epochs,
        "batch": random.choice((0, 1, 2, 3, 1, 2, 3, 256, 257, 511)),
        "rate": random.randrange(1 << config.lora.rate_width),
    }
    yield step("send", "i", [_command(config, **fields)])
    jobs = ("train", "infer")
    takes = kind in map(INSTANTFT_KINDS.index, jobs) or kind >= len(INSTANTFT_KINDS)
    for _ in range(takes * samples * epochs):
        yield f"call image{random.randrange(images)}"
    if takes and random.random() < 0.3:
        yield f"cycles {random.randrange(3000)}"
        yield f"reset {random.randrange(2)}"
    else:
        if random.random() < 0.1:
            yield f"forget {1 + random.randrange(1000)}"
        yield f"until o {last}"


HOSTILE = (Hostile("small", _frames),)
