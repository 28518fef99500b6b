"""Cycles of a whole matrix-vector product, of the emitted Verilog under Verilator."""

import subprocess
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import numpy as np

from seedbed.hw import seedlm_gemv as hw
from seedbed.sim import tools, verilate
from seedbed.sim.cases.seedlm_gemv import Job, command, results, vector_payloads
from seedbed.sim.harness import Mismatch
from seedbed.spec import SeedlmGemvConfig

__all__ = ["executable", "run"]

#: Feeds files to the core: a hundred thousand beats, so no Python in the loop.
MAIN = Path(__file__).with_suffix(".cpp")
_FLAGS = ["-CFLAGS", "-std=c++17 -O1 -I."]


def executable(verilog: Path, top: str, *, build: Path) -> Path:
    """Build ``top`` of ``verilog``, with packed payloads, with the bench; return the executable.

    There is one folder below ``build`` for each text of the Verilog and the bench; what is there
    already is not built again. Raises ``RuntimeError`` with the last lines of a failing build.
    """
    texts = [path.read_text() for path in (verilog, MAIN, verilate.STREAMS)]
    texts.append(tools.version("VERILATOR"))
    folder = build.resolve() / f"{top}-{sha256(chr(10).join(texts).encode()).hexdigest()[:16]}"

    def make(scratch: Path) -> None:
        verilate.build(
            scratch, "--top-module", top, "-o", "bench", verilog.resolve(), MAIN.resolve(),
            flags=_FLAGS,
        )  # fmt: skip

    return verilate.built(folder, "bench", make)


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


def run(bench: Path, config: SeedlmGemvConfig, job: Job) -> int:
    """Stream ``job`` through the core, with no port waiting, and return its cycles.

    They count from the first beat of weights that is taken to the last result, both included.
    Raises :class:`Mismatch` if a result is not the model's, bit for bit, or does not come.
    """
    folder = bench.parent
    start = command(config, job.columns, job.rows, plain=job.plain)
    vector = _words(vector_payloads(config, job), hw.vector_layout(config).size)
    (folder / "command.bin").write_bytes(_words([start], hw.command_layout(config).size))
    (folder / "vector.bin").write_bytes(vector)
    (folder / "weights.bin").write_bytes(_beats(job))
    files = ["command.bin", "vector.bin", "weights.bin", str(job.rows), "results.bin"]
    done = subprocess.run(
        [bench.resolve(), *files], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode == 4:
        raise RuntimeError(f"{folder / 'results.bin'} is truncated: is the disk full?")
    if done.returncode:
        raise Mismatch(f"{bench.parent.name}: not all of {job.rows} results came")
    wanted = _words(results(config, job.sums, "ok"), hw.result_layout(config).size)
    found = (folder / "results.bin").read_bytes()
    if found != wanted:
        size = len(wanted) // job.rows
        wrong = next(
            k for k in range(job.rows)
            if found[k * size : (k + 1) * size] != wanted[k * size : (k + 1) * size]
        )  # fmt: skip
        raise Mismatch(f"row {wrong} of {job.rows} x {job.columns} is not the model's")
    return int(done.stdout)
