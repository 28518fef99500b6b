"""Golden model of the array of LFSR uniform generators."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.lfsr import cycle
from seedbed.spec import UrngConfig

__all__ = ["UrngArray", "seed_beats"]

#: Beats computed at a time: bounds the memory.
CHUNK = 4096


def seed_beats(config: UrngConfig, seeds: list[int]) -> list[int]:
    """Return the beats that load ``seeds`` serially: b masks of n bits, lane 0 first.

    The states rotate while the seed bits are shifted in: beat t carries at lane l bit t of the seed
    of generator (l - (b - 1) + t) mod n.
    """
    lanes, width = config.lanes, config.width
    states = require_integers("seeds", seeds, 0, config.lfsr.order).tolist()
    return [
        sum((states[(lane - (width - 1) + t) % lanes] >> t & 1) << lane for lane in range(lanes))
        for t in range(width)
    ]


@lru_cache(maxsize=8)
def _rotation(lanes: int, leap: int, order: int, beats: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the generator at each lane and beat, and the steps it has made by then."""
    rows = np.arange(beats)[:, None]
    return (np.arange(lanes) + rows) % lanes, leap * rows % order


class UrngArray:
    """n generators over one m-sequence; beat t shows generator (j + t) mod n at position j.

    Every state is an index in the one cycle of 2^b - 1 states, so that a word is a look-up in a
    table of that cycle: ``cycle[phase[(j + t) mod n] + leap * t]``.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.UrngConfig`.
    """

    def __init__(self, config: UrngConfig):
        self.config = config
        states = cycle(config.lfsr)
        self._order = len(states)
        # Two periods, so that the sum of a phase and a step needs no second modulo.
        self._table = np.concatenate([states, states]).astype(np.min_scalar_type(2**config.width))
        self._index = np.empty(self._order + 1, np.int64)
        self._index[states] = np.arange(self._order)
        self.load(list(config.seeds))

    def load(self, seeds: list[int]) -> None:
        """Give each generator a separate seed, as ``serial`` seeding does.

        A zero becomes 2^(b - 1) where ``repair`` is set, and raises ``ValueError`` otherwise.
        """
        if len(seeds) != self.config.lanes:
            raise ValueError(f"{self.config.lanes} lanes need as many seeds, not {len(seeds)}")
        self._phases = self._index[self._repaired("seeds", seeds)]
        self._beat = 0

    def grow(self, word: int) -> None:
        """Grow all generators from one word, as ``grown`` seeding does.

        Generator i starts ``leap (n - 1) + i spacing`` single steps after ``word``.
        """
        config = self.config
        start = self._index[self._repaired("word", word)] + config.leap * (config.lanes - 1)
        self._phases = (start + np.arange(config.lanes) * config.spacing) % self._order
        self._beat = 0

    def _repaired(self, name: str, seeds: list[int] | int) -> np.ndarray:
        found = require_integers(name, seeds, 0 if self.config.repair else 1, self._order)
        return np.where(found == 0, 1 << (self.config.width - 1), found)

    def first(self, beats: int) -> np.ndarray:
        """Return generator 0's states at the next ``beats`` beats, without advancing."""
        times = self._beat + np.arange(beats, dtype=np.int64)
        return self._table[(self._phases[0] + self.config.leap * times) % self._order]

    def later(self, state: int, beats: int) -> int:
        """Return the state that a generator has ``beats`` beats after ``state``."""
        return int(self._table[(self._index[state] + self.config.leap * beats) % self._order])

    def beats(self, count: int) -> np.ndarray:
        """Return the next ``count`` beats: unsigned words of shape (count, tile)."""
        config = self.config
        n = config.lanes
        out = np.empty((count, n), self._table.dtype)
        # A block is a few whole rotations; later blocks differ only by a common phase.
        block = n * -(-min(count, 128) // n)
        generators, steps = _rotation(n, config.leap, self._order, block)
        places = self._phases[generators] + steps
        # Both are indices in the cycle, so the sum exceeds it by less than one period.
        np.subtract(places, self._order, out=places, where=places >= self._order)
        done = 0
        while done < count:
            offset, inside = divmod(self._beat + done, block)
            start = config.leap * block * offset % self._order
            stop = min(count, done + block - inside)
            np.take(self._table, places[inside : inside + stop - done] + start, out=out[done:stop])
            done = stop
        self._beat += count
        return np.tile(out, -(-config.tile // n))[:, : config.tile] if config.tile > n else out

    def chunks(self, numbers: int) -> Iterator[np.ndarray]:
        """Yield beats of ``numbers`` words in total, in bounded memory."""
        beats = -(-numbers // self.config.tile)
        for done in range(0, beats, CHUNK):
            yield self.beats(min(CHUNK, beats - done))
