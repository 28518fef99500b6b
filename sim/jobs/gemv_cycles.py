"""Cycles of a whole matrix-vector product, of the emitted Verilog under Verilator."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from seedbed.hw.products import gemv_layouts as hw
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.cases.gemv import Job, phase
from seedbed.sim.cases.gemv_side import SideBench
from seedbed.sim.cases.sparse_mac import Matrix
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog import cpp_bench
from seedbed.spec import GemvConfig

__all__ = ["executable", "run"]

#: Streams files into the core.
MAIN = Path(__file__).with_suffix(".cpp")


def executable(verilog: Path, top: str, *, build: Path, side_path: bool = False) -> Path:
    """Build ``top`` of ``verilog``, with packed payloads; see :func:`cpp_bench.executable`."""
    flags = ["-CFLAGS", "-DSIDE_PATH"] if side_path else []
    return cpp_bench.executable(MAIN, verilog, top, build=build, flags=flags)


def _words(payloads: Iterable[int], bits: int) -> bytes:
    """Return payloads of ``bits`` bits as whole 32-bit words, the low one first."""
    size = -(-bits // 32) * 4
    return b"".join(payload.to_bytes(size, "little") for payload in payloads)


def _beats(job: Job) -> bytes:
    """Return the payloads of the weights, as :func:`_words` does."""
    octets = job.weights.shape[-1]
    size = -(-(octets * 8 + 1) // 32) * 4
    payloads = np.zeros((sum(job.lengths), size), np.uint8)
    payloads[:, :octets] = job.weights.reshape(-1, octets)
    payloads[np.cumsum(job.lengths) - 1, octets] = 1
    return payloads.tobytes()


def run(bench: Path, config: GemvConfig, job: Job, matrix: Matrix | None = None) -> int:
    """Stream ``job`` through the core without stalls; return its cycles.

    With a side path, the entries of ``matrix`` are streamed and their products added. The cycles
    are counted from the transfer of the first beat of weights to that of the last result, both
    included. Raises :class:`Mismatch` for a result that is missing or differs from the model's.
    """
    whole = phase(config, job)
    entry_bits = 1
    if matrix is not None:
        assert config.sparse
        side = SideBench(config=config, rng=np.random.default_rng(len(matrix.entries)))
        whole = side.product(whole, job, matrix, k=1)
        entry_bits = entry_layout(config.sparse).size
    vector = whole.inputs["i_vector"]
    files = {
        "command.bin": _words(whole.inputs["i"], hw.command_layout(config).size),
        "vector.bin": _words(vector, hw.vector_layout(config).size),
        "weights.bin": _beats(job),
    }
    entries = {"entries.bin": _words(whole.inputs.get("i_entries", []), entry_bits)}
    try:
        lines, found = cpp_bench.run(
            bench, *files, str(job.rows), "results.bin", *entries, files=files | entries,
            output="results.bin",
        )  # fmt: skip
    except cpp_bench.BenchFailed as failure:
        if failure.status == 4:
            raise RuntimeError(
                f"{bench.parent}: results.bin is truncated: is the disk full?"
            ) from None
        raise Mismatch(f"the simulation gave fewer results than the {job.rows} rows") from None
    expected = _words(whole.outputs["o"], hw.result_layout(config).size)
    if found != expected:
        size = len(expected) // job.rows
        parts = (slice(k * size, (k + 1) * size) for k in range(job.rows))
        wrong = next(k for k, part in enumerate(parts) if found[part] != expected[part])
        raise Mismatch(f"row {wrong} of {job.rows} x {job.columns} is not the model's")
    return int(lines[0])
