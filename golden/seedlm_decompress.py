"""Golden model of the decompressor: beats of packed blocks to beats of integer weights."""

import numpy as np

from seedbed.golden.seedlm import sums, unpack
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["decompress"]


def decompress(config: SeedlmDecompressConfig, packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights and the exponents of packed blocks.

    Parameters
    ----------
    packed
        uint64 of shape (T, blocks), one row per beat.

    Returns S_c as int64 of shape (T, blocks x C), block by block, and the exponents as int8 of
    shape (T, blocks). Raises ``ValueError`` for another shape.
    """
    packed = np.asarray(packed)
    if packed.ndim != 2 or packed.shape[1] != config.blocks:
        raise ValueError(
            f"packed must be beats of {config.blocks} blocks, of shape (T, {config.blocks}), "
            f"not {packed.shape}"
        )
    seeds, exponents, coefficients = unpack(config, packed)
    return sums(config, seeds, coefficients).reshape(len(packed), config.lanes), exponents
