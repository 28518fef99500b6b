"""Scripts of steps on the streams of emitted Verilog, in Verilator with no Python in the loop."""

import subprocess
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from amaranth.hdl import Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim import tools, verilate
from seedbed.sim.harness import Mismatch, stream_ports
from seedbed.sim.ports import packed
from seedbed.spec import ForwardCacheConfig

__all__ = ["executable", "run", "step"]

#: Runs the steps; it says what each is.
MAIN = Path(__file__).with_suffix(".cpp")
_FLAGS = ["-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"]
_FLAGS += ["-CFLAGS", "-std=c++17 -O1 -I."]


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
    """Build the core in ``verilog`` with the bench; return the executable.

    There is one folder below ``build`` for each text of the Verilog and the bench; what is there
    already is not built again. Raises ``RuntimeError`` with the last lines of a failing build.

    Parameters
    ----------
    verilog, top
        The file, and the name of its module.
    signature
        Of what was emitted; its streams are the bench's ports.
    memory
        The configuration of a core with the ports of the forward cache to a memory.
    """
    ports = _ports(signature, memory)
    wires = packed(top, signature)
    texts = [verilog.read_text(), wires, MAIN.read_text(), verilate.STREAMS.read_text(), ports]
    texts += [tools.version("VERILATOR"), tools.version("CXX"), *_FLAGS]
    folder = build.resolve() / f"{top}-{sha256(''.join(texts).encode()).hexdigest()[:16]}"

    def make(scratch: Path) -> None:
        (scratch / "ports.h").write_text(ports)
        (scratch / "packed.v").write_text(wires)
        verilate.build(
            scratch, "--top-module", f"{top}_packed", "-o", "bench",
            verilog.resolve(), scratch / "packed.v", MAIN.resolve(), flags=_FLAGS,
        )  # fmt: skip

    return verilate.built(folder, "bench", make)


def run(bench: Path, steps: Iterable[str], *, seed: int) -> int:
    """Run a script from power-up; return the cycles that it took.

    ``seed`` is that of the pauses, which every port makes, and of the memory's latencies. Raises
    :class:`Mismatch` with the line of the script that did not go as it says.
    """
    with TemporaryDirectory(dir=bench.parent, prefix="script-") as name:
        script = Path(name) / "script.txt"
        script.write_text("\n".join(steps) + "\n")
        done = subprocess.run(
            [bench, script, str(seed)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise Mismatch(f"{done.stderr.strip()} (status {done.returncode}, seed {seed})")
    return int(done.stdout)
