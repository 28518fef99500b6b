"""Demonstration of the fine-tuning core: the complete job, its cycles, and report rows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.emit.netlist import netlist
from seedbed.flow.jobs.instantft_rtl import measure, row_figures
from seedbed.flow.jobs.instantft_task import require, require_angle
from seedbed.flow.report import jobs
from seedbed.flow.report.row import Row, job_row, load_rows
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.progress import steps_bar

__all__ = ["clocks", "rows", "run_rtl"]

CORE = "instantft"
#: The phases of a job, and their descriptions.
PHASES = {
    "load": "load the network and the adapters",
    "fill": "first epoch: the network runs, the cache fills",
    "cached": "later epochs, from the cache",
    "read": "read the adapters",
}


def run_rtl(
    data: Path | None,
    out: Path,
    *,
    build: Path,
    lanes: int = 32,
    images: int = 1024,
    epochs: int = 10,
    angle: float = 90,
    seed: int = 0,
    stalls: bool = False,
    console: Console | None = None,
) -> dict[str, Any]:
    """Emit the core, run the complete job, and write ``out/instantft_rtl.json``.

    Parameters
    ----------
    out
        Created if needed; its ``instantft_cache`` holds the pre-trained network.
    build
        Folder of the Verilog, the executable and cached results.
    console
        Output of the tables; progress goes to standard error. ``None``: no output.

    The other parameters and the exceptions are those of
    :func:`~seedbed.flow.jobs.instantft_rtl.measure`. Returns the content of the JSON file.
    """
    core, params = registry.find(CORE), {"lanes": lanes}
    config = core.configure(params)
    require(config, images=images, epochs=epochs, seed=seed)
    require_angle(angle)
    shown = None if console is None else Console(stderr=True)
    with steps_bar(shown, f"emitting {CORE}, {lanes} lanes") as progress:
        path = verilog.write(core, params, build / "emitted" / f"{CORE}-{lanes}-lanes")
        found = measure(
            path, config, data, build=build, folder=out / "instantft_cache", images=images,
            epochs=epochs, angle=angle, seed=seed, stalls=stalls,
            progress=progress,
        )  # fmt: skip
    options = {"images": images, "epochs": epochs, "angle": f"{angle:g}", "lanes": lanes}
    words = [f"--{name} {value}" for name, value in (options | {"seed": seed}).items()]
    words += ["--stalls"] * stalls + ["--data DIR"] * (data is not None)
    result = {
        "netlist": netlist(core, params),
        "command": f"seedbed demo instantft --rtl {' '.join(words)}",
        **found,
        "clocks": clocks(build, lanes),
    }
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    write_atomic(out / "instantft_rtl.json", text)
    if console is not None:
        show(result, console)
    return result


def clocks(build: Path, lanes: int) -> dict[str, float]:
    """Return the median Fmax in MHz by target, from cached place and route results."""
    plan = jobs.plan(build, kinds={"place"}, cores={CORE})
    rows = jobs.cached([job for job in plan if job.params in ({}, {"lanes": lanes})])
    return {
        str(row.target): row.figures["fmax_mhz"] for row in rows if row.params["lanes"] == lanes
    }


def show(result: Mapping[str, Any], console: Console) -> None:
    """Print the job's cycles by phase, and accuracies."""
    tuned, epochs = result["tuned"], result["epochs"]
    table = Table(
        "phase", "cycles", "samples", "cycles per sample",
        title=f"{tuned:,} images, {epochs} epochs, {result['lanes']} lanes", title_justify="left",
    )  # fmt: skip
    samples = {"fill": tuned, "cached": tuned * (epochs - 1)}
    for phase, description in PHASES.items():
        cycles, count = result["cycles"][phase], samples.get(phase)
        each = (f"{count:,}", f"{cycles / count:,.1f}") if count else ("", "")
        table.add_row(description, f"{cycles:,}", *each)
    table.add_row("total", f"{result['job_cycles']:,}", "", "")
    console.print(table)
    console.print(
        "Losses of all batches, classes, counters and adapters are bit-exact with the model.\n"
        f"Simulated at {result['cycles_per_second']:,.0f} cycles per second, seed "
        f"{result['seed']}.\nAccuracy on {result['held']:,} held-out images of {result['data']}, "
        f"rotated by {result['angle']:g} degrees: {result['before_held']:.1f} % before, "
        f"{result['after_held']:.1f} % after; on the training images "
        f"{result['before_tuned']:.1f} and {result['after_tuned']:.1f} %."
    )
    for target, mhz in result["clocks"].items():
        console.print(
            f"At {mhz:.1f} MHz (place and route on {target}), the job takes "
            f"{result['job_cycles'] / mhz / 1e3:,.1f} ms, with the simulated memory."
        )
    if not result["clocks"]:
        console.print(
            "For the duration in milliseconds, place and route the core: "
            f"seedbed measure --kind place --core {CORE}"
        )


def rows(folder: Path) -> list[Row]:
    """Return the report row of the paper's job on MNIST, if its result is in ``folder``.

    The same job on the digits is one of the measurements.
    """
    return load_rows(folder.glob("mnist/instantft_rtl.json"), _rows)


def _rows(result: dict[str, Any]) -> list[Row]:
    if (result["tuned"], result["epochs"], result["stalls"]) != (1024, 10, False):
        return []
    return [job_row(CORE, result, row_figures(result))]
