"""Golden model of SeedLM's blocks: words, packing, decoding, and the search as it is printed."""

import numpy as np

from seedbed.golden.lfsr import step
from seedbed.spec import SeedlmConfig

__all__ = ["decode", "pack", "sums", "unpack", "words"]


def words(config: SeedlmConfig, seeds: np.ndarray) -> np.ndarray:
    """Return V(s), cut to ``word_bits``, as int64 of shape (..., C, P)."""
    state = np.asarray(seeds, np.uint32)
    found = []
    for _ in range(config.block * config.latent):
        state = step(config.lfsr, state)
        found.append(state >> np.uint32(config.width - config.word_bits))
    table = np.stack(found, axis=-1).astype(np.int64)
    return table.reshape(*state.shape, config.block, config.latent)


def sums(config: SeedlmConfig, seeds: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return S_c, what the decompressor gives: int64 of shape (..., C)."""
    centred = words(config, seeds) - config.half
    return (centred * np.asarray(coefficients, np.int64)[..., None, :]).sum(axis=-1)


def decode(
    config: SeedlmConfig, seeds: np.ndarray, exponents: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """Return the weights as float64 of shape (..., C), before the tensor's own scale."""
    scale = np.exp2(np.asarray(exponents, np.float64)) / (config.half - 1)
    return sums(config, seeds, coefficients) * scale[..., None]


def pack(
    config: SeedlmConfig, seeds: np.ndarray, exponents: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """Return the packed blocks, one uint64 each, of the seeds' shape."""
    packed = np.asarray(seeds).astype(np.uint64)
    fields = np.concatenate([np.asarray(exponents)[..., None], np.asarray(coefficients)], axis=-1)
    for k in range(config.latent + 1):
        nibble = fields[..., k].astype(np.int64) & 15
        packed |= nibble.astype(np.uint64) << np.uint64(config.width + 4 * k)
    return packed


def unpack(config: SeedlmConfig, packed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seeds (uint32), exponents (int8) and coefficients (int8, P of them) of the blocks."""
    packed = np.asarray(packed, np.uint64)
    seeds = (packed & np.uint64((1 << config.width) - 1)).astype(np.uint32)
    shifts = np.uint64(config.width) + np.uint64(4) * np.arange(config.latent + 1, dtype=np.uint64)
    nibbles = (packed[..., None] >> shifts & np.uint64(15)).astype(np.int8)
    fields = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8)
    return seeds, fields[..., 0], fields[..., 1:]
