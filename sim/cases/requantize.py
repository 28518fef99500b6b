"""Case of requantization: layers of every magnitude, squares of several sizes, wrong lengths."""

from random import Random

import numpy as np

from seedbed.golden.requantize import Requantize
from seedbed.hw.engine.requantize import sums_layout, values_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import RequantizeConfig

__all__ = ["case", "payloads"]


def payloads(
    config: RequantizeConfig,
    sums: np.ndarray,
    *,
    counts: np.ndarray | None = None,
    square_last: np.ndarray | None = None,
    relu: np.ndarray | None = None,
) -> tuple[list[int], list[int]]:
    """Return the payloads of ports ``i`` and ``o`` for a layer's sums of shape (beats, ways).

    By default all sums are valid, each beat is a square, and there is no ReLU.
    """
    beats = len(sums)
    counts = np.full(beats, config.ways) if counts is None else counts
    square_last = np.ones(beats, bool) if square_last is None else square_last
    relu = np.zeros(beats, bool) if relu is None else relu
    layout = sums_layout(config)
    fields = zip(sums.tolist(), counts, square_last, relu, strict=True)
    inputs = [
        layout.const(
            {
                "sums": row,
                "count": int(count),
                "square_last": int(ends),
                "relu": int(positive),
                "last": k == beats - 1,
            }
        ).as_bits()
        for k, (row, count, ends, positive) in enumerate(fields)
    ]
    result = Requantize(config).run(sums, counts, square_last, relu)
    outputs = [
        values_layout(config)
        .const(
            {
                "values": row,
                "count": int(count),
                "shift": result.shift,
                "length_error": result.length_error,
                "last": k == len(result.values) - 1,
            }
        )
        .as_bits()
        for k, (row, count) in enumerate(zip(result.values.tolist(), result.counts, strict=True))
    ]
    return inputs, outputs


def case(config: RequantizeConfig, random: Random, *, layers: int = 12) -> Case:
    """Return layers of every bit width and of extremes, and ``layers`` random ones."""
    rng = np.random.default_rng(random.getrandbits(32))
    low = -(1 << config.width - 1)

    def uniform(bits: int, beats: int) -> np.ndarray:
        return rng.integers(-(1 << bits), 1 << bits, (beats, config.ways))

    def alone(number: int) -> np.ndarray:
        sums = np.zeros((1, config.ways), np.int64)
        sums[0, rng.integers(config.ways)] = number
        return sums

    # Every magnitude in bits, both sides of the powers of two, with either sign.
    each = [{"sums": uniform(bits, 6)} for bits in range(config.width)]
    each += [
        {"sums": alone(sign * ((1 << bits) + below))}
        for bits in range(6, config.width - 1)
        for sign in (1, -1)
        for below in (-1, 0)
    ]
    each += [{"sums": alone(number)} for number in (0, low, -1 - low)]
    # A bit alone above another one, and squares whose sums differ by one.
    for _ in range(20):
        above, below = sorted(rng.choice(config.width - 1, 2, replace=False).tolist())
        each.append({"sums": alone((1 << above) + (1 << below))})
    near = uniform(config.width - 2, 1) + rng.integers(-1, 2, (24, config.ways))
    each.append({"sums": near, "square_last": np.arange(24) % 3 == 2})
    # Quotients of 127 that would be rounded up, and halves.
    most = config.most_shift
    halves = (rng.integers(-127, 128, (20, config.ways)) * 2 + 1 << most - 1).clip(low, -1 - low)
    each += [{"sums": halves}, {"sums": np.full((2, config.ways), -1 - low)}]
    # As many squares as there are entries, and more: those are discarded, but count.
    each += [{"sums": uniform(8, config.entries)}]
    each += [{"sums": np.concatenate([uniform(8, config.entries), alone(low)])}]
    for _ in range(layers):
        beats = random.randrange(1, 40)
        every = random.choice([1, 2, 4, 9])
        shared = random.random() < 0.5
        each.append(
            {
                "sums": uniform(random.randrange(config.width), beats),
                "counts": rng.integers(0, config.ways + 1, 1 if shared else beats)
                * np.ones(beats, int),
                "square_last": (np.arange(beats) + 1) % every == 0
                if shared
                else rng.random(beats) < 1 / every,
                "relu": rng.random(beats) < random.choice([0, 0.5, 1]),
            }
        )
    random.shuffle(each)
    phase = Phase(inputs={"i": []}, outputs={"o": []})
    for layer in each:
        inputs, outputs = payloads(config, **layer)
        phase.inputs["i"] += inputs
        phase.outputs["o"] += outputs
    return Case(phases=[phase], quiet=True)
