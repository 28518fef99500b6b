"""Case of the zeroth-order trainer: schedules, jobs, read-outs, and every fault."""

from random import Random

import numpy as np

from seedbed.golden.zo_trainer import LogEntry, ZoTrainer
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.zeroth_order.zo_control import job_layout, status_layout
from seedbed.hw.zeroth_order.zo_schedule import entry_layout
from seedbed.hw.zeroth_order.zo_steps import class_layout, log_layout
from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase
from seedbed.sim.payloads import image_beats, integers, pack
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS, ZoTrainerConfig

__all__ = ["case", "drawn", "job", "log_payload", "sample_payloads", "schedule_payloads", "status"]

#: Entries: epoch, magnitude, zeros, and update bits, which only a tail has.
Schedule = list[tuple[int, int, int, int]]


def drawn(config: ZoTrainerConfig, rng: np.random.Generator) -> ZoTrainer:
    """Return a model with random weights, some of them at the ends of their range.

    With the exponents, most perturbations change the loss: most steps update weights.
    """
    weights = {}
    for layer in config.layers:
        shape = layer.outputs, layer.fan_in
        numbers = rng.integers(-127, 128, shape)
        weights[layer.name] = np.where(rng.random(shape) < 0.1, 127, numbers)
    return ZoTrainer(config, weights, {layer.name: -7 for layer in config.layers})


def word_payloads(config: ZoTrainerConfig, words: np.ndarray) -> list[int]:
    """Return a packet of parameters."""
    last = np.arange(len(words)) == len(words) - 1
    return integers(pack(words_layout(config.engine), len(words), word=words, last=last))


def sample_payloads(
    config: ZoTrainerConfig, image: np.ndarray, label: int, rng: np.random.Generator, beats: int = 0
) -> list[int]:
    """Return the packet of an image (C, H, W) of bytes; ``beats`` is how many, if wrongly."""
    beats = beats or config.image_beats
    (given,) = image_beats(image[None], config.ways, lambda shape: rng.integers(0, 256, shape))
    given = np.resize(given, (beats, config.ways))
    last = np.arange(beats) == beats - 1
    return integers(pack(sample_layout(config), beats, pixels=given, label=label, last=last))


def _phase(config: ZoTrainerConfig, magnitude: int, zeros: int, bits: int) -> dict[str, int]:
    tail = {"update_bits": bits} if config.tail else {}
    return {"magnitude": magnitude, "zeros": zeros} | tail


def schedule_payloads(config: ZoTrainerConfig, entries: Schedule) -> list[int]:
    """Return a schedule of entries (epoch, magnitude, zeros, update bits)."""
    layout = entry_layout(config)
    return [
        layout.const(
            {
                "epoch": epoch,
                "phase": _phase(config, magnitude, zeros, bits),
                "last": k == len(entries) - 1,
            }
        ).as_bits()
        for k, (epoch, magnitude, zeros, bits) in enumerate(entries)
    ]


def job(config: ZoTrainerConfig, kind: str, **fields: int) -> int:
    """Return a command."""
    return job_layout(config).const({"kind": ZO_TRAINER_KINDS.index(kind), **fields}).as_bits()


def status(kind: str, name: str = "ok", steps: int = 0) -> int:
    """Return how a command ended."""
    codes = {"kind": ZO_TRAINER_KINDS.index(kind), "status": ZO_TRAINER_STATUS.index(name)}
    return status_layout().const({**codes, "steps": steps}).as_bits()


def log_payload(config: ZoTrainerConfig, entry: LogEntry) -> int:
    """Return a step in the log."""
    phase = _phase(config, entry.magnitude, entry.zeros, entry.update_bits)
    fields = {"seed": entry.seed, "phase": phase, "sign": entry.sign}
    if config.levels > 1:
        fields["level"] = entry.level
    return log_layout(config).const(fields).as_bits()


def class_payloads(config: ZoTrainerConfig, classes: np.ndarray) -> list[int]:
    """Return the results of samples."""
    return integers(pack(class_layout(config), len(classes), best=classes))


def training(
    model: ZoTrainer,
    rng: np.random.Generator,
    *,
    samples: int,
    batch: int,
    epochs: int = 1,
    schedule: Schedule,
) -> list[Phase]:
    """Train the model; return the phases of a core that does the same."""
    config = model.config
    seed = int(rng.integers(1 << 32))
    images = rng.integers(0, 256, (samples, *config.layers[0].inputs))
    labels = rng.integers(0, config.classes, samples)
    sent: list[int] = []
    classes: list[int] = []
    log: list[int] = []
    steps = 0
    fields = {"samples": samples, "epochs": epochs, "batch": batch, "seed": seed}
    command = job(config, "train", **fields, exponent=model.exponent)
    model.begin()
    for epoch in range(epochs):
        _, magnitude, zeros, bits = [entry for entry in schedule if entry[0] <= epoch][-1]
        for k in range(0, samples, batch):
            part = slice(k, k + batch)
            found, entry = model.step(
                images[part],
                labels[part],
                seed=(seed + steps) & 0xFFFFFFFF,
                magnitude=magnitude,
                zeros=zeros,
                update_bits=bits,
            )
            classes += class_payloads(config, found)
            log.append(log_payload(config, entry))
            steps += 1
        for image, label in zip(images, labels, strict=True):
            sent += sample_payloads(config, image, label, rng)
    return [
        Phase(inputs={"i_schedule": schedule_payloads(config, schedule)}),
        Phase(
            inputs={"i": [command], "i_samples": sent},
            outputs={"o": classes, "o_log": log, "o_status": [status("train", steps=steps)]},
        ),
    ]


def classified(model: ZoTrainer, rng: np.random.Generator, samples: int) -> Phase:
    """Return the phase of a job that classifies random images."""
    config = model.config
    images = rng.integers(0, 256, (samples, *config.layers[0].inputs))
    sent = [payload for image in images for payload in sample_payloads(config, image, 0, rng)]
    command = job(config, "infer", samples=samples, epochs=1, exponent=model.exponent)
    return Phase(
        inputs={"i": [command], "i_samples": sent},
        outputs={"o": class_payloads(config, model.infer(images)), "o_status": [status("infer")]},
    )


def read_out(model: ZoTrainer) -> Phase:
    """Return the phase of a command that gives the weights out."""
    config = model.config
    words = word_payloads(config, model.words())
    return Phase(
        inputs={"i": [job(config, "read")]},
        outputs={"o_parameters": words, "o_status": [status("read")]},
    )


def case(config: ZoTrainerConfig, random: Random, *, samples: int = 3) -> Case:
    """Return trainings, classifications and read-outs."""
    rng = np.random.default_rng(random.getrandbits(32))
    model = drawn(config, rng)
    top = config.magnitude_bits
    phases = [
        Phase(inputs={"i_parameters": word_payloads(config, model.words())}),
        classified(model, rng, 2),
        *training(
            model, rng, samples=samples, batch=2, epochs=2, schedule=[(0, top, 5, 5), (1, 1, 0, 1)]
        ),
        read_out(model),
        *training(model, rng, samples=2, batch=1, schedule=[(0, max(top - 1, 1), 14, 7)]),
        classified(model, rng, 1),
        read_out(model),
    ]
    return Case(
        phases=phases,
        quiet=True,
        retains=True,
        timeout_cycles=TIMEOUT_CYCLES + 2 * config.engine.plan.cycles,
    )
