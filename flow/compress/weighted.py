"""The search of SeedLM's encoder with a weight for the error of each input channel, exact and fast.

With h and D = diag(sqrt h), the error of a block is that of the search without weights, for D w and
D U(s) in place of w and U(s)::

    sum over c of h_c (w_c - w'_c)^2 = |D w - D U(s) q 2^e|^2 >= |D w|^2 - |Q(s)' D w|^2

The bound is computed for all seeds as in :mod:`seedbed.flow.compress.search`, with the words of
each row times sqrt(h_c), and triangles of D U(s) = Q(s) R(s). These tables are computed once for
all blocks with the same h: a column of blocks of a matrix.

The pseudo-inverse of D U(s) is computed for those seeds only that a bound leaves. A first pass
finds them. It solves for t by Gram-Schmidt, whose rounding may differ from that of the
pseudo-inverse: an error found with a t that is too close to a tie excludes no seed. A second pass
evaluates the seeds that are left as :func:`seedbed.golden.seedlm.search` does, bit for bit.
"""

from math import frexp, ldexp, sqrt

import numpy as np

# Compiled code of this module contains that of the search; both are of one version of the package.
from seedbed.flow.compress.compiled import STRICT, compiled
from seedbed.flow.compress.search import BATCH, TILE, TRIANGLES, WIDE, _energies, _top
from seedbed.flow.compress.tables import STRAIN, Tables, aligned, tables
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
def _triangles(word, roots, triangle, strains, latent):
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
        if worst <= STRAIN:
            at = 0
            for p in range(latent):
                for k in range(p + 1):
                    triangle[slot // TILE, at, slot % TILE] = lower[p, k]
                    at += 1


def _weighted_tables(config: SeedlmConfig, t: Tables, roots: np.ndarray) -> Tables:
    """Return the tables of D U(s); ``inverse`` is filled on demand."""
    order = config.lfsr.order
    words = t.words.copy()
    words[:, : config.block] *= roots[:, None].astype(np.float32)
    triangle, strains = aligned(*t.triangle.shape), np.empty(order)
    _triangles(t.word, roots, triangle, strains, config.latent)
    usable = strains <= STRAIN
    rest = t.seed[:order][~usable]
    basis = aligned(-(-len(rest) // TILE), min(config.block, config.latent), *words.shape[1:])
    for k, rows in enumerate(basis):
        here = rest[k * TILE : (k + 1) * TILE]
        q, _ = np.linalg.qr(roots[:, None] * bases(config, here.astype(np.uint32)))
        rows[:, : config.block, : len(here)] = q.transpose(2, 1, 0)
    tiles = len(triangle)
    seed = np.zeros((tiles + len(basis)) * TILE, np.int64)
    seed[:order] = t.seed[:order]
    seed[tiles * TILE :][: len(rest)] = rest
    # As of the tables without weights, with one more rounding, of the words times the roots.
    rank, worst = min(config.block, config.latent), strains[usable].max(initial=1.0)
    margin = (2 * sqrt(rank) * worst * (words.shape[1] + rank + 5) + rank + 1) * 2.0**-23
    inverse = np.zeros(t.inverse.shape)
    return t._replace(
        words=words, triangle=triangle, basis=basis, seed=seed, inverse=inverse, margin=margin
    )


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
def _candidates(blocks, targets, h, roots, limits, t, scaled, tops, sums, energies, found, bounds):
    """Store the seeds of each block that its bound leaves in ``found``; return how many."""
    size = len(h)
    latent = t.inverse.shape[1]
    q, r, solved = np.empty((latent, size)), np.zeros((latent, latent)), np.empty(latent)
    factors, counts = np.zeros(len(blocks)), np.zeros(len(blocks), np.int64)
    bits, top_bits = energies.view(np.int32), tops.view(np.int32)
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
        least, enough = np.inf, -np.inf
        for step in range(len(top) + 1):
            tile = 0
            for k in range(len(top)):
                if top[k] > top[tile]:
                    tile = k
            if step == 0:
                # The maximum energy first: its limit excludes most other seeds.
                floor = top[tile] - t.margin * square
            elif top[tile] < enough:
                break
            else:
                floor = -np.inf
                top[tile] = -np.inf
            _energies(t, tile, scaled[n], scaled[n], sums, energies)
            for j in range(TILE):
                seed = t.seed[tile * TILE + j]
                if energies[0, j] < max(enough, floor) or seed == 0:
                    continue
                at = t.place[seed]
                error = _upper_bound(
                    blocks[n], targets[n], h, t.word[at : at + latent * size], roots, limits, t,
                    q, r, solved,
                )  # fmt: skip
                if error < least:
                    least = error
                    enough = square - (least * factor) * factor - t.margin * square
                if step:
                    found[n, counts[n]], bounds[n, counts[n]] = seed, energies[0, j]
                    counts[n] += 1
        left = 0
        for k in range(counts[n]):
            if bounds[n, k] >= enough:
                found[n, left] = found[n, k]
                left += 1
        counts[n] = left
    return counts


@compiled(**STRICT)
def _evaluate(block, target, h, seeds, limits, t, q, kept):
    """Store the best coefficients of some seeds; return the seed and the exponent's index."""
    latent, size = t.inverse.shape[1:]
    best, place, least = len(t.place), 0, np.inf
    for seed in seeds:
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
    t = _weighted_tables(config, tables(config, TILE, WIDE, TRIANGLES), roots)
    known = np.zeros(config.lfsr.order + 1, bool)
    seeds = np.empty(len(blocks), np.uint32)
    exponents = np.empty(len(blocks), np.int8)
    coefficients = np.empty((len(blocks), config.latent), np.int8)
    scaled, tops = aligned(BATCH, t.words.shape[1]), aligned(BATCH, len(t.seed) // TILE)
    sums, energies = aligned(2, WIDE), aligned(2, TILE)
    # Slots of singular seeds, too; only what is used takes memory.
    found = np.empty((BATCH, len(t.seed)), np.int64)
    bounds = np.empty((BATCH, len(t.seed)), np.float32)
    for start in range(0, len(blocks), BATCH):
        part = slice(start, min(start + BATCH, len(blocks)))
        counts = _candidates(
            blocks[part], targets[part], h, roots, limits, t, scaled, tops, sums, energies, found,
            bounds,
        )  # fmt: skip
        here = [found[n, :count] for n, count in enumerate(counts)]
        new = np.unique(np.concatenate(here))
        new = new[~known[new]]
        t.inverse[new - 1] = weighted_inverses(config, new.astype(np.uint32), roots)
        known[new] = True
        _select(
            blocks[part], targets[part], h, found, counts, limits, t,
            seeds[part], exponents[part], coefficients[part],
        )  # fmt: skip
    return seeds, exponents, coefficients
