"""Golden model of the tree Gaussian generator."""

from functools import cache
from math import erf, sqrt

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.lfsr import cycle
from seedbed.spec import LfsrConfig, TreeGrngConfig

__all__ = ["TreeGrng", "seed_bits", "thresholds"]

#: Magnitude bits that select the node of each level after the sign's.
DEPTHS = (0, 1, 2, 3, 4, 4, 3)


def thresholds(level: int, bits: int) -> np.ndarray:
    """Return the constants of the nodes of magnitude level 1..7, for words of ``bits`` bits.

    The half Gaussian's mass over 128 unit intervals of sigma 32, reshaped to (node, bits that
    the node ignores, lower or upper half, undecided bits), gives P(lower half).
    """
    pdf = np.diff([erf(edge / (32 * sqrt(2))) for edge in range(129)])
    halves = pdf.reshape(2 ** DEPTHS[level - 1], -1, 2, 128 >> level).sum(axis=(1, 3))
    return np.rint(np.ldexp(halves[:, 0] / halves.sum(axis=1), bits)).astype(np.int64)


def seed_bits(config: TreeGrngConfig, seeds) -> list[int]:
    """Return the bits that load ``seeds``, shape (instances, 8), in the order of the beats.

    A register with L steps per beat is loaded as L shift chains: its bits 0, L, 2L .., then
    1, L + 1 .., and so on.
    """
    bits = []
    for row in seeds:
        for level, seed in zip(config.levels, row, strict=True):
            leap, width = level.lfsr.leap, level.lfsr.width
            order = [k for start in range(leap) for k in range(start, width, leap)]
            state = int(require_integers("seeds", seed, 0, level.lfsr.order))
            bits += [state >> k & 1 for k in order]
    return bits


@cache
def _cycle(config: LfsrConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return a register's states in order, and the index of each state."""
    states = cycle(config)
    places = np.empty(config.order + 1, np.uint32)
    places[states] = np.arange(config.order, dtype=np.uint32)
    return states, places


class TreeGrng:
    """Evaluates the tree for all instances and beats at once.

    Every state is an index in its register's one cycle, so that the word of level l at beat t is
    ``cycle[place + leap * (t + stage)] >> (width - bits)``.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.TreeGrngConfig`.
    """

    def __init__(self, config: TreeGrngConfig):
        self.config = config
        self._cycles = [_cycle(level.lfsr) for level in config.levels]
        self._tables = [thresholds(k, config.levels[k].bits) for k in range(1, 8)]
        self.load(config.seeds)

    def load(self, seeds) -> None:
        """Start from ``seeds``, shape (instances, 8), none of them zero."""
        seeds = np.asarray(seeds)
        if seeds.shape != (self.config.instances, 8):
            raise ValueError(
                f"seeds must have the shape ({self.config.instances}, 8), not {seeds.shape}"
            )
        self._places = []
        columns = zip(self.config.levels, self._cycles, seeds.T, strict=True)
        for level, (_, places), column in columns:
            name = f"the seeds of a register of {level.lfsr.width} bits"
            states = require_integers(name, column, 1, level.lfsr.order)
            self._places.append(places[states] + np.int64(level.lfsr.leap * level.stage))
        self._beat = 0

    def _words(self, level: int, count: int) -> np.ndarray:
        settings, (states, _) = self.config.levels[level], self._cycles[level]
        beats = (self._beat + np.arange(count, dtype=np.int64)) * settings.lfsr.leap
        places = (beats[:, None] + self._places[level]) % len(states)
        return states[places] >> np.uint32(settings.lfsr.width - settings.bits)

    def numbers(self, count: int) -> np.ndarray:
        """Return the next ``count`` beats: int8 of shape (count, instances)."""
        magnitude = np.zeros((count, self.config.instances), np.uint8)
        for level, (depth, table) in enumerate(zip(DEPTHS, self._tables, strict=True), start=1):
            node = magnitude >> np.uint8(level - 1 - depth)
            magnitude = 2 * magnitude + (self._words(level, count) >= table[node])
        upper = 2 * self._words(0, count) >= 2 ** self.config.levels[0].bits
        self._beat += count
        return np.where(upper, magnitude, ~magnitude).astype(np.int8)

    def probabilities(self) -> np.ndarray:
        """Return the probability of each number -128..127, from thresholds and register lengths.

        A register of K bits is in 2^K - 1 states, of which ``(2^bits - T) 2^(K - bits)`` select the
        upper half. Over the whole period this is exact where the levels' periods are coprime.
        """
        half = np.ones(1)
        for level, table in enumerate(self._tables, start=1):
            unseen = level - 1 - DEPTHS[level - 1]
            upper = np.repeat(self._share(level, table), 2**unseen)
            half = np.stack([half * (1 - upper), half * upper], axis=1).ravel()
        positive = self._share(0, np.array(2 ** (self.config.levels[0].bits - 1)))
        return np.concatenate([(1 - positive) * half[::-1], positive * half])

    def _share(self, level: int, table: np.ndarray) -> np.ndarray:
        settings = self.config.levels[level]
        left = settings.lfsr.width - settings.bits
        return np.ldexp(2.0**settings.bits - table, left) / settings.lfsr.order
