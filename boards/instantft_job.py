"""Jobs of the application ``instantft``: what is sent, and what must come back."""

from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from seedbed.boards.stream_job import StreamJob
from seedbed.boards.streams import Input, Output, packet, payloads
from seedbed.flow.jobs.data import digits, mnist, rotated
from seedbed.flow.jobs.instantft_task import ANGLES, SETTINGS, Task, prepare, to_bytes
from seedbed.golden import network
from seedbed.golden.engine import words as row_words
from seedbed.golden.instantft import batches, quantised
from seedbed.hw.adapters.instantft import command_layout, result_layout, sample_layout
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.sim.jobs.instantft_job import ActResult
from seedbed.sim.jobs.instantft_whole import Whole, check
from seedbed.sim.payloads import image_beats
from seedbed.spec.checks import require_int
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig
from seedbed.spec.network import TINY

__all__ = ["checked", "inputs", "outputs", "prepared", "stream_job"]

#: Steps of Adam for the network of 6 x 6 pixels.
TINY_STEPS = 400


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
    return (
        Output("result", result_layout(config).size),
        Output("parameters", words_layout(config.engine).size),
    )


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
) -> Whole:
    """Return a job on rotated images, with a network that is pre-trained on upright ones.

    Raises ``ValueError`` for values out of range, and for more images than there are.
    """
    require_int("images", images, 1, config.entries)
    require_int("held", held, 1, 65535 - config.entries)
    require_int("epochs", epochs, 1, 65535)
    require_int("seed", seed, 0, 2**32 - 1)
    if not ANGLES[0] <= angle <= ANGLES[-1]:
        raise ValueError(f"angle must be in {ANGLES[0]}..{ANGLES[-1]} degrees, not {angle:g}")
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
    image_rng, _, order = (np.random.default_rng([seed, k]) for k in range(3))
    picked = image_rng.permutation(len(task.labels))[: images + held]
    return Whole(
        config=config,
        weights=quantised(config, task.parameters),
        images=to_bytes(rotated(task.images[picked], angle)),
        labels=task.labels[picked],
        tuned=images,
        order=list(batches(images, config.batch, epochs, order)),
        eta=task.settings.rate,
        a_seed=[seed, 1],
        deviation=task.settings.deviation,
    )


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
    return Task(SETTINGS["digits"], theta, images[cut:], labels[cut:], upright)


def stream_job(of: Whole) -> StreamJob:
    """Return a job: parameters, images, classify, train, read the adapters, classify again."""
    config = of.config
    found = inputs(config)
    beats = image_beats(of.images[:, None], config.ways)
    words: list[np.ndarray] = []
    expected = 0
    sizes = {port.name: port.words for port in outputs(config)}
    labels = of.labels.astype(np.int64) << 16
    for act in of.acts().values():
        if act.rows is not None:
            pairs = row_words(act.rows).astype("<i2").tobytes()
            words.append(packet(found, "parameters", pairs, int(act.trainable)))
            if act.trainable:
                words += [packet(found, "images", beats[k].tobytes(), k) for k in range(len(beats))]
            continue
        assert act.kind is not None
        fields = {"kind": INSTANTFT_KINDS.index(act.kind), **dict(act.fields)}
        command = command_layout(config).const(fields).as_bits()
        words.append(packet(found, "command", [command]))
        samples = np.asarray(act.images, np.int64)
        if len(samples):
            raw = (samples | labels[samples]).astype("<u4").tobytes()
            words.append(packet(found, "samples", raw))
        expected += (len(samples) + 1) * sizes["result"]
        if act.kind == "read":
            expected += len(row_words(of.rows(of.model()))) * sizes["parameters"]
    return StreamJob(np.concatenate(words), expected)


def checked(
    of: Whole, words: np.ndarray, counters: dict[str, int], *, whole: bool
) -> dict[str, np.ndarray]:
    """Return which images were classified right, before and after the training.

    ``whole``: no other host has read a part of the words. Otherwise the adapters alone are
    compared, as far as they came.

    Raises ``AssertionError`` and :class:`~seedbed.sim.harness.Mismatch` for a difference.
    """
    config = of.config
    found = payloads(outputs(config), words)
    word = config.engine.word
    numbers = np.stack([found["parameters"], found["parameters"] >> word], axis=1)
    numbers = (numbers & (1 << word) - 1 ^ 1 << word - 1) - (1 << word - 1)
    if not whole:
        model = of.model()
        cached = model.cached(model.base(of.images[: of.tuned]))
        model.train(cached, of.labels[: of.tuned], of.order, of.eta)
        wanted = row_words(of.rows(model))
        same = (numbers == wanted[len(wanted) - len(numbers) :]).all()
        assert same, "the adapters differ from those of the model"
        return {}
    results = _results(of, found["result"], numbers.ravel(), counters)
    check(of, results, faulty=False)
    return {name: results[name].best == of.labels for name in ("before", "after")}


def _results(
    of: Whole, results: np.ndarray, numbers: np.ndarray, counters: dict[str, int]
) -> dict[str, ActResult]:
    """Return what came of each act."""
    layout, at, found = result_layout(of.config), 0, {}
    parts = {}
    for name in ("best", "loss", "hit", "status", "last"):
        field = layout[name]
        parts[name] = results >> field.offset & (1 << field.width) - 1
    for name, act in of.acts().items():
        if act.kind is None:
            continue
        end = at + len(act.images)
        assert parts["last"][at : end + 1].tolist() == [0] * len(act.images) + [1], (
            f"{name}: the number of results is another one"
        )
        found[name] = ActResult(
            cycles=0,
            status=INSTANTFT_STATUS[parts["status"][end]],
            when=np.arange(len(act.images)),
            **{field: parts[field][at:end] for field in ("best", "loss", "hit")},
            parameters=numbers if act.kind == "read" else numbers[:0],
            counters=counters,
        )
        at = end + 1
    return found
