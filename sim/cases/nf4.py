"""Case of 4-bit NormalFloat: vectors of many lengths, zeros, format limits, thresholds."""

from random import Random

import numpy as np

from seedbed.golden.nf4 import Nf4
from seedbed.hw.weights.nf4 import codes_layout, values_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import Nf4Config

__all__ = ["case", "codes_payloads", "random_vector", "values_payloads"]


def _rows(numbers: np.ndarray, lanes: int) -> np.ndarray:
    """Return a vector as rows of ``lanes``, padded with zeros."""
    return np.pad(numbers, (0, -len(numbers) % lanes)).reshape(-1, lanes)


def values_payloads(config: Nf4Config, x: np.ndarray, lanes: int) -> list[int]:
    """Return a vector of numbers as the payloads of its beats."""
    layout, rows = values_layout(config, lanes), _rows(x, lanes).tolist()
    return [
        layout.const({"values": row, "last": t == len(rows) - 1}).as_bits()
        for t, row in enumerate(rows)
    ]


def codes_payloads(
    config: Nf4Config, codes: np.ndarray, peaks: np.ndarray, lanes: int
) -> list[int]:
    """Return a vector's codes and its blocks' peaks as the payloads of its beats."""
    layout, rows = codes_layout(config, lanes), _rows(codes, lanes).tolist()
    return [
        layout.const(
            {
                "codes": row,
                "peak": int(peaks[t * lanes // config.block]),
                "last": t == len(rows) - 1,
            }
        ).as_bits()
        for t, row in enumerate(rows)
    ]


def random_vector(config: Nf4Config, rng: np.random.Generator, length: int) -> np.ndarray:
    """Return a random vector with blocks of many magnitudes: zeros, format limits, thresholds."""
    form = config.values
    x = np.zeros(length, np.int64)
    for k in range(0, length, config.block):
        block = x[k : k + config.block]
        kind = rng.integers(6)
        if kind == 0:
            continue
        scale = 2.0 ** rng.uniform(0, form.width)
        block[:] = np.clip(rng.normal(0, scale, len(block)), form.low, form.high)
        if kind == 1:
            block[rng.random(len(block)) < 0.3] = rng.choice([form.low, form.high])
        if kind == 2:
            # Numbers equal to a threshold and one above it; the peak is unchanged.
            peak = int(Nf4(config).quantise(block)[1][0])
            limits = peak * np.array(config.middles) >> (config.level_fraction + 1 - config.shift)
            at = rng.choice(limits, len(block)) + rng.integers(0, 2, len(block))
            block[1:] = np.where(np.abs(at) <= np.abs(block).max(), at, 0)[1:]
    return x


def case(config: Nf4Config, random: Random, *, beats: int = 120) -> Case:
    """Return vectors of one beat, of whole and of partial blocks, and random codes."""
    rng = np.random.default_rng(random.getrandbits(32))
    model, lanes, back = Nf4(config), config.lanes, config.dequantise_lanes
    block = config.block
    lengths = [1, block, block + 1, 1, lanes, 3 * block, 2 * block - 1, lanes, lanes]
    while sum(-(-length // lanes) for length in lengths) < beats:
        lengths.append(int(rng.integers(1, max(4 * block, 4 * lanes))))
    inputs: dict[str, list[int]] = {"i_values": [], "i_codes": []}
    outputs: dict[str, list[int]] = {"o_codes": [], "o_values": []}
    for length in lengths:
        x = random_vector(config, rng, length)
        padded = _rows(x, lanes).reshape(-1)
        codes, peaks = model.quantise(padded)
        inputs["i_values"] += values_payloads(config, x, lanes)
        outputs["o_codes"] += codes_payloads(config, codes, peaks, lanes)
        if len(inputs["i_codes"]) < 2 * beats:
            codes = rng.integers(0, 16, len(_rows(x, back).reshape(-1)))
            peaks = np.where(
                rng.random(len(peaks)) < 0.5,
                rng.choice([0, 1, (1 << config.peak_width) - 1], len(peaks)),
                rng.integers(0, 1 << config.peak_width, len(peaks)),
            )
            values = model.dequantise(codes, peaks)
            inputs["i_codes"] += codes_payloads(config, codes, peaks, back)
            outputs["o_values"] += values_payloads(config, values, back)
    return Case(phases=[Phase(inputs=inputs, outputs=outputs)], quiet=True)
