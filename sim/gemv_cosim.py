# amaranth: UnusedElaboratable=no
"""Matrices with kept entries in the emitted matrix-vector engine, checked against the model."""

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np

from seedbed.golden.gemv import Gemv
from seedbed.golden.kept_matrix import KeptMatrices, KeptMatrix
from seedbed.hw.gemv_layouts import command_layout, result_layout, vector_layout, weights_layout
from seedbed.hw.sparse_layouts import entry_layout
from seedbed.sim.cosim import Cosim
from seedbed.sim.harness import Mismatch
from seedbed.sim.payloads import pack, unpack
from seedbed.spec import GEMV_STATUS, SPARSE_MAC_KINDS, GemvConfig

__all__ = ["RtlMatrices"]

_PRODUCT, _UPDATE, _LOAD = map(SPARSE_MAC_KINDS.index, SPARSE_MAC_KINDS)


class RtlMatrices:
    """What :class:`~seedbed.golden.kept_matrix.KeptMatrices` is, by the emitted core.

    Entries are loaded into the core's memory at the start, one matrix after the other, and stay
    there: a product perturbs them, an update changes them. Packed weights are streamed once for
    as many vectors as the core multiplies at a time. Every sum and every new value is compared with
    the model's.

    Parameters
    ----------
    config
        Of the core, with a side path whose entries are stored.
    cosim
        The core's process.
    matrices
        As for the model.
    progress
        Called with the number of further products.

    Raises :class:`Mismatch` for a result that is not the model's.
    """

    def __init__(
        self, config: GemvConfig, cosim: Cosim, matrices: Mapping[str, KeptMatrix],
        progress: Callable[[int], object] = lambda count: None,
    ):  # fmt: skip
        assert config.sparse
        self.config = config.sparse
        self.matrices = dict(matrices)
        #: Cycles and numbers of commands by their kind.
        self.cycles = dict.fromkeys(SPARSE_MAC_KINDS, 0)
        self.commands = dict.fromkeys(SPARSE_MAC_KINDS, 0)
        #: Vectors that were multiplied.
        self.products = 0
        #: Time of the simulation, by the clock.
        self.seconds = 0.0
        self._core, self._cosim, self._progress = config, cosim, progress
        self._model = KeptMatrices(config, config.sparse, matrices)
        self._first, self._weights, first = {}, {}, 0
        for name, of in self.matrices.items():
            self._first[name] = first
            first += len(of.entries)
            self._weights[name] = cosim.store(self._beats(of))
            if len(of.entries):
                fields = {"row": 0, "column": 1, "value": 2}
                entries = pack(
                    entry_layout(self.config),
                    len(of.entries),
                    **{field: of.entries[:, k] for field, k in fields.items()},
                )
                self._run(name, _LOAD, 1, {"i_entries": entries}, {"o": 1})

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The values in the core's memory, each of which was compared with the model's."""
        return self._model.values

    def product(self, name: str, x: np.ndarray, *, k: int = 0, seed: int = 0) -> np.ndarray:
        """Return the sums of all rows for each vector, int64 (n, rows), of ``x`` (n, columns).

        Equal vectors are multiplied once.
        """
        different, where = np.unique(x, axis=0, return_inverse=True)
        of, vectors = self.matrices[name], self._core.vectors
        count, every = -(-len(different) // vectors), (1 << vectors) - 1
        found = self._run(
            name, _PRODUCT, count,
            {
                "i_vector": self._vectors(different),
                "i_weights": (self._weights[name], count * self._rows_beats(of)),
            },
            {"o": count * of.rows},
            perturb=every * (k != 0), negative=every * (k < 0), seed=seed,
        )["o"]  # fmt: skip
        sums = unpack(result_layout(self._core), found, "sum").reshape(count, of.rows, vectors)
        sums = sums.swapaxes(1, 2).reshape(-1, of.rows)[: len(different)]
        expected = self._model.product(name, different, k=k, seed=seed)
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
        count = len(self.matrices[name].entries)
        found = self._run(
            name, _UPDATE, 1, {}, {"o": 1, "o_entries": count}, seed=seed, gain=gain, shift=shift
        )["o_entries"]
        self._model.update(name, seed=seed, gain=gain, shift=shift)
        values = unpack(entry_layout(self.config, last=1), found, "value")[:, 0]
        wrong = np.flatnonzero(values != self._model.values[name])
        if len(wrong):
            raise Mismatch(
                f"{name}: entry {wrong[0]} is {values[wrong[0]]} after an update, and in the model "
                f"{self._model.values[name][wrong[0]]}"
            )

    def _run(
        self, name: str, kind: int, count: int, inputs: Mapping[str, object],
        outputs: Mapping[str, int], **fields: int,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Run a command ``count`` times; all of its results must be without an error."""
        of, layout = self.matrices[name], result_layout(self._core)
        given = {
            "kind": kind, "rows": of.rows, "columns": of.columns, "plain": of.plain,
            "first": self._first[name], "count": len(of.entries), "shift": of.shift,
            "scale": of.scale, **fields,
        }  # fmt: skip
        command = pack(command_layout(self._core), count, **given)
        began = perf_counter()
        cycles, found = self._cosim.run({"i": command, **inputs}, outputs)
        self.seconds += perf_counter() - began
        self.cycles[SPARSE_MAC_KINDS[kind]] += cycles
        self.commands[SPARSE_MAC_KINDS[kind]] += count
        status = unpack(layout, found["o"], "status")[:, 0]
        wrong = np.flatnonzero(status)
        if len(wrong):
            raise Mismatch(
                f"{name}: result {wrong[0]} of {len(status)} has the status "
                f"{GEMV_STATUS[status[wrong[0]]]!r}, not 'ok'"
            )
        return found

    def _rows_beats(self, of: KeptMatrix) -> int:
        """Return the beats of a matrix."""
        fields = self._core.plain_lanes if of.plain else self._core.lanes
        return of.rows * -(-of.columns // fields)

    def _beats(self, of: KeptMatrix) -> np.ndarray:
        """Return the payloads of a matrix."""
        model = Gemv(self._core)
        beats = model.plain_beats(of.fields) if of.plain else model.packed_beats(of.fields)
        rows, count, octets = beats.shape
        size = -(-weights_layout(self._core).size // 32) * 4
        payloads = np.zeros((rows, count, size), np.uint8)
        payloads[..., :octets] = beats
        payloads[:, -1, octets] = 1
        return payloads.reshape(rows * count, size).view("<u4")

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
