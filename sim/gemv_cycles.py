"""Cycles of a whole matrix-vector product, of the emitted Verilog under Verilator."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from seedbed.hw import gemv_layouts as hw
from seedbed.sim import cpp_bench
from seedbed.sim.cases.gemv import Job, command, results, vector_payloads
from seedbed.sim.harness import Mismatch
from seedbed.spec import GemvConfig

__all__ = ["executable", "run"]

#: Streams files into the core.
MAIN = Path(__file__).with_suffix(".cpp")


def executable(verilog: Path, top: str, *, build: Path) -> Path:
    """Build ``top`` of ``verilog``, with packed payloads; see :func:`cpp_bench.executable`."""
    return cpp_bench.executable(MAIN, verilog, top, build=build)


def _words(payloads: Iterable[int], bits: int) -> bytes:
    """Return payloads of ``bits`` bits as whole 32-bit words, the low one first."""
    size = -(-bits // 32) * 4
    return b"".join(payload.to_bytes(size, "little") for payload in payloads)


def _beats(job: Job) -> bytes:
    """Return the payloads of the weights, as :func:`_words` does."""
    rows, beats, octets = job.weights.shape
    size = -(-(octets * 8 + 1) // 32) * 4
    payloads = np.zeros((rows, beats, size), np.uint8)
    payloads[..., :octets] = job.weights
    payloads[:, -1, octets] = 1
    return payloads.tobytes()


def run(bench: Path, config: GemvConfig, job: Job) -> int:
    """Stream ``job`` through the core without stalls; return its cycles.

    They are counted from the transfer of the first beat of weights to that of the last result, both
    included. Raises :class:`Mismatch` for a result that is missing or differs from the model's.
    """
    start = command(config, job.columns, job.rows, plain=job.plain)
    vector = vector_payloads(config, job)
    files = {
        "command.bin": _words([start], hw.command_layout(config).size),
        "vector.bin": _words(vector, hw.vector_layout(config).size),
        "weights.bin": _beats(job),
    }
    try:
        lines, found = cpp_bench.run(
            bench, *files, str(job.rows), "results.bin", files=files, output="results.bin"
        )
    except cpp_bench.BenchFailed as failure:
        if failure.status == 4:
            raise RuntimeError(
                f"{bench.parent}: results.bin is truncated: is the disk full?"
            ) from None
        raise Mismatch(
            f"{bench.parent.name}: {job.rows} results were expected, fewer came"
        ) from None
    expected = _words(results(config, job.sums, "ok"), hw.result_layout(config).size)
    if found != expected:
        size = len(expected) // job.rows
        parts = (slice(k * size, (k + 1) * size) for k in range(job.rows))
        wrong = next(k for k, part in enumerate(parts) if found[part] != expected[part])
        raise Mismatch(f"row {wrong} of {job.rows} x {job.columns} is not the model's")
    return int(lines[0])
