"""Matrices with kept entries in a core, each of whose results is compared with the model's."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from seedbed.golden.gemv import Gemv
from seedbed.golden.kept_matrix import KeptMatrices, KeptMatrix
from seedbed.hw.products.gemv_layouts import vector_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.harness import Mismatch
from seedbed.sim.payloads import pack
from seedbed.spec import GemvConfig

__all__ = ["CheckedMatrices", "row_beats"]


def row_beats(config: GemvConfig, of: KeptMatrix) -> int:
    """Return the beats of a row of a matrix."""
    return -(-of.columns // (config.plain_lanes if of.plain else config.lanes))


class CheckedMatrices(ABC):
    """What :class:`~seedbed.golden.kept_matrix.KeptMatrices` is, by a core.

    Entries are in the core's memory, one matrix after the other: a product perturbs them, an update
    changes them. Packed weights are streamed once for as many vectors as the core multiplies at a
    time. Every sum and every new value is compared with the model's.

    Parameters
    ----------
    config
        Of the core, with a side path whose entries are stored.
    matrices
        As for the model.
    progress
        Called with the number of further products.

    Raises :class:`Mismatch` for a result that is not the model's.
    """

    def __init__(
        self, config: GemvConfig, matrices: Mapping[str, KeptMatrix],
        progress: Callable[[int], object] = lambda count: None,
    ):  # fmt: skip
        assert config.sparse
        self.config = config.sparse
        self.matrices = dict(matrices)
        #: Vectors that were multiplied.
        self.products = 0
        self._core, self._progress = config, progress
        self._model = KeptMatrices(config.packing, config.sparse, matrices)
        self._first, first = {}, 0
        for name, of in self.matrices.items():
            self._first[name] = first
            first += len(of.entries)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The values in the core's memory, each of which was compared with the model's."""
        return self._model.values

    def product(self, name: str, x: np.ndarray, *, k: int = 0, seed: int = 0) -> np.ndarray:
        """Return the sums of all rows for each vector, int64 (n, rows), of ``x`` (n, columns).

        Equal vectors are multiplied once.
        """
        different, where = np.unique(x, axis=0, return_inverse=True)
        expected = self._model.product(name, different, k=k, seed=seed)
        every = (1 << self._core.vectors) - 1
        fields = {"perturb": every * (k != 0), "negative": every * (k < 0), "seed": seed}
        sums = self._multiplied(name, different, expected, fields)
        wrong = np.argwhere(sums != expected)
        if len(wrong):
            n, row = wrong[0]
            raise Mismatch(
                f"{name}: row {row} of the product of vector {n} is {sums[n, row]}, and in the "
                f"model {expected[n, row]}"
            )
        self._progress(len(x))
        self.products += len(different)
        return sums[where.reshape(-1)]

    def update(self, name: str, *, seed: int, gain: int, shift: int) -> None:
        """Update the values of a matrix in the core's memory."""
        self._model.update(name, seed=seed, gain=gain, shift=shift)
        expected = self._model.values[name]
        values = self._updated(name, expected, {"seed": seed, "gain": gain, "shift": shift})
        wrong = np.flatnonzero(values != expected)
        if len(wrong):
            raise Mismatch(
                f"{name}: entry {wrong[0]} is {values[wrong[0]]} after an update, and in the model "
                f"{expected[wrong[0]]}"
            )

    @abstractmethod
    def _multiplied(
        self, name: str, x: np.ndarray, expected: np.ndarray, fields: Mapping[str, int]
    ) -> np.ndarray:
        """Return the core's sums, int64 (n, rows), with these fields of the commands."""

    @abstractmethod
    def _updated(self, name: str, expected: np.ndarray, fields: Mapping[str, int]) -> np.ndarray:
        """Return the core's new values."""

    def _fields(self, name: str, kind: int) -> dict[str, int]:
        """Return the fields of a command of a kind, without those of its perturbation."""
        of = self.matrices[name]
        fields = {
            "kind": kind, "rows": of.rows, "columns": of.columns, "first": self._first[name],
            "count": len(of.entries), "shift": of.shift, "scale": of.scale,
        }  # fmt: skip
        return fields | ({"plain": of.plain} if self._core.decode == "seedlm" else {})

    def _entries(self, name: str) -> np.ndarray:
        """Return the payloads of a matrix's entries."""
        of, fields = self.matrices[name], {"row": 0, "column": 1, "value": 2}
        return pack(
            entry_layout(self.config),
            len(of.entries),
            **{field: of.entries[:, k] for field, k in fields.items()},
        )

    def _beats(self, name: str) -> np.ndarray:
        """Return a matrix as beats, uint8 (rows, beats, bytes)."""
        of = self.matrices[name]
        return Gemv(self._core).base_beats(of.fields, of.columns, plain=of.plain)

    def _vectors(self, x: np.ndarray) -> np.ndarray:
        """Return the payloads of vectors, so many at a time; those missing at the end are 0."""
        group, vectors = self._core.group, self._core.vectors
        beats, count = -(-x.shape[1] // group), -(-len(x) // vectors)
        lanes = np.zeros((count * vectors, beats * group), np.int64)
        lanes[: len(x), : x.shape[1]] = x
        # (command, vector, beat, lane) to (command, beat, vector, lane).
        lanes = lanes.reshape(count, vectors, beats, group).swapaxes(1, 2)
        last = np.arange(count * beats) % beats == beats - 1
        return pack(
            vector_layout(self._core), len(last), lanes=lanes.reshape(len(last), -1), last=last
        )
