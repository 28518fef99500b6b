"""Golden model of SeedLM's blocks: words, packing, decoding, and the published search."""

from functools import lru_cache

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.lfsr import step
from seedbed.spec import SeedlmConfig
from seedbed.spec.seedlm import RULES

__all__ = [
    "LIMITS",
    "bases",
    "check",
    "decode",
    "errors",
    "exponent",
    "inverses",
    "normalized",
    "pack",
    "search",
    "sums",
    "unpack",
    "weighted_inverses",
    "words",
]

#: Exponents of a block, 4 bits in two's complement.
LEAST, MOST = -8, 7
_POWERS = np.ldexp(1.0, np.arange(LEAST, MOST))
#: What max|t| must exceed for an exponent above -8, -7, .. 6, by rule; exact in float64.
#: ``fit`` increments when a coefficient would exceed 7.5, ``paper`` from max|t| = 2^(e + 1) on.
LIMITS = {"fit": 7.5 * _POWERS, "paper": np.nextafter(2.0 * _POWERS, 0.0)}
#: Singular values below this fraction of the largest count as zero. The words are integers: it is
#: about 1e-16 for a singular basis, and far greater for a regular one.
SINGULAR = 1e-12


def words(config: SeedlmConfig, seeds: np.ndarray) -> np.ndarray:
    """Return V(s), truncated to ``word_bits``, as int64 of shape (..., C, P)."""
    state = require_integers("seeds", seeds, 0, config.lfsr.order).astype(np.uint32)
    found = []
    for _ in range(config.block * config.latent):
        state = step(config.lfsr, state)
        found.append(state >> np.uint32(config.width - config.word_bits))
    table = np.stack(found, axis=-1).astype(np.int64)
    return table.reshape(*state.shape, config.block, config.latent)


def sums(config: SeedlmConfig, seeds: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return S_c, the decompressor's output: int64 of shape (..., C)."""
    centred = words(config, seeds) - config.half
    coefficients = require_integers("coefficients", coefficients, LEAST, MOST)
    return (centred * coefficients[..., None, :]).sum(axis=-1)


def decode(
    config: SeedlmConfig, seeds: np.ndarray, exponents: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """Return the weights as float64 of shape (..., C), without the tensor's scale."""
    exponents = require_integers("exponents", exponents, LEAST, MOST)
    scale = np.ldexp(1.0, exponents) / (config.half - 1)
    return sums(config, seeds, coefficients) * scale[..., None]


def pack(
    config: SeedlmConfig, seeds: np.ndarray, exponents: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """Return the packed blocks, one uint64 each, of the seeds' shape."""
    packed = require_integers("seeds", seeds, 0, config.lfsr.order).astype(np.uint64)
    exponents = require_integers("exponents", exponents, LEAST, MOST)
    coefficients = require_integers("coefficients", coefficients, LEAST, MOST)
    fields = np.concatenate([exponents[..., None], coefficients], axis=-1)
    for k in range(config.latent + 1):
        nibble = fields[..., k] & 15
        packed |= nibble.astype(np.uint64) << np.uint64(config.width + 4 * k)
    return packed


def unpack(config: SeedlmConfig, packed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seeds (uint32), exponents (int8) and coefficients (int8, P of them) of the blocks."""
    most = (1 << config.block_bits) - 1
    packed = require_integers("packed", packed, 0, most).astype(np.uint64)
    seeds = (packed & np.uint64((1 << config.width) - 1)).astype(np.uint32)
    shifts = np.uint64(config.width) + np.uint64(4) * np.arange(config.latent + 1, dtype=np.uint64)
    nibbles = (packed[..., None] >> shifts & np.uint64(15)).astype(np.int8)
    fields = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8)
    return seeds, fields[..., 0], fields[..., 1:]


def bases(config: SeedlmConfig, seeds: np.ndarray) -> np.ndarray:
    """Return U(s) = (V(s) - 2^(B - 1)) / (2^(B - 1) - 1), float64 of shape (..., C, P)."""
    return (words(config, seeds) - config.half) / float(config.half - 1)


@lru_cache(maxsize=1)
def inverses(config: SeedlmConfig) -> np.ndarray:
    """Return the pseudo-inverse of U(s) for s = 1 .. 2^K - 1, float64 of shape (2^K - 1, P, C).

    Computed by singular values: condition numbers reach 5e5 at K = 16, and normal equations would
    square them. The last configuration's table is cached; it has 8 C P 2^K bytes.
    """
    order = config.lfsr.order
    table = np.empty((order, config.latent, config.block))
    for start in range(0, order, 1 << 14):
        part = table[start : start + (1 << 14)]
        seeds = np.arange(start + 1, start + 1 + len(part), dtype=np.uint32)
        part[:] = np.linalg.pinv(bases(config, seeds), rtol=SINGULAR)
    table.flags.writeable = False
    return table


def weighted_inverses(config: SeedlmConfig, seeds: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Return the pseudo-inverse of D U(s), D = diag(``roots``), float64 of shape (..., P, C)."""
    return np.linalg.pinv(roots[:, None] * bases(config, seeds), rtol=SINGULAR)


def normalized(config: SeedlmConfig, weights: np.ndarray) -> np.ndarray:
    """Return the weights of a block's errors as float64, divided by the largest if it is not 0.

    Raises ``ValueError`` unless they are C finite numbers of 0 or more.
    """
    weights = np.array(weights, np.float64)
    if weights.shape != (config.block,):
        raise ValueError(f"weights must have shape ({config.block},), not {weights.shape}")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("weights must be finite, and 0 or more")
    return weights / (weights.max() or 1.0)


def check(config: SeedlmConfig, blocks: np.ndarray, rule: str) -> np.ndarray:
    """Return the blocks as float64 of shape (n, C), or raise ``ValueError`` for them or the rule.

    Weights are assumed finite: the reader of a file checks them, and names the tensor.
    """
    blocks = np.ascontiguousarray(blocks, np.float64)
    if blocks.ndim != 2 or blocks.shape[1] != config.block:
        raise ValueError(f"blocks must have shape (n, {config.block}), not {blocks.shape}")
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, not {rule!r}")
    return blocks


def exponent(rule: str, peaks: np.ndarray) -> np.ndarray:
    """Return the shared exponent by rule for ``peaks`` = max|t|, as int8 in -8 .. 7.

    ``fit`` is ceil(log2(max|t| / 7.5)), ``paper`` floor(log2 max|t|), both by comparison with exact
    limits, because a logarithm may be rounded. If all t are zero it is -8.
    """
    return (np.searchsorted(LIMITS[rule], peaks) + LEAST).astype(np.int8)


def search(
    config: SeedlmConfig,
    blocks: np.ndarray,
    *,
    rule: str = "fit",
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seeds (uint32), exponents (int8) and coefficients (int8, P per block): Algorithm 1.

    As published, for every block and every seed::

        t = pseudo-inverse of U(s), times w
        e = by rule from max|t|, q = round(t / 2^e), ties to even, clipped to -8 .. 7
        error = |w - U(s) q 2^e|^2, and the seed of the least error is kept, the lowest of equals

    Sums run over c in order, without fused multiply-add, so that another implementation can
    reproduce the same bits. A block of zeros has seed 1, exponent -8 and coefficients 0.

    Parameters
    ----------
    config
        The blocks' configuration. The time is that of C P 2^K products per block.
    blocks
        (n, C) finite weights, divided by the tensor's scale.
    rule
        One of ``RULES``.
    weights
        h, (C,) numbers of 0 or more for all blocks, or ``None``. With them, divided by the largest,
        the error is sum over c of h_c (w_c - (U(s) q)_c 2^e)^2, and with D = diag(sqrt h)
        t = pseudo-inverse of D U(s), times D w.

    Raises ``ValueError`` for another rule or shape, and for weights that are not allowed.
    Source: SeedLM (arXiv:2410.10714), sections 3.2 and 3.3, Algorithm 1.
    """
    blocks = check(config, blocks, rule)
    seeds = np.arange(1, config.lfsr.order + 1, dtype=np.uint32)
    if weights is None:
        targets, inverse = blocks, inverses(config)
    else:
        weights = normalized(config, weights)
        roots = np.sqrt(weights)
        targets, inverse = blocks * roots, weighted_inverses(config, seeds, roots)
    # Seeds last, so that every operation runs along a contiguous row of them.
    inverse = np.ascontiguousarray(inverse.transpose(1, 2, 0))
    centred = np.ascontiguousarray(
        (words(config, seeds) - config.half).transpose(1, 2, 0), np.float64
    )
    found = np.empty(len(blocks), np.uint32)
    exponents = np.empty(len(blocks), np.int8)
    coefficients = np.empty((len(blocks), config.latent), np.int8)
    for n, block in enumerate(blocks):
        t = np.zeros((config.latent, len(seeds)))
        for c in range(config.block):
            t += inverse[:, c] * targets[n, c]
        e = exponent(rule, np.abs(t).max(axis=0))
        power = np.ldexp(1.0, e)
        q = np.clip(np.rint(t / power), -8, 7)
        scale = power / (config.half - 1)
        error = np.zeros(len(seeds))
        for c in range(config.block):
            # Integers below 2^53, whose sum is exact in any order.
            square = (block[c] - (centred[c] * q).sum(axis=0) * scale) ** 2
            error += square if weights is None else weights[c] * square
        best = int(error.argmin())
        found[n], exponents[n], coefficients[n] = seeds[best], e[best], q[:, best]
    return found, exponents, coefficients


def errors(
    config: SeedlmConfig,
    blocks: np.ndarray,
    seeds: np.ndarray,
    exponents: np.ndarray,
    coefficients: np.ndarray,
) -> np.ndarray:
    """Return ``|w - U(s) q 2^e|^2`` of each block as float64, summed in the order of ``search``."""
    differences = np.asarray(blocks, np.float64) - decode(config, seeds, exponents, coefficients)
    total = np.zeros(differences.shape[:-1])
    for c in range(config.block):
        total += differences[..., c] ** 2
    return total
