"""Jobs of the application ``instantft``: what is sent, and what must come back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from amaranth.lib import data
from threadpoolctl import threadpool_limits

from seedbed.boards.image_store import shown
from seedbed.boards.stream_job import StreamJob, act_packets
from seedbed.boards.streams import Input, Output, packet
from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.instantft_task import (
    SETTINGS,
    Task,
    prepare,
    require,
    require_angle,
    to_bytes,
    turned,
)
from seedbed.golden import network
from seedbed.hw.adapters.instantft import command_layout, result_layout, sample_layout
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.sim.job import Epoch, every_epoch
from seedbed.sim.jobs.instantft_job import Job
from seedbed.sim.payloads import image_beats
from seedbed.spec.checks import require_int
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import TINY

__all__ = ["inputs", "outputs", "prepared", "stream_job"]

#: Ports for packets, by the core's.
INPUTS = {"i_parameters": "parameters", "i": "command", "i_samples": "samples"}

#: Steps of Adam for the network of 6 x 6 pixels, and the learning rate of its adapters: half and
#: twice that rate gain less.
TINY_STEPS, TINY_RATE = 400, 0.2


def inputs(config: InstantFtConfig) -> tuple[Input, ...]:
    """Return the ports for packets; the tags: which parameters, and an image's index."""
    return (
        Input("parameters", 2 * config.engine.word, 1),
        Input("images", 8 * config.ways, 16),
        Input("command", command_layout(config).size),
        Input("samples", 16 + sample_layout(config)["label"].width),
    )


def outputs(config: InstantFtConfig) -> tuple[Output, ...]:
    """Return the ports for words to the host: the core's streams."""
    names = ("result", "parameters")
    layouts = _layouts(config).values()
    return tuple(Output(name, each.size) for name, each in zip(names, layouts, strict=True))


def _layouts(config: InstantFtConfig) -> dict[str, data.StructLayout]:
    """Return the layouts of the core's outputs to the host."""
    return {"o": result_layout(config), "o_parameters": words_layout(config.engine)}


def prepared(
    config: InstantFtConfig,
    data: Path | None,
    folder: Path,
    *,
    images: int,
    held: int,
    epochs: int,
    angle: float,
    seed: int,
) -> Job:
    """Return a job on rotated images, with a network that is pre-trained on upright ones.

    Raises ``ValueError`` for values out of range, and for more images than there are.
    """
    require(config, images=images, epochs=epochs, seed=seed)
    require_int("held", held, 1, 65535 - config.entries)
    require_angle(angle)
    if config.network == TINY:
        task = _tiny()
    else:
        split = digits() if data is None else mnist(data)
        with threadpool_limits(1):
            task = prepare(split, SETTINGS[split.name], folder / split.name, lambda _: None)
    if images + held > len(task.labels):
        raise ValueError(
            f"images and held must be at most {len(task.labels)} together, not {images + held}"
        )
    return turned(config, task, images=images, held=held, epochs=epochs, angle=angle, seed=seed)


def _tiny() -> Task:
    """Return a network of 6 x 6 pixels and 5 classes that is trained on digits without margins."""
    split = digits()
    images, labels = (np.concatenate(part) for part in zip(split.tune, split.test, strict=True))
    images, chosen = images[:, 1:7, 1:7], labels < 5
    images, labels = images[chosen], labels[chosen]
    cut, rng = len(images) // 2, np.random.default_rng(0)
    theta = network.init(TINY, rng)
    pixels = to_bytes(images)[:cut, None] / np.float32(255)
    picks = (rng.integers(cut, size=32) for _ in range(TINY_STEPS))
    drawn = ((pixels[pick], labels[pick]) for pick in picks)
    *_, theta = network.adam(TINY, theta, drawn, rate=3e-3)
    held = to_bytes(images)[cut:, None] / np.float32(255)
    upright = network.accuracy(TINY, theta, held, labels[cut:])
    settings = replace(SETTINGS["digits"], rate=TINY_RATE)
    return Task(settings, theta, images[cut:], labels[cut:], upright)


def stream_job(of: Job, epoch: Epoch = every_epoch) -> tuple[StreamJob, dict[str, int]]:
    """Return a job for the board, and the counters at the training's end.

    It sends parameters and images, classifies, trains, reads the adapters, and classifies again.
    ``epoch`` trains the model for an epoch.
    """
    config, found = of.config, inputs(of.config)
    acts, counted = of.acts(lambda places: shown(places, of.labels), epoch=epoch)
    beats = image_beats(of.images, config.ways)
    packets = [act_packets(act, found, INPUTS, int(act.name == "adapters")) for act in acts]
    packets.insert(2, [packet(found, "images", each.tobytes(), k) for k, each in enumerate(beats)])
    words = np.concatenate([each for part in packets for each in part])
    return StreamJob(words, acts, outputs(config), _layouts(config)), counted
