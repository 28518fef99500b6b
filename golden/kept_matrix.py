"""Products of packed matrices with kept entries, for many vectors at a time, in integers.

The sums are those of the dense engine (:class:`~seedbed.golden.gemv.Gemv`), and of
:class:`~seedbed.golden.sparse_mac.SparseMac` after it, by a few products of float64 matrices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.exact import DOUBLE
from seedbed.golden.gemv import base_weights
from seedbed.golden.mac_array import wrap
from seedbed.golden.sparse_mac import SparseMac
from seedbed.spec import SeedlmConfig, SparseMacConfig, TrellisConfig

__all__ = ["ExactMatrix", "KeptMatrices", "KeptMatrix"]


@dataclass(frozen=True, kw_only=True)
class KeptMatrix:
    """A matrix of packed or of plain weights, and its entries in the side path.

    Parameters
    ----------
    fields
        Packed blocks, uint64 (rows, ceil(columns / C)), rows of a trellis code, uint8 (rows,
        bytes), or plain weights, int64 (rows, columns).
    columns
        Weights per row.
    plain
        Whether ``fields`` are plain weights.
    unit
        The value of a dense weight of 1. A packed weight is S 2^(e + 8), with a trellis code
        w mantissa 2^(e + 8).
    entries
        (count, 3): row, column and value of each, sorted. A value of 1 is 2^``shift`` units.
    shift, scale
        Left shifts of the products of values, and of the perturbation.
    """

    fields: np.ndarray
    columns: int
    plain: bool = False
    unit: float = 1.0
    entries: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    shift: int = 0
    scale: int = 0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.fields)

    @property
    def step(self) -> float:
        """The value of a kept value of 1."""
        return float(np.ldexp(self.unit, self.shift))

    def dense(self, packing: SeedlmConfig | TrellisConfig) -> np.ndarray:
        """Return the dense weights, int64 (rows, columns)."""
        return self.fields if self.plain else base_weights(packing, self.fields, self.columns)


class ExactMatrix:
    """x W' in int64 for many vectors x, by products of float64 that are exact.

    Vectors are cut into parts of so few bits that a float64 holds every sum.
    """

    def __init__(self, weights: np.ndarray):
        bits = int(np.bitwise_or.reduce(weights, axis=None))
        self._zeros = max(0, (bits & -bits).bit_length() - 1)
        reduced = weights >> self._zeros
        self._bits = DOUBLE - int(np.abs(reduced).sum(axis=1).max(initial=0)).bit_length()
        if self._bits < 2:
            raise ValueError("the sums of a row's magnitudes must have 51 bits at most")
        self._weights = reduced.T.astype(np.float64)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return int64 (n, rows), modulo 2^64, of integers ``x`` (n, columns)."""
        left = np.asarray(x, np.int64)
        total = np.zeros((len(left), self._weights.shape[1]), np.int64)
        shift, peak = self._zeros, 1 << self._bits - 1
        while True:
            # A part is signed, so that the last one is what is left.
            whole = not left.size or -peak <= left.min() <= left.max() < peak
            part = left if whole else (left + peak & 2 * peak - 1) - peak
            sums = part.astype(np.float64) @ self._weights
            total += sums.astype(np.int64) << shift
            if whole:
                return total
            left = left - part >> self._bits
            shift += self._bits


class KeptMatrices:
    """The engine's products with, and updates of, several matrices.

    Parameters
    ----------
    packing
        Configuration of the packed weights.
    sparse
        Configuration of the side path.
    matrices
        The matrices by name.
    """

    def __init__(
        self, packing: SeedlmConfig | TrellisConfig, sparse: SparseMacConfig,
        matrices: Mapping[str, KeptMatrix],
    ):  # fmt: skip
        self.config = sparse
        self.matrices = dict(matrices)
        self.values = {name: of.entries[:, 2].copy() for name, of in matrices.items()}
        self._sparse = SparseMac(sparse)
        for name, of in matrices.items():
            n, status = self._sparse.first_error(of.entries, rows=of.rows, columns=of.columns)
            if status != "ok":
                raise ValueError(f"entry {n} of {name!r} is not after the one before: {status}")
        self._dense = {name: of.dense(packing) for name, of in matrices.items()}
        # The matrices with the perturbation that was last asked for.
        self._ready: dict[str, tuple[tuple[int, int], ExactMatrix]] = {}

    def product(self, name: str, x: np.ndarray, *, k: int = 0, seed: int = 0) -> np.ndarray:
        """Return the sums of all rows for each vector, int64 (n, rows), of ``x`` (n, columns).

        ``k`` and ``seed`` are those of :meth:`SparseMac.perturbed`.
        """
        half = 1 << (self.config.activation_width - 1)
        x = require_integers("x", x, -half, half - 1)
        of, key = self.matrices[name], (k, seed if k else 0)
        if name not in self._ready or self._ready[name][0] != key:
            values = self._sparse.perturbed(self.values[name], seed=seed, scale=of.scale, k=k)
            weights = self._dense[name].copy()
            rows, columns, _ = of.entries.T
            weights[rows, columns] += values << of.shift
            self._ready[name] = key, ExactMatrix(weights)
        return wrap(self._ready[name][1].product(x), self.config.sum_width)

    def update(self, name: str, *, seed: int, gain: int, shift: int) -> None:
        """Update the values of a matrix, as :meth:`SparseMac.updated`."""
        self.values[name] = self._sparse.updated(
            self.values[name], seed=seed, gain=gain, shift=shift
        )
        self._ready.pop(name, None)
