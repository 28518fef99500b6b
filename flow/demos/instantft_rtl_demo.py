"""The demonstration of the fine-tuning core: the whole job, its cycles, and the report's rows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from seedbed.flow import paper, registry
from seedbed.flow.demos.instantft_rtl import measure, require, row_figures
from seedbed.flow.emit import verilog
from seedbed.flow.files import write_atomic
from seedbed.flow.progress import Bar
from seedbed.flow.report import jobs
from seedbed.flow.row import Row, load_rows

__all__ = ["clocks", "rows", "run_rtl"]

CORE = "instantft"
#: The phases of a job, and what happens in each.
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
    """Emit the core, run the whole job on it, and write ``out/instantft_rtl.json``.

    Parameters
    ----------
    out
        Made if needed; the pre-trained network is kept in its ``instantft_cache``.
    build
        Folder of the Verilog, the executable and kept results.
    console
        Takes the tables, while standard error shows the progress; ``None`` shows nothing.

    The other parameters, and what is raised, are those of
    :func:`~seedbed.flow.demos.instantft_rtl.measure`. Returns what the JSON holds.
    """
    core, params = registry.find(CORE), {"lanes": lanes}
    config = core.configure(params)
    require(config, images=images, epochs=epochs, angle=angle, seed=seed)
    with Bar(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        console=None if console is None else Console(stderr=True),
    ) as progress:  # fmt: skip
        line = progress.add_task(f"emitting {CORE}, {lanes} lanes", total=1)
        path = verilog.write(core, params, build / "emitted" / f"{CORE}-{lanes}-lanes")
        found = measure(
            path, config, data, build=build, folder=out / "instantft_cache", images=images,
            epochs=epochs, angle=angle, seed=seed, stalls=stalls,
            tell=lambda what, share: progress.update(line, description=what, completed=share),
        )  # fmt: skip
    options = {"images": images, "epochs": epochs, "angle": f"{angle:g}", "lanes": lanes}
    words = [f"--{name} {value}" for name, value in (options | {"seed": seed}).items()]
    words += ["--stalls"] * stalls + ["--data DIR"] * (data is not None)
    result = {
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
    """Return the median Fmax in MHz by target, as far as LeNet-5's core was placed and routed."""
    plan = jobs.plan(build, kinds={"place"}, cores={CORE})
    rows = jobs.cached([job for job in plan if job.params in ({}, {"lanes": lanes})])
    return {
        str(row.target): row.figures["fmax_mhz"] for row in rows if row.params["lanes"] == lanes
    }


def show(result: Mapping[str, Any], console: Console) -> None:
    """Print the job's cycles by phase, and what came of it."""
    tuned, epochs = result["tuned"], result["epochs"]
    table = Table(
        "phase", "cycles", "samples", "a sample",
        title=f"{tuned:,} images, {epochs} epochs, {result['lanes']} lanes", title_justify="left",
    )  # fmt: skip
    samples = {"fill": tuned, "cached": tuned * (epochs - 1)}
    for phase, what in PHASES.items():
        cycles, count = result["cycles"][phase], samples.get(phase)
        each = (f"{count:,}", f"{cycles / count:,.1f}") if count else ("", "")
        table.add_row(what, f"{cycles:,}", *each)
    table.add_row("the whole job", f"{result['job_cycles']:,}", "", "")
    console.print(table)
    console.print(
        "Every batch's losses, every class, the counters and the adapters are the model's, bit for "
        f"bit.\nSimulated at {result['cycles_per_second']:,.0f} cycles a second, seed "
        f"{result['seed']}.\nAccuracy on {result['held']:,} held-out images of {result['data']}, "
        f"turned by {result['angle']:g} degrees: {result['before_held']:.1f} % before, "
        f"{result['after_held']:.1f} % after; on those tuned on {result['before_tuned']:.1f} and "
        f"{result['after_tuned']:.1f} %."
    )
    for target, mhz in result["clocks"].items():
        console.print(
            f"At the {mhz:.1f} MHz of place and route on {target}, these cycles are "
            f"{result['job_cycles'] / mhz / 1e3:,.1f} ms, with a memory like the simulated one."
        )
    if not result["clocks"]:
        console.print(
            "For milliseconds, place and route the core: "
            f"seedbed measure --kind place --core {CORE}"
        )


def rows(folder: Path) -> list[Row]:
    """Return the report's row of the paper's job on MNIST, if it is kept below ``folder``.

    The same job on the digits is among what is measured.
    """
    return load_rows(folder.glob("mnist/instantft_rtl.json"), _rows)


def _rows(result: dict[str, Any]) -> list[Row]:
    if (result["tuned"], result["epochs"], result["stalls"]) != (1024, 10, False):
        return []
    params = {name: result[name] for name in ("lanes", "data", "seed")}
    return [
        Row(
            core=CORE,
            config=f"LeNet-5, {result['lanes']} lanes, {result['data']}",
            kind="job",
            params=params,
            figures=row_figures(result),
            seeds=[result["seed"]],
            tools=result["tools"],
            command=result["command"],
            paper=paper.reference(CORE, params, "job", None),
            aim=paper.aims(CORE, params, "job", None),
        )
    ]
