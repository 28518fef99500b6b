"""Runs of a core's case on its emitted Verilog, in Icarus Verilog."""

from pathlib import Path
from random import Random
from typing import Any

from seedbed.flow.cores.core import Core
from seedbed.sim.verilog import verilog_bench

__all__ = ["run"]


def run(
    verilog: Path, core: Core, config: Any, folder: Path, *, generation: str, reset: bool
) -> int:
    """Run the case in ``folder``; return the cycles.

    With a reset at the start, others come in between, and payloads are unknown where nothing is
    valid. ``generation`` is one of :data:`~seedbed.sim.verilog.verilog_bench.GENERATIONS`. Raises
    :class:`seedbed.sim.harness.Mismatch` for a wrong output, and ``RuntimeError`` for a run that
    is shorter than its outputs.
    """
    # The simulator runs in the folder of the vectors.
    folder = folder.resolve()
    seed = int(generation) + reset
    case = core.case(config, Random(seed))
    bench = verilog_bench.write(folder, core.name, case, core.signature(config))
    command = verilog_bench.icarus(bench, [verilog.resolve()], generation=generation)
    settings = {"reset": int(reset), "unknown": int(reset), "cycles": 500 * reset, "seed": seed}
    cycles = verilog_bench.run(command, folder, **settings)
    least = max(len(sent) for phase in case.phases for sent in phase.outputs.values())
    if cycles <= least:
        raise RuntimeError(f"{cycles} cycles are too few for {least} beats of {core.name}")
    return cycles
