# amaranth: UnusedElaboratable=no
"""Cycles of a whole matrix-vector product, of the emitted Verilog under Verilator."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seedbed.hw.products import gemv_layouts as hw
from seedbed.hw.products.gemv import Gemv
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.cases.gemv import Job, phase
from seedbed.sim.cases.gemv_side import SideBench
from seedbed.sim.cases.sparse_mac import Matrix
from seedbed.sim.job import Act, check
from seedbed.sim.payloads import words
from seedbed.sim.verilog.cosim import Bench, Cosim
from seedbed.spec import GemvConfig

__all__ = ["executable", "run", "weight_payloads"]


def executable(verilog: Path, top: str, config: GemvConfig, *, build: Path) -> Path:
    """Build ``top`` of ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
    return Bench(Gemv(config).signature).executable(verilog, top, build=build)


def weight_payloads(config: GemvConfig, beats: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return beats of rows, uint8 (..., bytes per beat), as payloads; ``lengths`` are in beats."""
    octets = beats.shape[-1]
    size = -(-hw.weights_layout(config).size // 32) * 4
    payloads = np.zeros((sum(lengths), size), np.uint8)
    payloads[:, :octets] = beats.reshape(-1, octets)
    payloads[np.cumsum(lengths) - 1, octets] = 1
    return payloads.view("<u4")


def run(bench: Path, config: GemvConfig, job: Job, matrix: Matrix | None = None) -> int:
    """Stream ``job`` through the core without stalls; return its cycles.

    With a side path, the entries of ``matrix`` are streamed and their products added. The cycles
    are counted from the transfer of the first beat of weights to that of the last result, both
    included. Raises :class:`~seedbed.sim.harness.Mismatch` for a result that is missing or differs
    from the model's.
    """
    whole = phase(config, job)
    inputs = {"i_weights": weight_payloads(config, job.weights, job.lengths)}
    if matrix is not None:
        assert config.sparse
        side = SideBench(config=config, rng=np.random.default_rng(len(matrix.entries)))
        whole = side.product(whole, job, matrix, k=1)
        inputs["i_entries"] = words(whole.inputs["i_entries"], entry_layout(config.sparse))
    inputs["i"] = words(whole.inputs["i"], hw.command_layout(config))
    if config.trellis:
        inputs["i_scales"] = words(whole.inputs["i_scales"], hw.scale_layout())
    inputs["i_vector"] = words(whole.inputs["i_vector"], hw.vector_layout(config))
    act = Act(
        name="product",
        inputs=inputs,
        outputs={"o": words(whole.outputs["o"], hw.result_layout(config))},
        messages={"o": lambda of: f"row {of.at} of {job.rows} x {job.columns} is not the model's"},
    )
    with Cosim(bench, Bench(Gemv(config).signature)) as core:
        result = core.run(act)
    check([act], {act.name: result})
    return int(result.when["o"][-1]) - result.first["i_weights"] + 1
