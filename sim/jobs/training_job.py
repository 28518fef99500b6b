"""Jobs of a trainer on its emitted Verilog: the testbench in C++, its words, and what comes back.

A job has phases, one after the other. In each, inputs are given payloads, and so many payloads come
from outputs. A memory that the trainer reads is played by the testbench. Enables that are visible
in the Verilog are counted by row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from seedbed.sim.harness import Mismatch, stream_ports
from seedbed.sim.payloads import unpack
from seedbed.sim.ports import packed
from seedbed.sim.verilog import cpp_bench

__all__ = ["MAIN", "Bench", "Phase", "Probes", "words"]

#: Feeds the core, plays its memory, and counts: some million cycles, so no Python in the loop.
MAIN = Path(__file__).with_suffix(".cpp")
#: Streams that the memory drives.
MEMORY = ("o_command", "i_read")

#: Payloads as words for inputs, and how many come from outputs.
Given = tuple[dict[str, np.ndarray], dict[str, int]]


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

    signals: Sequence[tuple[str, str]]
    rows: int
    visible: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Phase:
    """Cycles, beats of memory, payloads by output after their cycles, and counts by probe."""

    cycles: int
    beats: int
    found: dict[str, np.ndarray]
    layouts: dict[str, data.StructLayout]
    counts: np.ndarray

    def field(self, port: str, name: str) -> np.ndarray:
        """Return a field of all payloads of an output."""
        return unpack(self.layouts[port], self.found[port][:, 1:], name)[:, 0]


def words(payloads: Sequence[int], bits: int) -> np.ndarray:
    """Return payloads of so many bits as whole words, the low one first: (count, words)."""
    size = -(-bits // 32) * 4
    raw = b"".join(payload.to_bytes(size, "little") for payload in payloads)
    return np.frombuffer(raw, "<u4").reshape(len(payloads), -1)


class Bench:
    """The testbench of a core.

    The job's words: seed and pauses; with a memory, its latencies and gaps, its size, and its
    contents; phases; then for each phase and input, how many payloads and their words, and for each
    output, how many payloads. The results' words: for each phase its cycles and its beats of
    memory; for each output, how many payloads, and cycle and words of each; for each probe, a count
    for each row.

    Parameters
    ----------
    core
        The component.
    probes
        What is counted.
    memory
        BEAT_BITS, ADDRESS_BITS, and PAGE beats at whose multiples a burst ends; empty if there is
        no memory.
    """

    def __init__(
        self, core: wiring.Component, probes: Probes, memory: Mapping[str, int] | None = None
    ):
        self.core, self.probes, self.memory = core, probes, memory or {}
        ways = {name: way for name, way in stream_ports(core.signature) if name not in MEMORY}
        self.inputs = [name for name, way in ways.items() if way is In]
        self.outputs = [name for name in ways if name not in self.inputs]
        self.layouts = {name: getattr(core, name).payload.shape() for name in ways}

    def executable(self, verilog: Path, top: str, *, build: Path) -> Path:
        """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
        sides = {
            "INPUTS": [f"P({name})" for name in self.inputs],
            "OUTPUTS": [f"P({name})" for name in self.outputs],
            "PROBES": [f"P({enable}, {row})" for enable, row in self.probes.signals],
        }
        lines = [f"#define {side}(P) {' '.join(calls)}" for side, calls in sides.items()]
        numbers = {"ROWS": self.probes.rows, **self.memory}
        lines += [f"#define {name} {value}" for name, value in numbers.items()]
        visible = [
            f'public_flat_rd -module "{module}" -var "{name}"'
            for module, name in self.probes.visible
        ]
        files = {
            "ports.h": "\n".join([*lines, ""]),
            "packed.v": packed(top, self.core.signature),
            "visible.vlt": "\n".join(["`verilator_config", *visible, ""]),
        }
        return cpp_bench.executable(
            MAIN, verilog, f"{top}_packed", build=build, flags=cpp_bench.OPTIMISED, files=files
        )

    def given(self, port: str, payloads: Sequence[int]) -> np.ndarray:
        """Return the words of payloads of a port."""
        return words(payloads, self.layouts[port].size)

    def text(self, head: Sequence[int] | np.ndarray, phases: Mapping[str, Given]) -> bytes:
        """Return the job; ``head`` is what comes before the phases."""
        parts: list[np.ndarray | Sequence[int]] = [head, [len(phases)]]
        for given, wanted in phases.values():
            for name in self.inputs:
                payloads = given.get(name, np.zeros((0, 1), "<u4"))
                parts += [[len(payloads)], payloads.ravel()]
            parts.append([wanted.get(name, 0) for name in self.outputs])
        return np.concatenate([np.asarray(part, "<u4") for part in parts]).tobytes()

    def results(self, raw: bytes, phases: int) -> Iterator[Phase]:
        """Yield the results of each phase."""
        numbers, at = np.frombuffer(raw, "<u4"), 0

        def take(rows: int, columns: int) -> np.ndarray:
            nonlocal at
            at += rows * columns
            return numbers[at - rows * columns : at].reshape(rows, columns)

        for _ in range(phases):
            cycles, beats = map(int, take(1, 2)[0])
            found = {}
            for name in self.outputs:
                count = int(take(1, 1)[0, 0])
                found[name] = take(count, 1 + -(-self.layouts[name].size // 32))
            counts = take(len(self.probes.signals), self.probes.rows)
            yield Phase(cycles, beats, found, self.layouts, counts)

    def run(
        self,
        bench: Path,
        head: Sequence[int] | np.ndarray,
        phases: Mapping[str, Given],
        *,
        cycles: int,
        progress: Callable[[float], None],
    ) -> tuple[dict[str, Phase], float]:
        """Run a job; return the phases' results, and the seconds of the simulation.

        ``progress`` is called with the share of ``cycles`` that is done, a few times a second.
        Raises :class:`~seedbed.sim.harness.Mismatch` where nothing is transferred for long, or more
        comes than is expected. An interruption ends the simulation too.
        """
        began = perf_counter()
        try:
            _, raw = cpp_bench.run(
                bench, "job.bin", "results.bin", output="results.bin",
                files={"job.bin": self.text(head, phases)},
                progress=lambda line: progress(min(int(line) / cycles, 1)),
            )  # fmt: skip
        except cpp_bench.BenchFailed as failure:
            raise Mismatch(
                f"the simulation ended with {failure.status}: {failure.message}"
            ) from None
        seconds = perf_counter() - began
        return dict(zip(phases, self.results(raw, len(phases)), strict=True)), seconds
