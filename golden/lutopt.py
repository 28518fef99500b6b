"""Golden model of the LUT-optimised linear generator."""

from collections.abc import Sequence

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.exact import whole_product
from seedbed.spec import LutoptConfig
from seedbed.spec.lutopt import SEED_BITS, SEED_LEAST, WARM_UP, Rows, expansion

__all__ = ["Lutopt", "load_beats", "matrix", "power"]

#: Beats whose bits are kept at a time: bounds the memory.
CHUNK = 4096


def matrix(rows: Rows) -> np.ndarray:
    """Return A of state' = A state over GF(2), uint8: row r has ones at the taps of bit r."""
    found = np.zeros((len(rows), len(rows)), np.uint8)
    for row, taps in zip(found, rows, strict=True):
        row[list(taps)] = 1
    return found


def power(a: np.ndarray, exponent: int) -> np.ndarray:
    """Return the matrix ``a ** exponent`` over GF(2), by repeated squaring."""
    # A BLAS has float32 only: products of integers are slow.
    square = a.astype(np.float32)
    result = np.eye(len(a), dtype=np.float32)
    while exponent:
        if exponent & 1:
            result = whole_product(result, square) % 2
        square = whole_product(square, square) % 2
        exponent >>= 1
    return result.astype(np.uint8)


def load_beats(config: LutoptConfig, words: Sequence[int] | np.ndarray) -> list[int]:
    """Return the beats that load a state: b masks of n bits, most significant bits first."""
    state = require_integers("words", words, 0, 2**config.width - 1).tolist()
    return [
        sum((word >> bit & 1) << lane for lane, word in enumerate(state))
        for bit in reversed(range(config.width))
    ]


def seeding(config: LutoptConfig) -> np.ndarray:
    """Return the matrix from the first state of the expanding generator to the state, uint8."""
    step = matrix(expansion())
    inputs = np.zeros((config.lanes, len(step)), np.uint8)
    for row, taps in zip(inputs, config.serial_taps, strict=True):
        row[list(taps)] = 1
    # Every bit as a sum of bits of that first state: of the generator, and of the lanes' chains.
    state = np.eye(len(step), dtype=np.uint8)
    chains = np.zeros((config.lanes, config.width, len(step)), np.uint8)
    for _ in range(WARM_UP + config.width):
        chains[:, 1:] = chains[:, :-1].copy()
        chains[:, 0] = inputs @ state % 2
        state = step @ state % 2
    return chains.reshape(config.bits, len(step))


class Lutopt:
    """n words of b bits a beat: the states themselves, from the loaded one on.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LutoptConfig`.
    """

    def __init__(self, config: LutoptConfig):
        self.config = config
        most = max(map(len, config.rows))
        # The state has one more bit, 0, in place of missing taps.
        self._taps = [
            np.array([row[k] if k < len(row) else config.bits for row in config.rows])
            for k in range(most)
        ]
        self._weights = (1 << np.arange(config.width)).astype(np.uint32)
        self._state = np.zeros(config.bits + 1, np.uint8)
        self._seeding = seeding(config)
        self.seed(0, checked=False)

    def load(self, words: Sequence[int] | np.ndarray) -> None:
        """Set the state: one word for each lane, not all zero."""
        config = self.config
        state = require_integers("words", words, 0, 2**config.width - 1)
        if state.shape != (config.lanes,):
            raise ValueError(f"{config.lanes} lanes need as many words, not {state.size}")
        if not state.any():
            raise ValueError("the words of a state must not all be 0, which the step maps to 0")
        bits = state[:, None] >> np.arange(config.width) & 1
        self._state[:-1] = bits.ravel()

    def seed(self, word: int, *, checked: bool = True) -> None:
        """Set the state that a seed word gives, any number of 32 bits.

        The expanding generator starts with the word and a 1. Each of its beats shifts one bit into
        each lane at the least significant end.
        """
        config = self.config
        if checked and config.bits < SEED_LEAST:
            raise ValueError(f"a seed word needs {SEED_LEAST} bits or more, not {config.bits}")
        word = int(require_integers("seed", word, 0, 2**SEED_BITS - 1))
        bits = (word | 1 << SEED_BITS) >> np.arange(SEED_BITS + 1) & 1
        self._state[:-1] = self._seeding @ bits % 2

    @property
    def words(self) -> np.ndarray:
        """The words of the next beat, which are the state: uint32 of shape (n,)."""
        return self._words(self._state[None, :-1])[0]

    def _words(self, states: np.ndarray) -> np.ndarray:
        bits = states.reshape(len(states), self.config.lanes, self.config.width)
        return bits @ self._weights

    def jump(self, beats: int) -> None:
        """Skip ``beats`` beats; backwards if negative."""
        a = power(matrix(self.config.rows), beats % self.config.period)
        self._state[:-1] = a.astype(np.int64) @ self._state[:-1] % 2

    def beats(self, count: int) -> np.ndarray:
        """Return the next ``count`` beats, uint32 of shape (count, n)."""
        chunks = [self._beats(min(CHUNK, count - done)) for done in range(0, count, CHUNK)]
        return np.concatenate([np.empty((0, self.config.lanes), np.uint32), *chunks])

    def _beats(self, count: int) -> np.ndarray:
        states = np.empty((count, self.config.bits), np.uint8)
        state = self._state
        first, *rest = self._taps
        for row in states:
            row[:] = state[:-1]
            new = state.take(first)
            for taps in rest:
                new ^= state.take(taps)
            state[:-1] = new
        return self._words(states)
