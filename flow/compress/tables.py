"""Precomputed tables of the search of SeedLM's encoder."""

from functools import lru_cache
from math import sqrt
from typing import NamedTuple, cast

import numpy as np

from seedbed.golden.lfsr import cycle
from seedbed.golden.seedlm import LEAST, MOST, SINGULAR, bases, inverses, words
from seedbed.spec import SeedlmConfig

__all__ = ["Tables", "aligned", "reaches", "tables"]

#: Limit of the error amplification of R(s)'^-1 in float32. Of 65,535 seeds at (C, P) = (8, 3),
#: 65,024 are below 20, and the others above 1,000.
STRAIN = 32.0


class Tables(NamedTuple):
    """Tables of the search for a configuration.

    A slot is a step of the generator's cycle. The seeds whose U(s) is nearly singular follow in
    additional slots.
    """

    words: np.ndarray  #: (tiles, C + pad, wide) float32, column 0 of V(s) - 2^(B - 1) by slot
    triangle: np.ndarray  #: (tiles, n (n + 1) / 2, tile) float32, R(s)'^-1, n = P or next size
    basis: np.ndarray  #: (further tiles, rank, C + pad, wide) float32, Q(s) with zeros in the pad
    seed: np.ndarray  #: (slots,) int64, the seed or 0
    inverse: np.ndarray  #: (2^K - 1, P, C) float64, by seed
    reach: np.ndarray  #: (2^K - 1,) float64, at least ``max|t| / |w|``, by seed
    word: np.ndarray  #: int64, the centred words in the order of steps
    place: np.ndarray  #: (2^K,) int64, where the words of a seed begin
    power: np.ndarray  #: (16,) float64, 2^e for e = -8 .. 7
    scale: np.ndarray  #: (16,) float64, 2^e / (2^(B - 1) - 1)
    margin: float  #: how far a bound may be wrong, as a share of ``|w|^2``


def aligned(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Return zeros aligned to a cache line: unaligned vector accesses cost twice."""
    size = int(np.prod(shape))
    buffer: np.ndarray = np.zeros(size + 16, dtype)
    start = -buffer.ctypes.data % 64 // buffer.itemsize
    return buffer[start : start + size].reshape(shape)


def _triangles(config: SeedlmConfig, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R(s)'^-1 for the words of each seed, and its error amplification.

    An error of z = V(s)' w is at most some share of |v_k| |w| in its element k, so that element p
    of R'^-1 z is off by that share of sum over k of |R'^-1_pk| |v_k|.
    """
    # NumPy's annotations give a pair; in this mode, the result is an array.
    r = cast(np.ndarray, np.linalg.qr(words(config, seeds) - float(config.half), mode="r"))
    diagonal = np.abs(np.diagonal(r, axis1=1, axis2=2))
    singular = (diagonal <= SINGULAR * diagonal.max()).any(axis=1) | (r.shape[1] < r.shape[2])
    r[singular] = np.eye(*r.shape[1:])
    lower = np.linalg.inv(r[:, :, : r.shape[1]]).transpose(0, 2, 1)
    lengths = np.sqrt((r**2).sum(axis=1))[:, : r.shape[1]]
    strain = (np.abs(lower) * lengths[:, None]).sum(axis=2).max(axis=1)
    return lower, np.where(singular, np.inf, strain)


@lru_cache(maxsize=1)
def tables(config: SeedlmConfig, tile: int, wide: int, triangles: tuple[int, ...]) -> Tables:
    """Return the tables. Those of the last configuration are cached: about 10 C P 2^K bytes.

    Parameters
    ----------
    config
        The blocks' configuration.
    tile, wide
        Seeds per tile, and products per tile: larger by at least the further columns of a seed.
    triangles
        Allowed numbers of elements of a triangle; the smallest sufficient one is used.
    """
    order, latent = config.lfsr.order, config.latent
    rank, columns = min(config.block, latent), -(-config.block // 4) * 4
    states = cycle(config.lfsr)
    place = np.zeros(order + 1, np.int64)
    place[states] = np.arange(order)
    tiles = -(-order // tile)
    # The words of a seed start with the following state.
    run = np.resize(np.roll(states, -1), tiles * tile + wide + config.block * latent)
    word = (run >> np.uint32(config.width - config.word_bits)).astype(np.int64) - config.half
    column = aligned(tiles, columns, wide)
    for k, c in np.ndindex(tiles, config.block):
        column[k, c] = word[k * tile + c * latent :][:wide]

    lower = np.tril_indices(rank)
    triangle = aligned(tiles, next(n for n in triangles if n >= len(lower[0])), tile)
    worst, strained = 1.0, [states[:0]]
    for k, rows in enumerate(triangle):
        here = states[k * tile : (k + 1) * tile]
        found, strain = _triangles(config, here)
        usable = strain <= STRAIN
        rows[: len(lower[0]), np.flatnonzero(usable)] = found[usable][:, *lower].T
        worst = max(worst, strain[usable].max(initial=1.0))
        strained.append(here[~usable])
    rest = np.concatenate(strained)
    basis = aligned(-(-len(rest) // tile), rank, columns, wide)
    for k, rows in enumerate(basis):
        here = rest[k * tile : (k + 1) * tile]
        # Computed from U, not from its inverse: Q R equals U up to rounding, also near singularity.
        q, _ = np.linalg.qr(bases(config, here))
        rows[:, : config.block, : len(here)] = q.transpose(2, 1, 0)
    seed = np.zeros((tiles + len(basis)) * tile, np.int64)
    seed[:order] = states
    seed[tiles * tile :][: len(rest)] = rest

    power = np.ldexp(1.0, np.arange(LEAST, MOST + 1))
    # A float32 dot product of C terms is off by (C + 2) 2^-24 |v| |w| at most, its share of a
    # triangle of P terms by P + 2 more, as much larger as the strain is; its square by twice |y_p|
    # as much, and the sum of |y_p| is at most sqrt(P) |w|. Taken twice.
    margin = (2 * sqrt(rank) * worst * (columns + rank + 4) + rank + 1) * 2.0**-23
    scale = power / (config.half - 1)
    inverse = inverses(config)
    return Tables(
        column, triangle, basis, seed,
        inverse, reaches(inverse), word, place, power, scale, margin,
    )  # fmt: skip


def reaches(inverse: np.ndarray) -> np.ndarray:
    """Return an upper limit of ``max|t| / |w|`` for t = inverse w, of (n, P, C) in float64."""
    return np.sqrt((inverse**2).sum(axis=2)).max(axis=1) * (1 + 1e-9)
