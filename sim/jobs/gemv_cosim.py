# amaranth: UnusedElaboratable=no
"""Matrices with kept entries in the emitted matrix-vector engine, checked against the model."""

from collections.abc import Callable, Mapping
from time import perf_counter

import numpy as np

from seedbed.golden.kept_matrix import KeptMatrix
from seedbed.hw.products.gemv_layouts import command_layout, result_layout, scale_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Act
from seedbed.sim.jobs.checked_matrices import CheckedMatrices, row_beats
from seedbed.sim.jobs.gemv_cycles import weight_payloads
from seedbed.sim.payloads import pack, unpack
from seedbed.sim.verilog.cosim import Cosim
from seedbed.spec import GEMV_STATUS, SPARSE_MAC_KINDS, GemvConfig

__all__ = ["RtlMatrices"]

_PRODUCT, _UPDATE, _LOAD = map(SPARSE_MAC_KINDS.index, SPARSE_MAC_KINDS)


class RtlMatrices(CheckedMatrices):
    """Matrices in the emitted core, whose packed weights are streamed from the host's memory.

    Parameters
    ----------
    config, matrices, progress
        See :class:`~seedbed.sim.jobs.checked_matrices.CheckedMatrices`.
    cosim
        The core's process.
    """

    def __init__(
        self, config: GemvConfig, cosim: Cosim, matrices: Mapping[str, KeptMatrix],
        progress: Callable[[int], object] = lambda count: None,
    ):  # fmt: skip
        super().__init__(config, matrices, progress)
        #: Cycles and numbers of commands by their kind.
        self.cycles = dict.fromkeys(SPARSE_MAC_KINDS, 0)
        self.commands = dict.fromkeys(SPARSE_MAC_KINDS, 0)
        #: Time of the simulation, by the clock.
        self.seconds = 0.0
        self._cosim, self._weights, self._scales = cosim, {}, {}
        for name, of in self.matrices.items():
            beats = self._beats(name)
            lengths = [beats.shape[1]] * of.rows
            self._weights[name] = cosim.store(weight_payloads(self._core, beats, lengths))
            if self._core.trellis:
                mantissas, exponents = of.fields[:, 0], of.fields[:, 1].view(np.int8)
                scales = {"mantissa": mantissas, "exponent": exponents}
                self._scales[name] = cosim.store(pack(scale_layout(), of.rows, **scales))
            if len(of.entries):
                self._run(name, _LOAD, 1, {"i_entries": self._entries(name)}, {"o": 1})

    def _multiplied(
        self, name: str, x: np.ndarray, expected: np.ndarray, fields: Mapping[str, int]
    ) -> np.ndarray:
        of, vectors = self.matrices[name], self._core.vectors
        count = -(-len(x) // vectors)
        scales = {}
        if self._core.trellis:
            scales["i_scales"] = self._scales[name], count * of.rows
        found = self._run(
            name, _PRODUCT, count,
            {
                "i_vector": self._vectors(x),
                "i_weights": (self._weights[name], count * of.rows * row_beats(self._core, of)),
                **scales,
            },
            {"o": count * of.rows},
            **fields,
        )["o"]  # fmt: skip
        sums = unpack(result_layout(self._core), found, "sum").reshape(count, of.rows, vectors)
        return sums.swapaxes(1, 2).reshape(-1, of.rows)[: len(x)]

    def _updated(self, name: str, expected: np.ndarray, fields: Mapping[str, int]) -> np.ndarray:
        outputs = {"o": 1, "o_entries": len(expected)}
        found = self._run(name, _UPDATE, 1, {}, outputs, **fields)["o_entries"]
        return unpack(entry_layout(self.config, last=1), found, "value")[:, 0]

    def _run(
        self, name: str, kind: int, count: int,
        inputs: Mapping[str, np.ndarray | tuple[int, int]], outputs: Mapping[str, int],
        **fields: int,
    ) -> Mapping[str, np.ndarray]:  # fmt: skip
        """Run a command ``count`` times; all of its results must be without an error."""
        command = pack(command_layout(self._core), count, **self._fields(name, kind) | fields)
        began = perf_counter()
        act = Act(name=name, inputs={"i": command, **inputs}, counts=outputs)
        result = self._cosim.run(act)
        self.seconds += perf_counter() - began
        self.cycles[SPARSE_MAC_KINDS[kind]] += result.cycles
        self.commands[SPARSE_MAC_KINDS[kind]] += count
        status = result.field("o", "status")
        wrong = np.flatnonzero(status)
        if len(wrong):
            raise Mismatch(
                f"{name}: result {wrong[0]} of {len(status)} has the status "
                f"{GEMV_STATUS[status[wrong[0]]]!r}, not 'ok'"
            )
        return result.payloads
