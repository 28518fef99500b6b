"""Golden model of a matrix's sparse, trainable part, in integers."""

from collections.abc import Sequence

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.lutopt import Lutopt
from seedbed.golden.mac_array import wrap
from seedbed.golden.perturbation import Perturbation
from seedbed.spec.sparse_mac import GAIN_FRACTION, MOST_SCALE, SparseMacConfig

__all__ = ["SparseMac"]


class SparseMac:
    """Products with, and updates of, entries (row, column, value).

    ``entries`` is int64 of shape (count, 3): a row, a column and a value each, sorted by row, then
    by column, each place once.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig`.
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        self._half = 1 << (config.value_width - 1)
        if config.source == "lutopt":
            self._generator = Lutopt(config.generator)
        else:
            self._perturbation = Perturbation(config.perturbation)

    def numbers(self, seed: int, count: int) -> np.ndarray:
        """Return the first ``count`` numbers of a seed.

        Those of ``lutopt`` are odd, -(2^b - 1) .. 2^b - 1.
        """
        config = self.config
        if config.source != "lutopt":
            return self._perturbed(seed, count)
        self._generator.seed(seed)
        words = self._generator.beats(count).astype(np.int64)
        state = sum((words[:, lane] << 4 * lane for lane in range(4)), np.zeros(count, np.int64))
        # The most significant bit is inverted, as in two's complement.
        unsigned = state & (1 << config.number_width) - 1
        return 2 * (unsigned - (1 << (config.number_width - 1))) + 1

    def _perturbed(self, seed: int, count: int) -> np.ndarray:
        """Return numbers of the array or of the pool, at the seed that a word names."""
        if not count:
            return np.zeros(0, np.int64)
        model = self._perturbation
        if self.config.source == "urng":
            top = (1 << self.config.number_width) - 1
            found = model.beats(seed=(seed & top) or top, d=count)
        else:
            size = model.config.size
            bits = size.bit_length()
            index = int(f"{seed % (1 << bits):0{bits}b}"[::-1], 2)
            found = model.beats(seed=index if index < size else 0, d=count)
        numbers = found.lanes.astype(np.int64) << found.exponents[:, None]
        return numbers.reshape(-1)[:count]

    def first_error(self, entries: np.ndarray, *, rows: int, columns: int) -> tuple[int, str]:
        """Return the index of the first wrong entry and its status; the count and "ok" if none."""
        before = (-1, -1)
        for n, (row, column, _) in enumerate(entries.tolist()):
            if row >= rows or column >= columns:
                return n, "range"
            if (row, column) == before:
                return n, "repeated"
            if (row, column) < before:
                return n, "order"
            before = (row, column)
        return len(entries), "ok"

    def perturbed(self, values: np.ndarray, *, seed: int, scale: int, k: int) -> np.ndarray:
        """Return clamp(v + k z 2^scale), k one of -1, 0 and 1."""
        values = self._values(values)
        require_integers("scale", scale, 0, MOST_SCALE)
        require_integers("k", k, -1, 1)
        if not k:
            return values
        return self._clamp(values + (k * self.numbers(seed, len(values)) << scale))

    def product(
        self, entries: np.ndarray, x: np.ndarray, dense: np.ndarray, *, shift: int = 0,
        seed: int = 0, scale: int = 0, k: int | Sequence[int] = 0,
    ) -> np.ndarray:  # fmt: skip
        """Return the sums of all rows, int64: ``dense`` plus the sparse part.

        ``x`` has an activation for each column, ``dense`` a sum for each row. Of several vectors,
        ``x`` is of shape (vectors, columns), ``dense`` of shape (rows, vectors), and ``k`` may be
        one for each. Raises ``ValueError`` for numbers out of range, and for entries that are not
        sorted, not unique or not in the matrix.
        """
        if x.ndim == 2:
            each = zip(x, dense.T, np.broadcast_to(k, len(x)).tolist(), strict=True)
            fields = {"shift": shift, "seed": seed, "scale": scale}
            found = [self.product(entries, one, of, k=sign, **fields) for one, of, sign in each]
            return np.stack(found, axis=1)
        assert isinstance(k, int)
        config = self.config
        half = 1 << (config.activation_width - 1)
        x = require_integers("x", x, -half, half - 1)
        require_integers("shift", shift, 0, config.most_shift)
        n, status = self.first_error(entries, rows=len(dense), columns=len(x))
        if status != "ok":
            raise ValueError(f"entry {n} must be after the one before and in the matrix: {status}")
        rows, columns, values = entries.reshape(-1, 3).T
        products = self.perturbed(values, seed=seed, scale=scale, k=k) * x[columns]
        partial = np.zeros(len(dense), np.int64)
        np.add.at(partial, rows, products << shift)
        return wrap(np.asarray(dense, np.int64) + partial, config.sum_width)

    def updated(self, values: np.ndarray, *, seed: int, gain: int, shift: int) -> np.ndarray:
        """Return clamp(v - floor(gain z 2^(shift - 16) + 1/2))."""
        values = self._values(values)
        half = 1 << (self.config.activation_width - 1)
        require_integers("gain", gain, -half, half - 1)
        require_integers("shift", shift, 0, self.config.most_shift)
        steps = gain * self.numbers(seed, len(values)) << shift
        return self._clamp(values - (steps + (1 << (GAIN_FRACTION - 1)) >> GAIN_FRACTION))

    def _values(self, values: np.ndarray) -> np.ndarray:
        return require_integers("values", values, -self._half, self._half - 1)

    def _clamp(self, values: np.ndarray) -> np.ndarray:
        return np.clip(values, -self._half, self._half - 1)
