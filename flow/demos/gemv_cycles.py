"""Cycles of the paper's matrix-vector products, with compressed and uncompressed weights."""

from pathlib import Path
from typing import Any

import numpy as np

from seedbed.sim import gemv_cycles
from seedbed.sim.cases.gemv import Job
from seedbed.spec import GemvConfig

__all__ = ["SIDES", "measure"]

#: Sides of the square matrices of Table 5.
SIDES = (512, 1024, 2048)


def measure(
    verilog: Path, top: str, config: GemvConfig, *, seed: int, build: Path
) -> dict[str, Any]:
    """Return the cycles of each matrix size, compressed and uncompressed, and the speed-up.

    The cycles count from the first transfer of weights to the last result, both included, in a
    simulation of ``top`` of ``verilog`` without stalls. All results are compared with the model.
    Raises :class:`~seedbed.sim.harness.Mismatch` if one differs, and ``RuntimeError`` if the
    Verilog does not build.
    """
    bench = gemv_cycles.executable(verilog, top, build=build)
    rng = np.random.default_rng(seed)
    figures: dict[str, Any] = {}
    for side in SIDES:
        for name, plain in (("cycles", False), ("plain_cycles", True)):
            job = Job.random(config, rng, rows=side, columns=side, plain=plain)
            figures[f"{name}_{side}"] = gemv_cycles.run(bench, config, job)
        figures[f"speed_up_{side}"] = figures[f"plain_cycles_{side}"] / figures[f"cycles_{side}"]
    return figures
