"""Case of the loss sign: batches of near and equal losses, all exponents, errors of every kind."""

from random import Random

import numpy as np

from seedbed.golden.loss_sign import LossSign
from seedbed.hw.loss.loss_sign import classes_layout, logits_layout, sign_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import LossSignConfig

__all__ = ["case", "frame"]


def frame(
    config: LossSignConfig,
    logits: list[int],
    exponent: int,
    label: int,
    *,
    batch_last: bool = False,
    counts: list[int] | None = None,
) -> list[int]:
    """Return the payloads of port ``i`` for a pass; exponent and label are right in its last beat.

    ``counts`` says how many logits are in each beat; by default, as many as fit. A full beat's
    count is the greatest that the port can have.
    """
    ways, layout = config.ways, logits_layout(config)
    if counts is None:
        counts = [ways] * (len(logits) // ways) + [len(logits) % ways] * (len(logits) % ways > 0)
    beats, at = [], 0
    for k, count in enumerate(counts):
        last = k == len(counts) - 1
        row = logits[at : at + count]
        at += count
        beats.append(
            layout.const(
                {
                    # What is not valid is greater than any logit.
                    "logits": [*row, *[127] * (ways - len(row))],
                    "count": (1 << ways.bit_length()) - 1 if count == ways else count,
                    "exponent": exponent if last else ~exponent,
                    "label": label if last else label ^ 1,
                    "last": last,
                    "batch_last": batch_last,
                }
            ).as_bits()
        )
    return beats


def case(config: LossSignConfig, random: Random, *, batches: int = 12) -> Case:
    """Return ``batches`` batches of each kind, and one that is longer than allowed."""
    rng = np.random.default_rng(random.getrandbits(32))
    classes, ways = config.classes, config.ways
    phase = Phase(inputs={"i": []}, outputs={"o": [], "o_classes": []})
    top = config.most_exponent

    def counts_of(length: int) -> list[int] | None:
        """Return None, or beats of random counts, also of none."""
        if rng.random() < 0.7 and length:
            return None
        counts: list[int] = []
        while sum(counts) < length or not counts:
            counts.append(min(int(rng.integers(0, ways + 1)), length - sum(counts)))
        return counts

    def batch(samples: int, spread: int, exponents: tuple[int, int], errors: float) -> None:
        plus = rng.integers(-128, 128, (samples, classes))
        change = rng.integers(-spread, spread + 1, plus.shape) if spread else 0
        logits = np.stack([plus, (plus + change).clip(-128, 127)])
        scales = np.stack([rng.integers(*exponents, samples)] * 2)
        if spread:
            scales = (scales + rng.integers(-1, 2, scales.shape)).clip(-128, top)
        labels = rng.integers(0, classes, samples)
        # The label's logit is often the greatest, as in a trained network.
        best = rng.random(samples) < 0.4
        labels = np.where(best, logits[0].argmax(axis=1), labels)
        bad = rng.random((3, 2, samples)) < errors
        scales = np.where(bad[0], rng.integers(top + 1, 128, scales.shape), scales)
        codes = 1 << (classes - 1).bit_length()
        labels = np.where(bad[1, 0], rng.integers(0, codes, samples), labels)
        lengths = np.where(bad[2], rng.integers(1, 2 * classes + 2, bad[2].shape), classes)
        shown = np.where(np.arange(classes) < lengths[..., None], logits, -128)
        result = LossSign(config).run(shown, scales, labels, lengths != classes)
        for k in range(samples):
            for minus in (0, 1):
                length = int(lengths[minus, k])
                row = logits[minus, k].tolist()
                row = [*row, *rng.integers(-128, 128, 2 * classes).tolist()][:length]
                phase.inputs["i"] += frame(
                    config,
                    row,
                    int(scales[minus, k]),
                    int(labels[k]),
                    batch_last=(k == samples - 1) if minus else bool(rng.random() < 0.5),
                    counts=counts_of(length),
                )
                each = {
                    "best": int(result.classes[minus, k]),
                    "minus": minus,
                    "error": int(result.errors[minus, k]),
                }
                phase.outputs["o_classes"].append(classes_layout(config).const(each).as_bits())
        each = {"sign": result.sign, "error": int(result.error)}
        if config.levels > 1:
            each["size"] = result.magnitude
        phase.outputs["o"].append(sign_layout(config).const(each).as_bits())

    most = min(config.batch, 5)
    for _ in range(batches):
        samples = random.randrange(1, most + 1)
        batch(samples, random.choice([1, 4, 20]), (-9, -1), 0)
        # Equal losses; any exponent; errors.
        batch(samples, 0, (-9, -1), 0)
        batch(samples, random.choice([0, 4, 255]), (-128, top + 1), 0)
        batch(samples, 4, (-9, -1), 0.2)
    for exponent in range(top - config.most_shift - 1, top + 1):
        batch(1, 3, (exponent, exponent + 1), 0)
    if config.batch < 10:
        batch(config.batch + 3, 4, (-9, -1), 0)
        batch(config.batch, 4, (-9, -1), 0)
    return Case(phases=[phase], quiet=True)
