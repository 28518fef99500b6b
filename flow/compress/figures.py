"""What the report says of the compressor: its error on Gaussian weights, and its speed."""

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
#: Standard deviations that the error must not depend on, and blocks at each of them.
SIGMAS, FEW = [10.0**k for k in range(-6, 4)], 2000


def _relative(
    config: SeedlmConfig, blocks: np.ndarray, *, rule: str = "fit", scale: bool = True
) -> float:
    """Return sqrt(sum |w - w'|^2 / sum |w|^2), with a power of two for all blocks or without."""
    taken = 2.0 ** -tensor_scale(float(np.abs(blocks).max())) if scale else 1.0
    scaled = blocks * taken
    wrong = errors(config, scaled, *search(config, scaled, rule=rule)).sum()
    return sqrt(wrong / (scaled**2).sum())


def error(config: SeedlmConfig, *, seed: int) -> dict[str, Any]:
    """Return the relative errors on Gaussian weights, all of the same draw.

    ``blocks`` is how many; ``relative_error`` is the compressor's, ``paper_rule_error`` with the
    exponent rule as printed, ``plain_error`` that of block floating point in as many bits;
    ``scale_spread_percent`` is how far apart errors are at deviations of 1e-6 to 1e3, over the
    least, and ``unscaled_error`` the error at a deviation of 1e-3 without a scale a tensor, as in
    the paper.
    """
    normal = np.random.default_rng(seed).normal(size=(BLOCKS, config.block))
    blocks, few = normal * SIGMA, normal[:FEW]
    spread = [_relative(config, few * sigma) for sigma in SIGMAS]
    plain = block_floating_point(config, blocks).sum()
    return {
        "blocks": BLOCKS,
        "relative_error": _relative(config, blocks),
        "paper_rule_error": _relative(config, blocks, rule="paper"),
        "plain_error": sqrt(plain / (blocks**2).sum()),
        "scale_spread_percent": 100 * (max(spread) / min(spread) - 1),
        "unscaled_error": _relative(config, few * 1e-3, scale=False),
    }


def speed(config: SeedlmConfig, *, seed: int) -> dict[str, Any]:
    """Return blocks a second of two processes, beside Algorithm 1 written literally in NumPy."""
    found = bench(config, seed=seed)
    if not found["same"]:
        raise AssertionError(f"the search and Algorithm 1 differ for {config}")
    return {
        "blocks_per_second": found["fast"],
        "literal_blocks_per_second": found["literal"],
        "times_literal": found["ratio"],
        "hours_7b": found["hours"],
    }
