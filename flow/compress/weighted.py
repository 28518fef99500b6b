"""The search of SeedLM's encoder with a weight for the error of each input channel, exact and fast.

With h and D = diag(sqrt h), the error of a block is that of the search without weights, for D w and
D U(s) in place of w and U(s)::

    sum over c of h_c (w_c - w'_c)^2 = |D w - D U(s) q 2^e|^2 >= |D w|^2 - |Q(s)' D w|^2

The bound is computed for all seeds as in :mod:`seedbed.flow.compress.search`, with the words of
each row times sqrt(h_c), and triangles of D U(s) = Q(s) R(s). These tables are computed once for
all blocks with the same h: a column of blocks of a matrix.

If some h are much larger than others, their weights have nearly all of ``|D w|^2``, and any
seed represents these well. The bound is then a small difference of large numbers: it is computed in
float64, at half the speed. If at most P of the h are not 0, the bound is 0 for all seeds, and the
search is as fast as the literal one.

The pseudo-inverse of D U(s) is computed for those seeds only that a bound leaves. A first pass
finds them. It solves for t by Gram-Schmidt, whose rounding may differ from that of the
pseudo-inverse: an error found with a t that is too close to a tie excludes no seed. A second pass
evaluates the seeds that are left as :func:`seedbed.golden.seedlm.search` does, bit for bit. A seed
whose pseudo-inverse is known from earlier blocks is evaluated so in the first pass.
"""

from itertools import pairwise
from math import frexp, ldexp, sqrt
from typing import NamedTuple

import numpy as np

# Compiled code of this module contains that of the search; both are of one version of the package.
from seedbed.flow.compress.compiled import STRICT, compiled
from seedbed.flow.compress.search import BATCH, TILE, TRIANGLES, WIDE, _energies, _top
from seedbed.flow.compress.tables import STRAIN, Tables, aligned, reaches, tables
from seedbed.golden.seedlm import (
    LEAST,
    LIMITS,
    SINGULAR,
    bases,
    check,
    normalized,
    weighted_inverses,
)
from seedbed.spec import SeedlmConfig

__all__ = ["weighted_search"]

#: How far t 2^-e must be from a tie, relative to its rounding unit, and the least diagonal element
#: of R(s) relative to the largest: then t by Gram-Schmidt rounds like that of the pseudo-inverse.
TIE, REGULAR = 1e-5, 1e-7
#: The least share of the largest weight for which the bound in float32 excludes nearly all seeds.
GRADED = 2.0**-8
#: Limit of the error amplification of R(s)'^-1 in float64.
STRAIN_64 = 2.0**16
#: Blocks of the first batch. The pseudo-inverses that it needs make further ones faster.
FIRST = 2
#: Share of the seeds that are evaluated for a block, above which all pseudo-inverses are computed.
MANY = 1 / 16


class _Scratch(NamedTuple):
    """Arrays that a batch of blocks fills."""

    scaled: np.ndarray  #: (BATCH, C + pad), targets scaled to 0.5 .. 1
    tops: np.ndarray  #: (BATCH, tiles), the maximum energy of a tile
    top_bits: np.ndarray  #: the same as integers
    sums: np.ndarray  #: (2, WIDE)
    energies: np.ndarray  #: (2, TILE)
    bits: np.ndarray  #: the same as integers
    found: np.ndarray  #: (BATCH, slots) int64, the seeds that a bound leaves
    bounds: np.ndarray  #: (BATCH, slots), their energies


def _scratch(t: Tables) -> _Scratch:
    dtype = t.words.dtype.type
    integer = np.int32 if dtype is np.float32 else np.int64
    tops = aligned(BATCH, len(t.seed) // TILE, dtype=dtype)
    energies = aligned(2, TILE, dtype=dtype)
    # Slots of singular seeds, too; only what is used takes memory.
    slots = BATCH, len(t.seed)
    return _Scratch(
        aligned(BATCH, t.words.shape[1], dtype=dtype), tops, tops.view(integer),
        aligned(2, WIDE, dtype=dtype), energies, energies.view(integer),
        np.empty(slots, np.int64), np.empty(slots, dtype),
    )  # fmt: skip


@compiled(**STRICT)
def _orthonormal(words, roots, q, r):
    """Store Q and R of D V(s) by modified Gram-Schmidt; return min / max of R's diagonal."""
    latent, size = q.shape
    least, most = np.inf, 0.0
    for p in range(latent):
        for c in range(size):
            q[p, c] = words[c * latent + p] * roots[c]
    for p in range(latent):
        square = 0.0
        for c in range(size):
            square += q[p, c] * q[p, c]
        length = sqrt(square)
        r[p, p] = length
        least, most = min(least, length), max(most, length)
        for c in range(size):
            q[p, c] = q[p, c] / length if length > 0.0 else 0.0
        for k in range(p + 1, latent):
            product = 0.0
            for c in range(size):
                product += q[p, c] * q[k, c]
            r[p, k] = product
            for c in range(size):
                q[k, c] -= product * q[p, c]
    return least / most if most > 0.0 else 0.0


@compiled(**STRICT)
def _triangles(word, roots, triangle, strains, latent, limit):
    """Store R'^-1 of D V(s) and the strain of each slot; infinite if nearly singular."""
    size = len(roots)
    q, r, lower = np.empty((latent, size)), np.zeros((latent, latent)), np.zeros((latent, latent))
    lengths = np.empty(latent)
    for slot in range(len(strains)):
        words = word[slot : slot + size * latent]
        strains[slot] = np.inf
        if size < latent or _orthonormal(words, roots, q, r) <= SINGULAR:
            continue
        # R' lower = I, column by column.
        for k in range(latent):
            square = 0.0
            for p in range(k + 1):
                square += r[p, k] * r[p, k]
            lengths[k] = sqrt(square)
            for p in range(k, latent):
                total = 1.0 if p == k else 0.0
                for m in range(k, p):
                    total -= r[m, p] * lower[m, k]
                lower[p, k] = total / r[p, p]
        worst = 0.0
        for p in range(latent):
            strain = 0.0
            for k in range(p + 1):
                strain += abs(lower[p, k]) * lengths[k]
            worst = max(worst, strain)
        strains[slot] = worst
        if worst <= limit:
            at = 0
            for p in range(latent):
                for k in range(p + 1):
                    triangle[slot // TILE, at, slot % TILE] = lower[p, k]
                    at += 1


def _weighted_tables(
    config: SeedlmConfig, t: Tables, h: np.ndarray, roots: np.ndarray
) -> tuple[Tables, np.ndarray]:
    """Return the tables of D U(s), in float64 if the weights are graded, and margins by tile.

    ``inverse`` and ``reach`` are filled on demand.
    """
    graded = h.min() < GRADED
    dtype, limit = (np.float64, STRAIN_64) if graded else (np.float32, STRAIN)
    order = config.lfsr.order
    words = aligned(*t.words.shape, dtype=dtype)
    words[:] = t.words
    words[:, : config.block] *= roots[:, None].astype(dtype)
    triangle, strains = aligned(*t.triangle.shape, dtype=dtype), np.empty(order)
    _triangles(t.word, roots, triangle, strains, config.latent, limit)
    usable = strains <= limit
    rest = t.seed[:order][~usable]
    rank = min(config.block, config.latent)
    basis = aligned(-(-len(rest) // TILE), rank, *words.shape[1:], dtype=dtype)
    for k, rows in enumerate(basis):
        here = rest[k * TILE : (k + 1) * TILE]
        q, _ = np.linalg.qr(roots[:, None] * bases(config, here.astype(np.uint32)))
        rows[:, : config.block, : len(here)] = q.transpose(2, 1, 0)
    tiles = len(triangle)
    seed = np.zeros((tiles + len(basis)) * TILE, np.int64)
    seed[:order] = t.seed[:order]
    seed[tiles * TILE :][: len(rest)] = rest
    # As of the tables without weights, with one more rounding, of the words times the roots.
    worst = strains[usable].max(initial=1.0)
    margin = 2 * sqrt(rank) * worst * (words.shape[1] + rank + 5) + rank + 1
    # In float64, the rounding of R(s) and of |D w|^2 counts, too: 32 times as much. The columns of
    # the other seeds are nearly dependent: their span is less accurate than a product.
    margins = np.full(tiles + len(basis), margin * (2.0**-47 if graded else 2.0**-23))
    if graded:
        margins[tiles:] = 2.0**-16
    return t._replace(
        words=words, triangle=triangle, basis=basis, seed=seed, inverse=np.zeros(t.inverse.shape),
        reach=np.zeros(order), margin=float(margins.max(initial=0.0)),
    ), margins  # fmt: skip


@compiled(**STRICT)
def _upper_bound(block, target, h, words, roots, limits, t, q, r, solved):
    """Return the weighted error for a seed, or infinity if it might differ from the model's."""
    latent, size = q.shape
    if size < latent or _orthonormal(words, roots, q, r) < REGULAR:
        return np.inf
    peak = 0.0
    for p in range(latent - 1, -1, -1):
        total = 0.0
        for c in range(size):
            total += q[p, c] * target[c]
        for k in range(p + 1, latent):
            total -= r[p, k] * solved[k]
        solved[p] = total / r[p, p]
    # The words are centred integers: those of U(s) are divided by 2^(B - 1) - 1.
    unit = t.power[0] / t.scale[0]
    for p in range(latent):
        solved[p] *= unit
        peak = max(peak, abs(solved[p]))
    e = 0
    while e < len(limits) and peak > limits[e]:
        e += 1
    for limit in limits:
        if abs(peak - limit) <= TIE * limit:
            return np.inf
    for p in range(latent):
        steps = solved[p] / t.power[e]
        nearest = np.rint(steps)
        if abs(steps) < 9.0 and abs(abs(steps - nearest) - 0.5) < TIE:
            return np.inf
        solved[p] = min(max(nearest, -8.0), 7.0)
    error = 0.0
    for c in range(size):
        total = 0.0
        for p in range(latent):
            total += words[c * latent + p] * solved[p]
        difference = block[c] - total * t.scale[e]
        error += h[c] * (difference * difference)
    return error


@compiled(**STRICT)
def _exact(block, target, h, seed, limits, t, q):
    """Store the coefficients of a seed, and return the error and the exponent's index."""
    latent, size = t.inverse.shape[1:]
    inverse, at = t.inverse[seed - 1], t.place[seed]
    peak = 0.0
    for p in range(latent):
        total = 0.0
        for c in range(size):
            total += inverse[p, c] * target[c]
        q[p] = total
        peak = max(peak, abs(total))
    e = 0
    while e < len(limits) and peak > limits[e]:
        e += 1
    for p in range(latent):
        q[p] = min(max(np.rint(q[p] / t.power[e]), -8.0), 7.0)
    error = 0.0
    for c in range(size):
        total = 0.0
        for p in range(latent):
            total += t.word[at + c * latent + p] * q[p]
        difference = block[c] - total * t.scale[e]
        error += h[c] * (difference * difference)
    return error, e


@compiled(**STRICT)
def _candidates(blocks, targets, h, roots, limits, t, margins, known, scratch):
    """Store the seeds of each block that its bound leaves in ``found``.

    Returns how many there are of each block, and the number of evaluations of unknown seeds.
    """
    scaled, tops, top_bits, sums, energies, bits, found, bounds = scratch
    size = len(h)
    latent = t.inverse.shape[1]
    q, r, solved = np.empty((latent, size)), np.zeros((latent, latent)), np.empty(latent)
    factors, counts = np.zeros(len(blocks)), np.zeros(len(blocks), np.int64)
    unknown = 0
    scaled[:] = 0
    for n in range(len(blocks)):
        factors[n] = ldexp(1.0, -frexp(np.abs(targets[n]).max())[1])
        for c in range(size):
            scaled[n, c] = targets[n, c] * factors[n]
    for tile in range(tops.shape[1]):
        for n in range(0, len(blocks), 2):
            _energies(t, tile, scaled[n], scaled[n + 1], sums, energies)
            top_bits[n, tile] = _top(bits[0])
            top_bits[n + 1, tile] = _top(bits[1])
    for n in range(len(blocks)):
        if not scaled[n].any():
            continue
        factor, top = factors[n], tops[n]
        square = 0.0
        for c in range(size):
            square += (targets[n, c] * factor) * (targets[n, c] * factor)
        zero = norm = 0.0
        for c in range(size):
            zero += h[c] * (blocks[n, c] * blocks[n, c])
            norm += targets[n, c] * targets[n, c]
        largest = 0.5 * t.power[0] / sqrt(norm)
        # From here on, an energy is the most that it may be.
        for k in range(len(top)):
            top[k] += margins[k] * square
        # The first of the known seeds with the least error, if one has it.
        first, least, enough = len(t.place), np.inf, -np.inf
        for step in range(len(top) + 1):
            tile = 0
            for k in range(len(top)):
                if top[k] > top[tile]:
                    tile = k
            margin = margins[tile] * square
            if step == 0:
                # The maximum energy first: its limit excludes most other seeds.
                floor = top[tile] - 2 * margin
            elif top[tile] < enough:
                break
            else:
                floor = -np.inf
                top[tile] = -np.inf
            _energies(t, tile, scaled[n], scaled[n], sums, energies)
            for j in range(TILE):
                seed, energy = t.seed[tile * TILE + j], energies[0, j] + margin
                if energy < max(enough, floor) or seed == 0:
                    continue
                if known[seed]:
                    # All coefficients round to 0, or they are evaluated.
                    error = zero
                    if t.reach[seed - 1] >= largest:
                        error, _ = _exact(blocks[n], targets[n], h, seed, limits, t, solved)
                    if error > least or (error == least and seed > first):
                        continue
                    first = seed
                else:
                    unknown += 1
                    at = t.place[seed]
                    error = _upper_bound(
                        blocks[n], targets[n], h, t.word[at : at + latent * size], roots, limits,
                        t, q, r, solved,
                    )  # fmt: skip
                    if error < least:
                        first = len(t.place)
                if error < least:
                    least = error
                    enough = square - (least * factor) * factor
                if step:
                    found[n, counts[n]], bounds[n, counts[n]] = seed, energy
                    counts[n] += 1
        left = 0
        for k in range(counts[n]):
            if bounds[n, k] >= enough:
                found[n, left] = found[n, k]
                left += 1
        counts[n] = left
    return counts, unknown


@compiled(**STRICT)
def _evaluate(block, target, h, seeds, limits, t, q, kept):
    """Store the best coefficients of some seeds; return the seed and the exponent's index."""
    best, place, least = len(t.place), 0, np.inf
    for seed in seeds:
        error, e = _exact(block, target, h, seed, limits, t, q)
        if error < least or (error == least and seed < best):
            best, place, least = seed, e, error
            kept[:] = q
    return best, place


@compiled(**STRICT)
def _select(blocks, targets, h, found, counts, limits, t, seeds, exponents, coefficients):
    """Store the best seed of each block, its exponent and its coefficients."""
    q, kept = np.empty(coefficients.shape[1]), np.empty(coefficients.shape[1])
    for n in range(len(blocks)):
        seed, place, kept[:] = 1, 0, 0
        if counts[n]:
            seed, place = _evaluate(
                blocks[n], targets[n], h, found[n, : counts[n]], limits, t, q, kept
            )
        seeds[n], exponents[n] = seed, place + LEAST
        for p in range(len(kept)):
            coefficients[n, p] = np.int8(kept[p])


def weighted_search(
    config: SeedlmConfig, blocks: np.ndarray, weights: np.ndarray, *, rule: str = "fit"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seeds (uint32), exponents (int8) and coefficients (int8, P per block).

    The result is bit-exact with :func:`seedbed.golden.seedlm.search` with the same ``weights``.

    Parameters
    ----------
    config, blocks, rule
        As of :func:`seedbed.flow.compress.search.search`.
    weights
        (C,) finite numbers of 0 or more, for all blocks. Tables are computed for them in each call.

    Raises ``ValueError`` for another rule or shape, and for weights that are not allowed.
    """
    blocks = check(config, blocks, rule)
    h = normalized(config, weights)
    roots = np.sqrt(h)
    targets, limits = blocks * roots, LIMITS[rule]
    t = tables(config, TILE, WIDE, TRIANGLES)
    t, margins = _weighted_tables(config, t, h, roots)
    known = np.zeros(config.lfsr.order + 1, bool)
    seeds = np.empty(len(blocks), np.uint32)
    exponents = np.empty(len(blocks), np.int8)
    coefficients = np.empty((len(blocks), config.latent), np.int8)
    scratch = _scratch(t)
    starts = sorted({0, *range(FIRST, len(blocks), BATCH), len(blocks)})
    for start, stop in pairwise(starts):
        part = slice(start, stop)
        counts, unknown = _candidates(
            blocks[part], targets[part], h, roots, limits, t, margins, known, scratch
        )
        here = [scratch.found[n, :count] for n, count in enumerate(counts)]
        if unknown > MANY * len(known) * (stop - start):
            # The bound excludes few seeds, also of blocks that follow.
            here = [np.arange(1, len(known))]
        new = np.unique(np.concatenate(here))
        new = new[~known[new]]
        t.inverse[new - 1] = weighted_inverses(config, new.astype(np.uint32), roots)
        t.reach[new - 1] = reaches(t.inverse[new - 1])
        known[new] = True
        _select(
            blocks[part], targets[part], h, scratch.found, counts, limits, t,
            seeds[part], exponents[part], coefficients[part],
        )  # fmt: skip
    return seeds, exponents, coefficients
