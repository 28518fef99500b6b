"""Scripts of steps on the streams of emitted Verilog, run by a testbench in C++."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from amaranth.hdl import Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim import child
from seedbed.sim.harness import Mismatch, stream_ports
from seedbed.sim.ports import packed
from seedbed.sim.verilog import cpp_bench
from seedbed.spec import ForwardCacheConfig

__all__ = ["executable", "run", "step"]

#: Runs the steps; its first lines define them.
MAIN = Path(__file__).with_suffix(".cpp")


def step(word: str, port: str = "", payloads: Iterable[int] = ()) -> str:
    """Return a step of a script as a line, with payloads in hexadecimal."""
    return " ".join([word, port, *(f"{payload:x}" for payload in payloads)])


def _ports(signature: wiring.Signature, memory: ForwardCacheConfig | None) -> str:
    names = dict(stream_ports(signature))
    command = signature.members["o_command"].signature if memory else None
    address = Shape.cast(command.members["payload"].shape["address"].shape).width if command else 1
    lines = [
        f"#define BEAT_BITS {memory.beat_bits if memory else 32}",
        f"#define ADDRESS_BITS {address}",
    ]
    for side, flow in (("INPUTS", True), ("OUTPUTS", False)):
        ports = " ".join(f"P({name})" for name, way in names.items() if (way is In) == flow)
        lines.append(f"#define {side}(P) {ports}")
    return "\n".join(lines) + "\n"


def executable(
    verilog: Path,
    top: str,
    signature: wiring.Signature,
    *,
    build: Path,
    memory: ForwardCacheConfig | None = None,
) -> Path:
    """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`.

    Parameters
    ----------
    verilog, top
        The file, and the name of its module.
    signature
        The component's; its streams are the testbench's ports.
    memory
        The configuration of a core with the memory ports of the forward cache.
    """
    return cpp_bench.executable(
        MAIN,
        verilog,
        f"{top}_packed",
        build=build,
        flags=cpp_bench.OPTIMISED,
        files={"ports.h": _ports(signature, memory), "packed.v": packed(top, signature)},
    )


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
