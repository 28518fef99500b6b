"""The search of SeedLM's encoder, exact and fast; block floating point for comparison.

The error of a block for a seed s is at least the distance of w to the column space of U(s),
whatever the rounding of its coefficients::

    |w - U(s) q 2^e|^2 >= |w|^2 - |Q(s)' w|^2,    U(s) = Q(s) R(s), Q(s) orthonormal

The words of U(s) are consecutive words of the generator's single cycle, and the words of column
p + 1 follow those of column p by one step. Column p + 1 of a seed is therefore column p of the next
seed, and U(s)' w for all seeds is P views of one convolution: C products per seed. Q(s)' w is the
triangle R(s)'^-1 applied to it: P (P + 1) / 2 more products. If U(s) is nearly singular, for one
seed in a hundred, float32 is not accurate enough, and Q(s)' w is computed separately.

Of 65,535 seeds, a handful have a bound below the least error. Only these, in order of the bound, go
through Algorithm 1. It runs in float64 with the same operations as
:func:`seedbed.golden.seedlm.search`, so that seeds, exponents and coefficients are bit-exact.

If the rounding error is as large as the block, the bound excludes few seeds. Of weights far below
2^-8, as next to one huge weight, most seeds have coefficients of 0: these are not evaluated. For
C <= P, the search is hardly faster than the direct one.
"""

from math import frexp, ldexp, sqrt

import numpy as np

from seedbed.flow.compress.compiled import LOOSE, STRICT, compiled
from seedbed.flow.compress.tables import aligned, tables
from seedbed.golden.seedlm import LEAST, LIMITS, MOST, check
from seedbed.spec import SeedlmConfig
from seedbed.spec.seedlm import NIBBLE, RULES

__all__ = ["block_floating_point", "search", "tensor_scale"]

# Compiled code depends on these sizes; numba keeps it for as long as this file stays the same.
#: Products per tile; its words stay in the L1 cache for a batch of blocks.
WIDE = 256
#: Seeds per tile; up to 7 further columns of the last seeds follow.
TILE = WIDE - 8
#: Blocks per pass over the tiles; an even number.
BATCH = 64
#: The largest magnitude of a scaled tensor is below 2^PEAK: see ``tensor_scale``.
PEAK = 7
#: Sizes of triangles with specialised code, and their elements: the paper's P, and the maximum.
SIZES = (3, 4, 8)
TRIANGLES = tuple(n * (n + 1) // 2 for n in SIZES)
#: Tuples whose length is a compile-time constant.
ROWS = tuple((0,) * n for n in SIZES)


@compiled(**LOOSE)
def _products(columns, first, second, sums):
    """Store the products of a tile's columns and the weights of two blocks in ``sums``."""
    a, b = sums[0], sums[1]
    for c in range(0, len(columns), 4):
        q0, q1, q2, q3 = columns[c], columns[c + 1], columns[c + 2], columns[c + 3]
        u0, u1, u2, u3 = first[c], first[c + 1], first[c + 2], first[c + 3]
        v0, v1, v2, v3 = second[c], second[c + 1], second[c + 2], second[c + 3]
        if c == 0:
            for j in range(WIDE):
                a[j] = q0[j] * u0 + q1[j] * u1 + q2[j] * u2 + q3[j] * u3
                b[j] = q0[j] * v0 + q1[j] * v1 + q2[j] * v2 + q3[j] * v3
        else:
            for j in range(WIDE):
                a[j] += q0[j] * u0 + q1[j] * u1 + q2[j] * u2 + q3[j] * u3
                b[j] += q0[j] * v0 + q1[j] * v1 + q2[j] * v2 + q3[j] * v3


@compiled(**LOOSE)
def _by_triangle(triangle, sums, energies, rows):
    """Store |triangle times sums|^2 in ``energies``; the length of ``rows`` is constant."""
    a, b, x, y = sums[0], sums[1], energies[0], energies[1]
    for j in range(TILE):
        energy_a = energy_b = np.float32(0)
        at = 0
        for p in range(len(rows)):
            s = t = np.float32(0)
            for k in range(p + 1):
                s += triangle[at, j] * a[j + k]
                t += triangle[at, j] * b[j + k]
                at += 1
            energy_a += s * s
            energy_b += t * t
        x[j], y[j] = energy_a, energy_b


@compiled(**LOOSE)
def _energies(t, tile, first, second, sums, energies):
    """Store |Q' w|^2 of a tile's seeds in ``energies``, for two blocks that share the loads."""
    if tile < len(t.triangle):
        _products(t.words[tile], first, second, sums)
        triangle = t.triangle[tile]
        if len(triangle) == TRIANGLES[0]:
            _by_triangle(triangle, sums, energies, ROWS[0])
        elif len(triangle) == TRIANGLES[1]:
            _by_triangle(triangle, sums, energies, ROWS[1])
        else:
            _by_triangle(triangle, sums, energies, ROWS[2])
    else:
        energies[:] = 0
        for columns in t.basis[tile - len(t.triangle)]:
            _products(columns, first, second, sums)
            for n in range(2):
                for j in range(TILE):
                    energies[n, j] += sums[n, j] * sums[n, j]


@compiled(**STRICT)
def _top(bits):
    """Return the maximum energy of a tile as bits; non-negative floats order like their bits."""
    top = np.int32(0)
    for j in range(TILE):
        top = max(top, bits[j])
    return top


@compiled(**STRICT)
def _encode(block, inverse, words, limits, power, scale, q):
    """Store q, and return the error and the exponent's index: Algorithm 1 for one seed."""
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


@compiled(**STRICT)
def _best(block, scaled, factor, tops, sums, energies, limits, t, q, kept):
    """Store the best coefficients, and return their seed and exponent index."""
    count = len(q) * len(block)
    square = 0.0
    for weight in block:
        square += (weight * factor) * (weight * factor)
    found, place, least, enough = len(t.place), 0, np.inf, np.inf
    # The error of a seed whose coefficients all round to 0.
    zero = 0.0
    for weight in block:
        zero += weight * weight
    largest = 0.5 * t.power[0] / sqrt(zero)
    for step in range(len(tops) + 1):
        tile = 0
        for k in range(len(tops)):
            if tops[k] > tops[tile]:
                tile = k
        if step == 0:
            # The maximum energy first: its limit excludes most other seeds. Its tile is visited
            # again later.
            enough = tops[tile] - t.margin * square
        elif tops[tile] < enough:
            break
        else:
            tops[tile] = -np.inf
        _energies(t, tile, scaled, scaled, sums, energies)
        for j in range(TILE):
            seed = t.seed[tile * TILE + j]
            if energies[0, j] < enough or seed == 0:
                continue
            if t.reach[seed - 1] < largest:
                if zero > least or (zero == least and seed > found):
                    continue
                error, e, q[:] = zero, 0, 0
            else:
                at = t.place[seed]
                error, e = _encode(
                    block, t.inverse[seed - 1], t.word[at : at + count], limits, t.power, t.scale, q
                )
            if error < least or (error == least and seed < found):
                found, place, least = seed, e, error
                kept[:] = q
                enough = square - (least * factor) * factor - t.margin * square
    return found, place


@compiled(**STRICT)
def _search(blocks, limits, t, scaled, tops, sums, energies, seeds, exponents, coefficients):
    """Store seeds, exponents and coefficients, one batch of blocks at a time."""
    factors = np.empty(BATCH)
    bits, top_bits = energies.view(np.int32), tops.view(np.int32)
    q = np.empty(coefficients.shape[1])
    kept = np.empty(coefficients.shape[1])
    for start in range(0, len(blocks), BATCH):
        count = min(BATCH, len(blocks) - start)
        scaled[:] = 0
        for n in range(count):
            block = blocks[start + n]
            # Scaled to 0.5 .. 1 by a power of two, within the range of float32.
            factors[n] = ldexp(1.0, -frexp(np.abs(block).max())[1])
            for c in range(len(block)):
                scaled[n, c] = block[c] * factors[n]
        for tile in range(tops.shape[1]):
            for n in range(0, count, 2):
                _energies(t, tile, scaled[n], scaled[n + 1], sums, energies)
                top_bits[n, tile] = _top(bits[0])
                top_bits[n + 1, tile] = _top(bits[1])
        for n in range(count):
            seed, place, kept[:] = 1, 0, 0
            if scaled[n].any():
                seed, place = _best(
                    blocks[start + n], scaled[n], factors[n], tops[n],
                    sums, energies, limits, t, q, kept,
                )  # fmt: skip
            seeds[start + n], exponents[start + n] = seed, place + LEAST
            for p in range(len(kept)):
                coefficients[start + n, p] = np.int8(kept[p])


def search(
    config: SeedlmConfig, blocks: np.ndarray, *, rule: str = "fit"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seeds (uint32), exponents (int8) and coefficients (int8, P per block).

    The result of a block is bit-exact with :func:`seedbed.golden.seedlm.search`, independent of
    the other blocks. The search runs on one processor, without Python's global lock.

    Parameters
    ----------
    config
        The blocks' configuration. Its tables are computed at the first call and cached.
    blocks
        (n, C) finite weights, divided by the tensor's scale, in the range of float32.
    rule
        One of ``RULES``.

    Raises ``ValueError`` for another rule or shape.
    """
    blocks = check(config, blocks, rule)
    t = tables(config, TILE, WIDE, TRIANGLES)
    seeds = np.empty(len(blocks), np.uint32)
    exponents = np.empty(len(blocks), np.int8)
    coefficients = np.empty((len(blocks), config.latent), np.int8)
    scaled = aligned(BATCH, t.words.shape[1])
    tops = aligned(BATCH, len(t.seed) // TILE)
    sums, energies = aligned(2, WIDE), aligned(2, TILE)
    _search(blocks, LIMITS[rule], t, scaled, tops, sums, energies, seeds, exponents, coefficients)
    return seeds, exponents, coefficients


def tensor_scale(peak: float) -> int:
    """Return s of the scale 2^s by which ``--scale auto`` divides a tensor; 0 for zeros.

    ``peak`` is max|w| over the tensor, independent of the pieces in which it is read. max|w| 2^-s
    is in 64 .. 128. The largest exponent of a block is then about 5, of 7 at most, and a weight of
    a thousandth of the peak has an exponent above -8.
    """
    return frexp(peak)[1] - PEAK if peak else 0


def block_floating_point(config: SeedlmConfig, blocks: np.ndarray) -> np.ndarray:
    """Return the squared error per block of block floating point with as many bits, (n,) float64.

    The reference for comparison, optimised for the number of bits: a 4-bit exponent, the best of
    16, and for each of the C weights one of L evenly spaced levels around zero, zero included. L is
    the largest number with 4 + log2(L^C) <= ``block_bits``, not necessarily a power of two: 11 at
    the paper's 4 bits, 6 at 3 bits. The range of the exponents is that of SeedLM's coefficients
    for L = 16.
    """
    blocks = check(config, blocks, RULES[0])
    spare = config.block_bits - NIBBLE
    # A floating-point root may be off by one if the exact root is an integer.
    levels = round(2 ** (spare / config.block))
    levels -= levels**config.block > 1 << spare
    low, high = -(levels // 2), (levels - 1) // 2
    least = np.full(len(blocks), np.inf)
    for e in range(LEAST, MOST + 1):
        step = 2.0 ** (e + NIBBLE - (levels - 1).bit_length())
        rounded = np.clip(np.rint(blocks / step), low, high) * step
        least = np.minimum(least, ((blocks - rounded) ** 2).sum(axis=1))
    return least
