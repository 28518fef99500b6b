"""Scripts of steps on the streams of emitted Verilog, run by a testbench in C++."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from amaranth.lib import wiring

from seedbed.sim import child
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog.cosim import Bench

__all__ = ["executable", "run", "step"]

#: Runs the steps; its first lines define them.
MAIN = Path(__file__).with_suffix(".cpp")


def step(word: str, port: str = "", payloads: Iterable[int] = ()) -> str:
    """Return a step of a script as a line, with payloads in hexadecimal."""
    return " ".join([word, port, *(f"{payload:x}" for payload in payloads)])


def executable(verilog: Path, top: str, signature: wiring.Signature, *, build: Path) -> Path:
    """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`.

    The streams of ``signature``, the component's, are the testbench's ports.
    """
    return Bench(signature).executable(verilog, top, build=build, main=MAIN)


def run(bench: Path, steps: Iterable[str], *, seed: int) -> int:
    """Run a script from power-up; return its cycles.

    ``seed`` is that of the pauses of every port, and of the memory's latencies. Raises
    :class:`Mismatch` with the line of the script that failed.
    """
    with TemporaryDirectory(dir=bench.parent, prefix="run-") as name:
        Path(name, "script.txt").write_text("\n".join(steps) + "\n")
        command: list[str | Path] = [bench.resolve(), "script.txt", str(seed)]
        done = child.run(command, cwd=name, stderr=subprocess.PIPE)
    if done.returncode:
        message = done.stderr.strip()
        raise Mismatch(f"{message} (status {done.returncode}, seed {seed})")
    return int(done.stdout)
