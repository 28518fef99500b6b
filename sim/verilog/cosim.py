"""An emitted core as a process under Verilator, which runs jobs act by act.

The next act may depend on what came of the ones before. A memory that the core has is modelled by
the process. Enables that are visible in the Verilog are counted by row.
"""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType

import numpy as np
from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.sim.child import child
from seedbed.sim.harness import Mismatch, stream_ports
from seedbed.sim.job import Act, Memory, Result
from seedbed.sim.ports import packed
from seedbed.sim.verilog import cpp_bench

__all__ = ["MAIN", "Bench", "Cosim", "Probes"]

MAIN = Path(__file__).with_suffix(".cpp")
#: Kinds of requests and of answers.
_STORE, _FILL, _RUN = range(3)
_PROGRESS, _DONE = range(2)
#: Streams of a memory.
_MEMORY = ("o_command", "o_write", "i_response", "i_read")


@dataclass(frozen=True, kw_only=True)
class Probes:
    """What is counted.

    Parameters
    ----------
    signals
        Enable and row of each, in C++.
    rows
        All rows are fewer.
    visible
        Module and name of each signal that must stay in the Verilog.
    """

    signals: Sequence[tuple[str, str]] = ()
    rows: int = 1
    visible: Sequence[tuple[str, str]] = ()


class Bench:
    """The testbench of a core: its streams, its memory, and what is counted.

    Parameters
    ----------
    signature
        The component's.
    probes
        What is counted.
    page
        The memory's bursts end at multiples of so many beats.
    draws
        The ports in the order in which they are given their generators of pauses, and
        ``latencies`` for that of the memory; by default it comes after the ports of acts.
    """

    def __init__(
        self, signature: wiring.Signature, *, probes: Probes = Probes(), page: int = 1,
        draws: Sequence[str] = (),
    ):  # fmt: skip
        self.signature, self.probes, self.page = signature, probes, page
        ways = dict(stream_ports(signature))
        self.memory = [name for name in _MEMORY if name in ways]
        own = [name for name in ways if name not in self.memory]
        self.inputs = [name for name in own if ways[name] is In]
        self.outputs = [name for name in own if ways[name] is Out]
        members = {name: signature.members[name].signature.members for name in ways}
        self.layouts = {name: each["payload"].shape for name, each in members.items()}
        self.values = {
            name: member.shape
            for name, member in signature.members.items()
            if not member.is_signature and member.flow is Out
        }
        self._draws = list(draws) or [*self.inputs, *self.outputs, "latencies", *self.memory]

    def words(self, port: str) -> int:
        """Return the words of a port's payload."""
        return _words(self.layouts[port])

    def executable(self, verilog: Path, top: str, *, build: Path, main: Path = MAIN) -> Path:
        """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
        visible = [
            f'public_flat_rd -module "{module}" -var "{name}"'
            for module, name in self.probes.visible
        ]
        files = {
            "ports.h": self.header(),
            "packed.v": packed(top, self.signature),
            "visible.vlt": "\n".join(["`verilator_config", *visible, ""]),
        }
        return cpp_bench.executable(
            main, verilog, f"{top}_packed", build=build, flags=cpp_bench.OPTIMISED, files=files
        )

    def header(self) -> str:
        """Return what the testbench in C++ includes."""
        command, beat = (self.layouts.get(name) for name in ("o_command", "i_read"))
        numbers = {
            "ROWS": self.probes.rows,
            "PAGE": self.page,
            "BEAT_BITS": beat["data"].width if isinstance(beat, data.StructLayout) else 32,
            "ADDRESS_BITS": command["write"].offset
            if isinstance(command, data.StructLayout)
            else 1,
            "LATENCIES": self._draws.index("latencies") + 1,
        }
        sides = {"INPUTS": self.inputs, "OUTPUTS": self.outputs, "MEMORY": self.memory}
        calls = {
            side: [
                f"P({name}, {self._draws.index(name) + 1}, {self._last(name)})" for name in names
            ]
            for side, names in sides.items()
        }
        calls["VALUES"] = [f"P({name})" for name in self.values]
        calls["PROBES"] = [f"P({enable}, {row})" for enable, row in self.probes.signals]
        lines = [f"#define {side}(P) {' '.join(each)}" for side, each in calls.items()]
        lines += [f"#define {name} {value}" for name, value in numbers.items()]
        return "\n".join([*lines, ""])

    def _last(self, port: str) -> int:
        """Return the place of ``last`` in a payload, or -1."""
        layout = self.layouts[port]
        if not isinstance(layout, data.StructLayout) or "last" not in layout.members:
            return -1
        return int(layout["last"].offset)


def _words(shape: ShapeLike) -> int:
    return -(-Shape.cast(shape).width // 32)


class Cosim:
    """The process; a context manager, at whose end it ends.

    Parameters
    ----------
    executable, bench
        What :meth:`Bench.executable` built, and the testbench.
    seed, pauses
        Of 16 cycles, in ``pauses`` every port pauses, at random; 0 is as fast as the core is.
    """

    def __init__(self, executable: Path, bench: Bench, *, seed: int = 0, pauses: int = 0):
        self.bench = bench
        self._stored = 0
        self._stack = ExitStack()
        self._process = self._stack.enter_context(
            child(
                [executable.resolve(), str(seed), str(pauses)],
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
        self._send([_STORE], payloads)
        self._stored += 1
        return self._stored

    def fill(self, memory: Memory, size: int, contents: np.ndarray | Sequence[int] = ()) -> None:
        """Set how a memory of ``size`` beats behaves, and what the first ones are; others are 0."""
        fault = 0xFFFFFFFF if memory.fault is None else memory.fault
        self._send([_FILL, *memory.latency, memory.gaps, fault, size], contents)

    def run(
        self, act: Act, *, settle: int = 0, progress: Callable[[int], object] = lambda results: None
    ) -> Result:
        """Run an act until it ends; return what came of it.

        Parameters
        ----------
        act
            The act.
        settle
            Cycles after it, which do not count, in which no output is ready.
        progress
            Called with the results of the first output so far, of all acts, a few times a second.

        Raises :class:`Mismatch` where nothing is transferred for long, for an output that gives
        more than is expected or breaks a rule of streams, and for bursts that the memory lacks.
        """
        ends = self.bench.outputs.index(act.ends) + 1 if act.ends else 0
        parts: list[Sequence[int] | np.ndarray] = [[_RUN, settle, ends]]
        for name in self.bench.inputs:
            given = act.inputs.get(name, (0, 0))
            parts += [given] if isinstance(given, tuple) else [[0, len(given)], given]
        counts = {name: len(payloads) for name, payloads in act.outputs.items()} | dict(act.counts)
        parts.append([counts.get(name, 0) for name in self.bench.outputs])
        self._send(*parts)
        while self._receive(1)[0] == _PROGRESS:
            progress(int(self._receive(1)[0]))
        return self._result()

    def run_all(
        self, acts: Sequence[Act], *, settle: int = 0,
        progress: Callable[[int], object] = lambda results: None,
    ) -> tuple[dict[str, Result], float]:  # fmt: skip
        """Run acts one after the other, as :meth:`run`; return the results, and the seconds."""
        began = perf_counter()
        found = {act.name: self.run(act, settle=settle, progress=progress) for act in acts}
        return found, perf_counter() - began

    def _result(self) -> Result:
        bench, probes = self.bench, self.bench.probes
        low, high, beats = map(int, self._receive(3))
        first = dict(zip(bench.inputs, self._receive(len(bench.inputs)).tolist(), strict=True))
        came = {}
        for name in bench.outputs:
            count, size = int(self._receive(1)[0]), 1 + bench.words(name)
            came[name] = self._receive(count * size).reshape(count, size)
        values = {name: self._receive(_words(shape)) for name, shape in bench.values.items()}
        counts = self._receive(len(probes.signals) * probes.rows).reshape(-1, probes.rows)
        return Result(
            cycles=low | high << 32, beats=beats, first=first,
            when={name: found[:, 0] for name, found in came.items()},
            payloads={name: found[:, 1:] for name, found in came.items()},
            layouts=bench.layouts, values=values, counts=counts,
        )  # fmt: skip

    def _send(self, *parts: np.ndarray | Sequence[int]) -> None:
        words = np.concatenate([np.asarray(part, "<u4").ravel() for part in parts])
        assert self._process.stdin
        try:
            self._process.stdin.write(np.array([len(words)], "<u4").tobytes())
            self._process.stdin.write(words.tobytes())
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
