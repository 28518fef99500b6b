"""The zeroth-order fine-tuning demonstration: PeZO's Table 3 and Figures 3 and 4, reduced."""

import json
from dataclasses import asdict, replace
from math import inf, log
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console

from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.mlp_task import SETTINGS, Task, prepare
from seedbed.flow.report import paper
from seedbed.flow.report.row import Row, load_rows
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.pool import run_jobs
from seedbed.studies.zo_job import BACKPROP, Job, Sources
from seedbed.studies.zo_plots import draw, show

__all__ = ["DEFAULTS", "RATES", "SEEDS", "SWEEPS", "rows", "run_zo"]

#: Parameters of each source in the table.
DEFAULTS: dict[str, dict[str, int]] = {
    "gaussian": {},
    "on-the-fly": {"lanes": 31, "width": 14},
    "leap-3": {"lanes": 31, "width": 14},
    "leap-14": {"lanes": 31, "width": 14},
    "lutopt": {"lanes": 31, "width": 14},
    "pre-generated": {"size": 4095},
    "unscaled": {"lanes": 31, "width": 14},
    "rademacher": {},
    BACKPROP: {},
}

#: Sweeps of PeZO's Figures 3 and 4: source, parameter, values. 4 bits have 15 states, and drive 15
#: lanes at most.
SWEEPS: dict[str, tuple[str, str, list[dict[str, int]]]] = {
    "lanes": ("on-the-fly", "lanes", [{"lanes": 2**k - 1, "width": 14} for k in range(2, 7)]),
    "pool": ("pre-generated", "size", [{"size": 2**k - 1} for k in range(8, 17, 2)]),
    "bits": (
        "on-the-fly",
        "width",
        [{"lanes": min(31, 2**b - 1), "width": b} for b in range(4, 17, 2)],
    ),
}
#: Multiples of the rate for a sweep of these sources: the gap to the Gaussian depends on the rate.
RATES = (2 / 3, 1.0, 4 / 3, 2.0)
RATE_SWEEP = ("gaussian", "on-the-fly", "leap-3", "leap-14", "lutopt", "pre-generated")
#: Name of the demonstration in the report.
CORE = "demo zo"
#: Loss above which a run counts as diverged: ten times that of guessing among ten classes.
LIMIT = 10 * log(10)
#: Runs per row of the table: a standard error of about a third of a percentage point.
SEEDS = 16
#: Maximum number of runs per point of a sweep.
SWEEP_SEEDS = 5


def run_zo(
    data: Path | None,
    out: Path,
    *,
    seeds: int = SEEDS,
    steps: int | None = None,
    workers: int = 2,
    console: Console | None = None,
) -> dict[str, Any]:
    """Fine-tune with every source; write ``out/zo.json`` and the plots to ``out``.

    Parameters
    ----------
    data
        A folder with MNIST's IDX files; ``None``: scikit-learn's digits.
    out
        Created if needed. Its ``zo_cache`` holds the results of single runs, so that an interrupted
        demonstration can be resumed, and a later one runs only what changed.
    seeds, steps
        Runs per row of the table, and steps per run (``None``: those of the data set).
    workers
        Number of processes.
    console
        Output of the tables; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for bad numbers or data, and
    ``OSError`` if ``out`` cannot be written.
    """
    for name, value in {"seeds": seeds, "steps": steps, "workers": workers}.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    split = digits() if data is None else mnist(data)
    out.mkdir(parents=True, exist_ok=True)
    settings = SETTINGS[split.name]
    task = prepare(split, settings if steps is None else replace(settings, steps=steps))
    table = {
        (source, shots): jobs(source, DEFAULTS[source], shots, seeds)
        for shots in settings.shots
        for source in DEFAULTS
    }
    sweeps = {
        name: [jobs(source, p, settings.shots[-1], min(seeds, SWEEP_SEEDS)) for p in params]
        for name, (source, _, params) in SWEEPS.items()
    }
    few = min(seeds, SWEEP_SEEDS)
    rates = {
        (source, eta): jobs(source, DEFAULTS[source], settings.shots[-1], few, eta)
        for source in RATE_SWEEP
        for eta in RATES
    }
    groups = [*table.values(), *(g for groups in sweeps.values() for g in groups), *rates.values()]
    wanted = dict.fromkeys(job for group in groups for job in group)
    done = run_jobs(
        Sources(task), wanted, out / "zo_cache", workers=workers, progress=console is not None
    )

    measured = {key: summary(task, group, done) for key, group in table.items()}
    varied = {name: [summary(task, g, done) for g in groups] for name, groups in sweeps.items()}
    for each in (*measured.values(), *(point for points in varied.values() for point in points)):
        # Compared for the same seeds: a sweep has fewer seeds than the table.
        gaussian = measured["gaussian", each["shots"]]["accuracies"]
        each["gap"] = each["mean"] - mean(gaussian[: each["seeds"]])
    rated = {key: summary(task, group, done) for key, group in rates.items()}
    for (_, eta), each in rated.items():
        each["gap"] = each["mean"] - rated["gaussian", eta]["mean"]
    options = ("" if data is None else " --data DIR") + f" --seeds {seeds}" * (seeds != SEEDS)
    result = {
        "command": f"seedbed demo zo{options}",
        "data": split.name,
        "images": split.counts,
        "network": list(task.model.sizes),
        "d": task.model.d,
        "settings": asdict(task.settings),
        "upright": 100 * task.upright,
        "before": 100 * task.model.accuracy(task.theta, *task.test),
        "rows": list(measured.values()),
        "sweeps": {
            name: {
                "source": source,
                "parameter": parameter,
                "rows": varied[name],
            }
            for name, (source, parameter, _) in SWEEPS.items()
        },
        "rates": list(rated.values()),
    }
    write_atomic(out / "zo.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    draw(result, out)
    if console is not None:
        show(result, console)
    return result


def jobs(
    source: str, params: dict[str, int], shots: int, seeds: int, eta: float = 1.0
) -> list[Job]:
    """Return a job for every seed."""
    return [Job(source, tuple(params.items()), shots, seed, eta) for seed in range(seeds)]


def summary(task: Task, group: list[Job], done: dict[Job, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one source: accuracies in percent, losses as means over the seeds.

    A run has diverged if a number is infinite or NaN, or if its loss (the mean over the last tenth
    of the steps) is above :data:`LIMIT`. It is included in the accuracy, not in the loss.
    """
    results = [done[job] for job in group]
    accuracies = [100 * result["accuracy"] for result in results]
    runs = [result["losses"] for result in results if group[0].source != BACKPROP]
    finals = [mean(run[-max(1, len(run) // 10) :]) if run else inf for run in runs]
    converged = [final for final in finals if final <= LIMIT]
    curves = [run for run, final in zip(runs, finals, strict=True) if final <= LIMIT]
    return {
        "source": group[0].source,
        **dict(group[0].params),
        "shots": group[0].shots,
        "rate": task.settings.rate * group[0].eta,
        "d": task.model.d,
        "seeds": len(group),
        "mean": mean(accuracies),
        "std": stdev(accuracies) if len(group) > 1 else None,
        "accuracies": accuracies,
        "diverged": len(finals) - len(converged),
        "loss": mean(converged) if converged else None,
        "loss_std": stdev(converged) if len(converged) > 1 else None,
        "curve": [mean(points) for points in zip(*curves, strict=True)],
    }


def rows(folder: Path) -> list[Row]:
    """Return the report rows of all demonstration results in ``folder``.

    Each source and number of samples per class has a row of kind ``demo``, and each point of the
    sweeps a row of kind ``sweep``.
    """
    return load_rows(folder.glob("*/zo.json"), _rows)


def _rows(result: dict[str, Any]) -> list[Row]:
    sweeps = [each for sweep in result["sweeps"].values() for each in sweep["rows"]]
    kinds = {"demo": result["rows"], "sweep": sweeps + result["rates"]}
    return [_row(result, kind, each) for kind, measured in kinds.items() for each in measured]


def _row(result: dict[str, Any], kind: str, each: dict[str, Any]) -> Row:
    source, shots = each["source"], each["shots"]
    chosen: dict[str, Any] = {n: each[n] for n in ("lanes", "width", "size", "rate") if n in each}
    varied = ", ".join(f"{name} {value:g}" for name, value in chosen.items())
    label = f"{source} ({varied})" if kind == "sweep" else source
    params = {"source": source, "shots": shots, "data": result["data"], "d": result["d"], **chosen}
    figures = {
        # Ten classes.
        "images": 10 * shots,
        "held_images": result["images"]["test"],
        "accuracy_mean": each["mean"],
        "accuracy_std": each["std"],
        "accuracy_before": result["before"],
        "points_to_gaussian": each["gap"],
        "loss_by_point": each["curve"] or None,
        "diverged": each["diverged"],
    }
    return Row(
        core=CORE,
        config=f"{result['data']}, {label}, k = {shots}",
        kind=kind,
        figures={name: value for name, value in figures.items() if value is not None},
        command=result["command"],
        params=params,
        seeds=list(range(each["seeds"])),
        paper=paper.demo_reference(source) if kind == "demo" else None,
        aim=paper.aims(CORE, params, kind, None),
    )
