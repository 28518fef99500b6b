"""Case of softmax: close and distant logits, ties, extremes, frame lengths, missing labels."""

from dataclasses import replace
from random import Random

import numpy as np

from seedbed.golden.fixed import Saturations
from seedbed.golden.softmax_loss import SoftmaxLoss
from seedbed.hw.loss.softmax_loss import logit_layout, result_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import SoftmaxLossConfig

__all__ = ["case", "frame", "response"]


def frame(config: SoftmaxLossConfig, logits: list[int], label: int) -> list[int]:
    """Return the payloads of port ``i`` for a sample; only the last one's label is right."""
    wrong, last = (1 << (config.classes - 1).bit_length()) - 1, len(logits) - 1
    return [
        logit_layout(config)
        .const({"logit": z, "label": label if k == last else label ^ wrong, "last": k == last})
        .as_bits()
        for k, z in enumerate(logits)
    ]


def response(config: SoftmaxLossConfig, logits: list[int], label: int) -> list[int]:
    """Return the payloads of port ``o`` for a sample.

    The model gets as many classes as the label's width can encode.
    """
    logits = logits[: config.classes]
    classes = 1 << (config.classes - 1).bit_length()
    row = np.zeros((1, classes), np.int64)
    row[0, : len(logits)] = logits
    present = np.arange(classes)[None] < len(logits)
    saturations = Saturations()
    model = SoftmaxLoss(replace(config, classes=classes), saturations)
    result = model.run(row, np.array([label]), present)
    fields = {
        "best": int(result.classes[0]),
        "loss": int(result.losses[0]),
        "saturated": saturations.count,
    }
    return [
        result_layout(config)
        .const({"gradient": int(g), **fields, "last": k == len(logits) - 1})
        .as_bits()
        for k, g in enumerate(result.gradients[0, : len(logits)])
    ]


def case(config: SoftmaxLossConfig, random: Random, *, samples: int = 40) -> Case:
    """Return samples of every kind, in random order, and ``samples`` random ones."""
    form, classes = config.logits, config.classes
    rng = np.random.default_rng(random.getrandbits(32))
    # One step of the exponentials' index, and the first difference after the table's end.
    step = form.one >> config.exp_fraction
    table_end = step << config.exp_bits

    def gaussian(spread: float, count: int) -> list[int]:
        numbers = np.rint(rng.normal(0, spread * form.one, count)).astype(int)
        return numbers.clip(form.low, form.high).tolist()

    def clip(numbers: list[int]) -> list[int]:
        return [min(max(z, form.low), form.high) for z in numbers]

    samples_ = [
        # All equal; one far above the others; both format limits; the least and the greatest sum.
        [0] * classes,
        [form.low] * classes,
        [form.high] * classes,
        [form.low] * (classes - 1) + [form.high],
        [form.high] + [form.low] * (classes - 1),
        [form.low] * (classes - 1) + [0],
        # A tie of the greatest, and a greatest that comes last.
        [-step, *[0] * (classes - 1)],
        [k * step for k in range(classes)],
        # Both sides of the table's end, and of a half of the index.
        clip([0, *[-table_end + step // 2 + k - 1 for k in range(classes - 1)]]),
        clip([0, *[-step // 2 + k - 1 for k in range(classes - 1)]]),
        # Fewer logits than classes, and more.
        gaussian(1, 1),
        gaussian(1, classes - 1),
        gaussian(1, classes + 1),
        gaussian(1, 2 * classes + 3),
        [*gaussian(1, classes), form.high],
    ]
    samples_ += [gaussian(random.choice([0.1, 1, 4]), classes) for _ in range(samples)]
    random.shuffle(samples_)
    inputs, outputs = [], []
    for logits in samples_:
        label = random.randrange(1 << (classes - 1).bit_length())
        # Mostly a class that has a logit, and often the best.
        if random.random() < 0.9:
            label %= min(len(logits), classes)
        if random.random() < 0.3:
            label = int(np.argmax(logits[:classes]))
        inputs += frame(config, logits, label)
        outputs += response(config, logits, label)
    return Case(phases=[Phase(inputs={"i": inputs}, outputs={"o": outputs})], quiet=True)
