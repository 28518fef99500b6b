"""The search of SeedLM's encoder, exact and fast, and what is put beside it.

The error of a block for a seed s is at least what is left of w off the space of U(s), however its
coefficients are rounded::

    |w - U(s) q 2^e|^2 >= |w|^2 - |Q(s)' w|^2,    Q(s) an orthonormal basis of that space

Q(s)' w for all seeds is one small matrix product in float32, and of 65,535 seeds a handful have a
bound below the least error of all. Only these, the most promising first, go through Algorithm 1,
in float64 and operation by operation as :func:`seedbed.golden.seedlm.search` does, so that the
results are the same bit for bit: seeds, exponents and coefficients.

Where rounding costs as much as the block itself, the bound spares little and the search is hardly
faster than the literal one: weights far below 2^-8 without a scale of their own, and C <= P.
"""

from functools import lru_cache
from math import frexp, ldexp, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from seedbed.golden.lfsr import cycle
from seedbed.golden.seedlm import LEAST, LIMITS, MOST, bases, check, inverses
from seedbed.spec import SeedlmConfig
from seedbed.spec.seedlm import NIBBLE, RULES

__all__ = ["block_floating_point", "search", "tensor_scale"]

#: Seeds a tile, whose basis stays in the first cache while a batch of blocks passes over it.
TILE = 256
#: Blocks that share a pass over the tiles; an even number.
BATCH = 64
#: The largest magnitude of a scaled tensor is below 2^PEAK: see ``tensor_scale``.
PEAK = 7
_STRICT = {"cache": True, "nogil": True, "error_model": "numpy"}
#: Sums in any order and fused: only where the bound's margin allows for it.
_LOOSE = {**_STRICT, "fastmath": True}


class Tables(NamedTuple):
    """What the search of a configuration needs, beside the configuration."""

    basis: np.ndarray  #: (tiles, rank, C + pad, TILE) float32, Q(s) with zeros in the pad
    inverse: np.ndarray  #: (2^K - 1, P, C) float64, by seed
    word: np.ndarray  #: (2^K - 1 + C P,) int64, the centred words in the order of steps
    place: np.ndarray  #: (2^K - 1,) int64, where the words of a seed begin
    power: np.ndarray  #: (16,) float64, 2^e for e = -8 .. 7
    scale: np.ndarray  #: (16,) float64, 2^e / (2^(B - 1) - 1)
    margin: float  #: how far a bound may be wrong, as a share of |w|^2


def _aligned(*shape: int) -> np.ndarray:
    """Return zeros, float32, at the start of a cache line: vectors across two lines cost twice."""
    size = int(np.prod(shape))
    buffer = np.zeros(size + 16, np.float32)
    start = -buffer.ctypes.data % 64 // 4
    return buffer[start : start + size].reshape(shape)


@lru_cache(maxsize=1)
def tables(config: SeedlmConfig) -> Tables:
    """Return the tables; the last configuration's are kept, about 12 C P 2^K bytes."""
    order = config.lfsr.order
    rank, columns = min(config.block, config.latent), -(-config.block // 4) * 4
    basis = _aligned(-(-order // TILE), rank, columns, TILE)
    for k, tile in enumerate(basis):
        seeds = np.arange(k * TILE + 1, min((k + 1) * TILE, order) + 1, dtype=np.uint32)
        # Of U and not of its inverse: Q R is U but for the last bits, however near to singular.
        q, _ = np.linalg.qr(bases(config, seeds))
        tile[:, : config.block, : len(seeds)] = q.transpose(2, 1, 0)
    states = cycle(config.lfsr)
    place = np.empty(order, np.int64)
    place[states - 1] = np.arange(1, order + 1)
    run = np.resize(states, order + 1 + config.block * config.latent)
    word = (run >> np.uint32(config.width - config.word_bits)).astype(np.int64) - config.half
    power = np.ldexp(1.0, np.arange(LEAST, MOST + 1))
    # A float32 dot product of C terms is off by (C + 2) 2^-24 |w| at most, its square by twice
    # |y_p| as much, and the sum of |y_p| is at most sqrt(P) |w|. Taken twice.
    margin = (2 * sqrt(rank) * (columns + 2) + rank + 1) * 2.0**-23
    return Tables(basis, inverses(config), word, place, power, power / (config.half - 1), margin)


@njit(**_LOOSE)
def _energies(basis, first, second, rows):
    """Put |Q' w|^2 of a tile's seeds into rows 2 and 3, for two blocks that share the loads."""
    a, b, x, y = rows[0], rows[1], rows[2], rows[3]
    for p in range(basis.shape[0]):
        for c in range(0, basis.shape[1], 4):
            q0, q1, q2, q3 = basis[p, c], basis[p, c + 1], basis[p, c + 2], basis[p, c + 3]
            u0, u1, u2, u3 = first[c], first[c + 1], first[c + 2], first[c + 3]
            v0, v1, v2, v3 = second[c], second[c + 1], second[c + 2], second[c + 3]
            if c == 0:
                for j in range(TILE):
                    a[j] = q0[j] * u0 + q1[j] * u1 + q2[j] * u2 + q3[j] * u3
                    b[j] = q0[j] * v0 + q1[j] * v1 + q2[j] * v2 + q3[j] * v3
            else:
                for j in range(TILE):
                    a[j] += q0[j] * u0 + q1[j] * u1 + q2[j] * u2 + q3[j] * u3
                    b[j] += q0[j] * v0 + q1[j] * v1 + q2[j] * v2 + q3[j] * v3
        if p == 0:
            for j in range(TILE):
                x[j] = a[j] * a[j]
                y[j] = b[j] * b[j]
        else:
            for j in range(TILE):
                x[j] += a[j] * a[j]
                y[j] += b[j] * b[j]


@njit(**_STRICT)
def _top(bits):
    """Return the greatest of a tile's energies by their bits, which order alike from zero on."""
    top = np.int32(0)
    for j in range(TILE):
        top = max(top, bits[j])
    return top


@njit(**_STRICT)
def _encode(block, inverse, words, limits, power, scale, q):
    """Fill in q and return the error and the exponent's place: Algorithm 1 for one seed."""
    latent, size = inverse.shape
    peak = 0.0
    for p in range(latent):
        t = 0.0
        for c in range(size):
            t += inverse[p, c] * block[c]
        q[p] = t
        peak = max(peak, abs(t))
    e = 0
    while e < len(limits) and peak > limits[e]:
        e += 1
    for p in range(latent):
        q[p] = min(max(np.rint(q[p] / power[e]), -8.0), 7.0)
    error = 0.0
    for c in range(size):
        total = 0.0
        for p in range(latent):
            total += words[c * latent + p] * q[p]
        difference = block[c] - total * scale[e]
        error += difference * difference
    return error, e


@njit(**_STRICT)
def _best(block, scaled, factor, tops, rows, limits, t, q, kept):
    """Fill in the best coefficients and return their seed and their exponent's place."""
    order, words, energies = len(t.place), len(q) * len(block), rows[2]
    square = 0.0
    for weight in block:
        square += (weight * factor) * (weight * factor)
    found, place, least, enough = order, 0, np.inf, np.inf
    for turn in range(len(tops) + 1):
        tile = 0
        for k in range(len(tops)):
            if tops[k] > tops[tile]:
                tile = k
        if turn == 0:
            # The greatest energy of all alone, as the limit that it sets spares most others; its
            # tile has another turn.
            enough = tops[tile] - t.margin * square
        elif tops[tile] < enough:
            break
        else:
            tops[tile] = -np.inf
        _energies(t.basis[tile], scaled, scaled, rows)
        start = tile * TILE
        for j in range(min(TILE, order - start)):
            if energies[j] < enough:
                continue
            at, seed = t.place[start + j], start + j
            error, e = _encode(
                block, t.inverse[seed], t.word[at : at + words], limits, t.power, t.scale, q
            )
            if error < least or (error == least and seed < found):
                found, place, least = seed, e, error
                kept[:] = q
                enough = square - (least * factor) * factor - t.margin * square
    return found + 1, place


@njit(**_STRICT)
def _search(blocks, limits, t, scaled, tops, rows, seeds, exponents, coefficients):
    """Fill in seeds, exponents and coefficients, a batch of blocks at a time."""
    factors = np.empty(BATCH)
    bits, top_bits = rows.view(np.int32), tops.view(np.int32)
    q = np.empty(coefficients.shape[1])
    kept = np.empty(coefficients.shape[1])
    for start in range(0, len(blocks), BATCH):
        count = min(BATCH, len(blocks) - start)
        scaled[:] = 0
        for n in range(count):
            block = blocks[start + n]
            # To 0.5 .. 1 by a power of two, which float32 holds whatever the weights' scale.
            factors[n] = ldexp(1.0, -frexp(np.abs(block).max())[1])
            for c in range(len(block)):
                scaled[n, c] = block[c] * factors[n]
        for tile in range(len(t.basis)):
            for n in range(0, count, 2):
                _energies(t.basis[tile], scaled[n], scaled[n + 1], rows)
                top_bits[n, tile] = _top(bits[2])
                top_bits[n + 1, tile] = _top(bits[3])
        for n in range(count):
            seed, place, kept[:] = 1, 0, 0
            if scaled[n].any():
                seed, place = _best(
                    blocks[start + n], scaled[n], factors[n], tops[n], rows, limits, t, q, kept
                )
            seeds[start + n], exponents[start + n] = seed, place + LEAST
            for p in range(len(kept)):
                coefficients[start + n, p] = np.int8(kept[p])


def search(
    config: SeedlmConfig, blocks: np.ndarray, *, rule: str = "fit"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seeds (uint32), exponents (int8) and coefficients (int8, P a block).

    The result is that of :func:`seedbed.golden.seedlm.search`, bit for bit, whatever else is in
    ``blocks``. It runs on one processor and without Python's lock.

    Parameters
    ----------
    config
        The blocks' configuration; any. Its tables are made at the first call and kept.
    blocks
        (n, C) finite weights, the tensor's own scale taken off; of float32's range.
    rule
        One of ``RULES``.

    Raises ``ValueError`` for another rule or shape.
    """
    blocks = check(config, blocks, rule)
    t = tables(config)
    seeds = np.empty(len(blocks), np.uint32)
    exponents = np.empty(len(blocks), np.int8)
    coefficients = np.empty((len(blocks), config.latent), np.int8)
    scaled = _aligned(BATCH, t.basis.shape[2])
    tops, rows = _aligned(BATCH, len(t.basis)), _aligned(4, TILE)
    _search(blocks, LIMITS[rule], t, scaled, tops, rows, seeds, exponents, coefficients)
    return seeds, exponents, coefficients


def tensor_scale(peak: float) -> int:
    """Return s of the power of two 2^s that ``--scale auto`` takes off a tensor; 0 for zeros.

    ``peak`` is max|w| over the tensor: it is the same in whatever pieces the tensor is read, and
    max|w| 2^-s is in 64 .. 128. There the largest block's exponent is 5 or so, of 7 at most, and
    a weight of a thousandth of the peak still has one above -8.
    """
    return frexp(peak)[1] - PEAK if peak else 0


def block_floating_point(config: SeedlmConfig, blocks: np.ndarray) -> np.ndarray:
    """Return the squared error of each block in block floating point of as many bits, (n,) float64.

    The plain way to spend the bits of a block, for comparison, made as good as they allow: an
    exponent of 4 bits, the best of the 16 by trial, and for each of the C weights one of the most
    levels L with 4 + log2(L^C) <= ``block_bits``, evenly spaced around zero, which is one of them.
    L need not be a power of two: 11 at the paper's 4 bits, 6 at 3 bits. The exponents reach as
    high as those of SeedLM's coefficients would with L = 16.
    """
    blocks = check(config, blocks, RULES[0])
    spare = config.block_bits - NIBBLE
    # A root in floating point may be off by one where it is a whole number.
    levels = round(2 ** (spare / config.block))
    levels -= levels**config.block > 1 << spare
    low, high = -(levels // 2), (levels - 1) // 2
    least = np.full(len(blocks), np.inf)
    for e in range(LEAST, MOST + 1):
        step = 2.0 ** (e + NIBBLE - (levels - 1).bit_length())
        rounded = np.clip(np.rint(blocks / step), low, high) * step
        least = np.minimum(least, ((blocks - rounded) ** 2).sum(axis=1))
    return least
