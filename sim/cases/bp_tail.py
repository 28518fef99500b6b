"""Case of the tail's backpropagation: batches of samples, and what is wrong with some."""

from collections.abc import Sequence
from random import Random

import numpy as np

from seedbed.golden.bp_tail import BpTail, pairs
from seedbed.hw.tail.bp_tail import command_layout, response_layout, vector_layout, weights_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import BpTailConfig

__all__ = ["case", "command", "packet", "response", "sample", "weight_packet"]


def packet(
    config: BpTailConfig, numbers: Sequence[int], exponent: int, random: Random, label: int = 0
) -> list[int]:
    """Return the payloads of port ``i`` for a vector. What does not count in it is random."""
    layout, ways = vector_layout(config), config.ways
    beats = []
    for start in range(0, len(numbers), ways):
        last = start + ways >= len(numbers)
        values = [int(v) for v in numbers[start : start + ways]]
        values += [random.randrange(-128, 128) for _ in range(ways - len(values))]
        fields = {"exponent": exponent, "label": label}
        if not last:
            fields = {"exponent": random.randrange(-128, 128),
                      "label": random.randrange(config.classes)}  # fmt: skip
        beats.append(layout.const({"values": values, **fields, "last": last}).as_bits())
    return beats


def sample(
    config: BpTailConfig,
    vectors: Sequence[Sequence[int]],
    exponents: Sequence[int],
    random: Random,
    label: int,
) -> list[int]:
    """Return the payloads of port ``i`` for a sample, whose logits are the last of the vectors."""
    beats = []
    for numbers, exponent in zip(vectors, exponents, strict=True):
        beats += packet(config, numbers, exponent, random, label)
    return beats


def weight_packet(config: BpTailConfig, weights: np.ndarray) -> list[int]:
    """Return the payloads of port ``i_weights`` for the last layer's weights."""
    rows = pairs(config, [weights]).tolist()
    layout = weights_layout(config)
    return [
        layout.const({"values": row, "last": k == len(rows) - 1}).as_bits()
        for k, row in enumerate(rows)
    ]


def command(update_bits: int) -> list[int]:
    """Return the payload of port ``i_update``."""
    return [command_layout().const({"bits": update_bits}).as_bits()]


def response(config: BpTailConfig, updates: Sequence[np.ndarray], **errors: int) -> list[int]:
    """Return the payloads of port ``o`` for the updates of a batch."""
    rows = pairs(config, updates).tolist()
    return [
        response_layout().const({"values": row, "last": k == len(rows) - 1, **errors}).as_bits()
        for k, row in enumerate(rows)
    ]


class _Samples:
    """Draws samples, and hands them to the model."""

    def __init__(self, config: BpTailConfig, random: Random):
        self.config, self.random, self.model = config, random, BpTail(config)
        self.rng = np.random.default_rng(random.getrandbits(32))
        self.batch()

    def batch(self, *, peak: int = 127) -> None:
        """Draw exponents of a batch about which those of its samples are; limit its numbers."""
        self.base = [-self.random.randrange(20) for _ in self.config.inputs]
        self.peak = peak

    def vectors(self) -> list[list[int]]:
        """Return inputs, which are outputs of a ReLU, and logits."""
        shapes, peak = (*self.config.inputs, self.config.classes), self.peak
        found = [self.rng.integers(-peak, peak + 1, length).clip(0) for length in shapes[:-1]]
        found.append(self.rng.integers(-peak, peak + 1, shapes[-1]))
        return [each.tolist() for each in found]

    def one(self, *, vectors: list[list[int]] | None = None, spread: int = 5) -> list[int]:
        """Return a sample's beats; the model adds it to the batch, if there is room."""
        config, random = self.config, self.random
        vectors = vectors or self.vectors()
        exponents = [base + random.randrange(-spread, spread + 1) for base in self.base]
        # Of the logits: powers of two, polynomials, and both ends.
        exponents.append(random.choice([-128, -30, *range(-25, 6), 127]))
        label = random.randrange(config.classes)
        self.model.sample(
            [np.array(each) for each in vectors[:-1]],
            exponents[:-1],
            np.array(vectors[-1]),
            exponents[-1],
            label,
        )
        return sample(config, vectors, exponents, random, label)

    def wrong_length(self) -> list[int]:
        """Return a sample with a packet that is too short or too long."""
        config, random = self.config, self.random
        vectors = self.vectors()
        which = random.randrange(len(vectors))
        more = random.choice([1, 2, 3, -1]) * config.ways
        if len(vectors[which]) + more > 0:
            vectors[which] = (vectors[which] + [1] * 99)[: len(vectors[which]) + more]
        else:
            vectors[which] += [1] * config.ways
        return sample(config, vectors, [0] * len(vectors), random, 0)

    def wrong_label(self) -> list[int]:
        """Return a sample whose label is no class."""
        vectors = self.vectors()
        return sample(self.config, vectors, [0] * len(vectors), self.random, self.config.classes)


def case(config: BpTailConfig, random: Random, *, samples: int = 3, plain: int = 6) -> Case:
    """Return batches: without a sample, of ``samples``, with errors, with the largest sums.

    After them, there are ``plain`` batches of large and small numbers, of all update bits.
    """
    draw = _Samples(config, random)
    rng, two = draw.rng, len(config.inputs) > 1
    has_wrong_label = config.classes < 1 << (config.classes - 1).bit_length()
    phases = []
    shape = config.classes, config.inputs[-1]
    kinds = ("none", "plain", "errors", "extremes", "discarded", *["plain"] * plain)
    for step, kind in enumerate(kinds):
        draw.batch(peak=(1, 127, 20)[step % 3])
        errors: dict[str, int] = {}
        beats: list[int] = []
        if two and kind != "errors":
            weights = rng.integers(-128, 128, shape)
            draw.model.load(weights)
            phases.append(Phase(inputs={"i_weights": weight_packet(config, weights)}))
        count = {"none": 0, "discarded": 1}.get(kind, min(samples, config.batch))
        if kind == "errors" and config.batch <= samples:
            count = config.batch + 1
            errors["batch_error"] = 1
        for number in range(count):
            vectors = None
            if kind == "extremes":
                vectors = [[random.choice([127, 127, 0, -128])] * n for n in config.inputs]
                vectors.append([127] + [random.choice([-127, -128])] * (config.classes - 1))
            if kind == "errors" and random.random() < 0.5:
                beats += draw.wrong_length()
                errors["length_error"] = 1
            if kind == "errors" and has_wrong_label and (not number or random.random() < 0.5):
                beats += draw.wrong_label()
                errors["label_error"] = 1
            beats += draw.one(vectors=vectors)
        if kind == "errors":
            # A packet is cut off by the command.
            beats += packet(config, [1] * 2 * config.ways, 0, random)[:1]
            errors["length_error"] = 1
        bits = 0 if kind == "discarded" else 7 - step % 7
        phases.append(Phase(inputs={"i": beats} if beats else {}))
        expected = response(config, draw.model.update(bits), **errors)
        phases.append(Phase(inputs={"i_update": command(bits)}, outputs={"o": expected}))
    return Case(phases=[phase for phase in phases if phase.inputs], quiet=True)
