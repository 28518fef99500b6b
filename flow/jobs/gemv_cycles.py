"""Cycles of the paper's matrix-vector products, with compressed and uncompressed weights."""

from pathlib import Path
from typing import Any

import numpy as np

from seedbed.sim.cases.gemv import Job
from seedbed.sim.cases.sparse_mac import Matrix
from seedbed.sim.jobs import gemv_cycles
from seedbed.spec import GemvConfig

__all__ = ["SIDES", "measure"]

#: Sides of the square matrices of Table 5.
SIDES = (512, 1024, 2048)
#: Shares of the weights that a side path has entries for.
KEPT = {"tenth_percent_cycles": 0.001, "one_percent_cycles": 0.01}


def measure(
    verilog: Path, top: str, config: GemvConfig, *, seed: int, build: Path
) -> dict[str, Any]:
    """Return the cycles of each matrix size, compressed and uncompressed, and the speed-up.

    Of a core that does not take both kinds of weights there is no speed-up. With a side path whose
    entries are streamed there are also the cycles with shares of the weights kept.

    The cycles count from the first transfer of weights to the last result, both included, in a
    simulation of ``top`` of ``verilog`` without stalls. All results are compared with the model.
    Raises :class:`~seedbed.sim.harness.Mismatch` if one differs, and ``RuntimeError`` if the
    Verilog does not build.
    """
    side_path = config.sparse is not None
    bench = gemv_cycles.executable(verilog, top, config, build=build)
    rng = np.random.default_rng(seed)
    figures: dict[str, Any] = {}
    for side in SIDES:
        jobs = {"cycles": False}
        if config.decode == "seedlm" and not side_path:
            jobs["plain_cycles"] = True
        for name, plain in jobs.items():
            job = Job.random(config, rng, rows=side, columns=side, plain=plain)
            figures[f"{name}_{side}"] = gemv_cycles.run(bench, config, job)
        if len(jobs) == 2:
            speed_up = figures[f"plain_cycles_{side}"] / figures[f"cycles_{side}"]
            figures[f"speed_up_{side}"] = speed_up
        for name, share in KEPT.items() if config.sparse and not config.entries else ():
            assert config.sparse
            count = round(share * side**2)
            matrix = Matrix.random(config.sparse, rng, rows=side, columns=side, count=count)
            figures[f"{name}_{side}"] = gemv_cycles.run(bench, config, job, matrix)
    return figures
