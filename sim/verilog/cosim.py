# amaranth: UnusedElaboratable=no
"""An emitted core as a process under Verilator, which Python feeds while it runs.

For computations whose next inputs depend on the outputs so far. A request holds the payloads for
all inputs and how many the outputs are to give; the core runs until all of them are transferred.
"""

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim.child import child
from seedbed.sim.harness import Mismatch, payload_bits, stream_ports
from seedbed.sim.ports import packed
from seedbed.sim.verilog import cpp_bench

__all__ = ["MAIN", "Cosim", "executable"]

MAIN = Path(__file__).with_suffix(".cpp")
#: Kinds of requests.
_STORE, _RUN = 0, 1


def executable(verilog: Path, top: str, signature: wiring.Signature, *, build: Path) -> Path:
    """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
    ways = list(stream_ports(signature))
    sides = {
        "INPUTS": [f"P({name})" for name, way in ways if way is In],
        "OUTPUTS": [f"P({name})" for name, way in ways if way is not In],
    }
    header = "".join(f"#define {side}(P) {' '.join(calls)}\n" for side, calls in sides.items())
    files = {"ports.h": header, "packed.v": packed(top, signature)}
    return cpp_bench.executable(
        MAIN, verilog, f"{top}_packed", build=build, flags=cpp_bench.OPTIMISED, files=files
    )


class Cosim:
    """The process; a context manager, at whose end it ends.

    Parameters
    ----------
    bench
        What :func:`executable` built.
    core
        The component, for its streams.
    seed, pauses
        Of 16 cycles, in ``pauses`` every port pauses, at random; 0 is as fast as the core is.
    """

    def __init__(self, bench: Path, core: wiring.Component, *, seed: int = 0, pauses: int = 0):
        ways = list(stream_ports(core.signature))
        self.inputs = [name for name, way in ways if way is In]
        self.outputs = [name for name, way in ways if way is not In]
        bits = {name: payload_bits(core.signature, name) for name, _ in ways}
        self._words = {name: -(-count // 32) for name, count in bits.items()}
        self._stored = 0
        self._stack = ExitStack()
        self._process = self._stack.enter_context(
            child(
                [bench.resolve(), str(seed), str(pauses)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip

    def __enter__(self) -> "Cosim":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.close()

    def store(self, payloads: np.ndarray) -> int:
        """Store payloads, uint32 (count, words), for any input; return their number, from 1."""
        self._send([np.array([_STORE]), payloads.ravel()])
        self._stored += 1
        return self._stored

    def run(
        self, inputs: Mapping[str, np.ndarray | tuple[int, int]], outputs: Mapping[str, int]
    ) -> tuple[int, dict[str, np.ndarray]]:
        """Run until all payloads are transferred; return the cycles, and each output's payloads.

        Parameters
        ----------
        inputs
            Of each input, payloads as uint32 (count, words), or stored ones by their number and how
            many are sent, the first one again after the last one. Without: none.
        outputs
            How many payloads each output gives. Without: none.

        Raises :class:`Mismatch` where nothing is transferred for long, and for an output that gives
        more.
        """
        parts = [np.array([_RUN])]
        for name in self.inputs:
            given = inputs.get(name, (0, 0))
            if isinstance(given, tuple):
                parts.append(np.array(given))
            else:
                parts += [np.array([0, len(given)]), given.ravel()]
        parts.append(np.array([outputs.get(name, 0) for name in self.outputs]))
        self._send(parts)
        low, high = self._receive(2)
        found = {}
        for name in self.outputs:
            count, words = outputs.get(name, 0), self._words[name]
            found[name] = self._receive(count * words).reshape(count, words)
        return int(low) | int(high) << 32, found

    def _send(self, parts: list[np.ndarray]) -> None:
        words = np.concatenate([part.astype("<u4") for part in parts])
        assert self._process.stdin
        try:
            self._process.stdin.write(np.array([len(words)], "<u4").tobytes() + words.tobytes())
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()

    def _receive(self, count: int) -> np.ndarray:
        assert self._process.stdout
        raw = self._process.stdout.read(4 * count)
        if len(raw) < 4 * count:
            self._fail()
        return np.frombuffer(raw, "<u4")

    def _fail(self) -> None:
        assert self._process.stderr
        message = self._process.stderr.read().decode().strip()
        raise Mismatch(f"the simulation ended with {self._process.wait()}: {message}")
