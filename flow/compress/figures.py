"""Figures of the compressor for the report: error on Gaussian weights, and speed."""

from math import sqrt
from typing import Any

import numpy as np

from seedbed.flow.compress.bench import bench
from seedbed.flow.compress.search import block_floating_point, search, tensor_scale
from seedbed.golden.seedlm import errors
from seedbed.spec import SeedlmConfig

__all__ = ["error", "speed"]

#: Blocks of Gaussian weights, and their standard deviation.
BLOCKS, SIGMA = 10000, 0.02
#: Standard deviations for the scale invariance of the error, and blocks at each of them.
SIGMAS, FEW = [10.0**k for k in range(-6, 4)], 2000


def _relative(
    config: SeedlmConfig, blocks: np.ndarray, *, rule: str = "fit", scale: bool = True
) -> float:
    """Return sqrt(sum |w - w'|^2 / sum |w|^2), with a power-of-two scale for all blocks or none."""
    factor = 2.0 ** -tensor_scale(float(np.abs(blocks).max())) if scale else 1.0
    scaled = blocks * factor
    wrong = errors(config, scaled, *search(config, scaled, rule=rule)).sum()
    return sqrt(wrong / (scaled**2).sum())


def error(config: SeedlmConfig, *, seed: int) -> dict[str, Any]:
    """Return the relative errors on Gaussian weights, all for the same random numbers.

    - ``blocks``: number of blocks.
    - ``relative_error``: error of the compressor; ``paper_rule_error``: with the exponent rule as
      printed; ``plain_error``: block floating point with the same number of bits.
    - ``scale_spread_percent``: variation of the error over standard deviations of 1e-6 to 1e3,
      relative to the smallest error.
    - ``unscaled_error``: error at a standard deviation of 1e-3 without a scale per tensor, as in
      the paper.
    """
    normal = np.random.default_rng(seed).normal(size=(BLOCKS, config.block))
    blocks, few = normal * SIGMA, normal[:FEW]
    by_scale = [_relative(config, few * sigma) for sigma in SIGMAS]
    plain = block_floating_point(config, blocks).sum()
    return {
        "blocks": BLOCKS,
        "relative_error": _relative(config, blocks),
        "paper_rule_error": _relative(config, blocks, rule="paper"),
        "plain_error": sqrt(plain / (blocks**2).sum()),
        "scale_spread_percent": 100 * (max(by_scale) / min(by_scale) - 1),
        "unscaled_error": _relative(config, few * 1e-3, scale=False),
    }


def speed(config: SeedlmConfig, *, seed: int) -> dict[str, Any]:
    """Return the blocks per second of two processes, and those of Algorithm 1 in plain NumPy."""
    found = bench(config, seed=seed)
    if not found["same"]:
        raise AssertionError(f"the search and Algorithm 1 differ for {config}")
    return {
        "blocks_per_second": found["fast"],
        "literal_blocks_per_second": found["literal"],
        "times_literal": found["ratio"],
        "hours_7b": found["hours"],
    }
