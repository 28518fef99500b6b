"""Personalisation of an MLP to rotated images: kept weights against low-rank adapters.

The network of the zeroth-order demonstration is trained on upright images and compressed to 4 bits
a weight. Some weights are kept in 16 bits and tuned on rotated images, or adapters with as many
numbers are. Source: SensZOQ (arXiv:2406.02913); InstantFT's adapters.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from rich.console import Console

from seedbed.flow.jobs import mlp_task
from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.plot_style import legend, panels, png
from seedbed.flow.run.pool import run_jobs
from seedbed.golden.classifier import Mlp
from seedbed.studies.personalise_mlp_job import Adapters, Job, Settings, Task, prepare
from seedbed.studies.rates import best, untried
from seedbed.studies.zeroth_order import make_source

__all__ = ["FRACTIONS", "STEPS", "personalise_mlp"]

#: Fractions of kept weights; the numbers of InstantFT's adapters of rank 1 are added.
FRACTIONS = (0.001, 0.01)
STEPS = 2000
#: What is tuned by zeroth order; and, for reference, by backpropagation.
ZEROTH = ("sensitive", "task", "magnitude", "random", "adapters", "all")
BACKPROP = ("sensitive", "adapters", "all")
#: Points of a curve; seed of the trainings that find the rates, whose results count from 0.
POINTS, TUNING_SEED = 10, 1000

Kind = tuple[str, int, str]


def personalise_mlp(
    data: Path | None, out: Path, *, rotate: float = 45, fractions: tuple[float, ...] = FRACTIONS,
    source: str = "lutopt", steps: int = STEPS, batch: int = 64, seeds: int = 3, jobs: int = 1,
    console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tune a compressed MLP in each way; write ``out/personalise.json`` and a plot.

    The rate of each way is that with the lowest loss of a training, on images that are neither
    tuned on nor held out.

    Parameters
    ----------
    data
        A folder with MNIST's or Fashion-MNIST's IDX files; ``None``: scikit-learn's digits.
    out
        Created if needed. Its ``cache`` holds the results of single trainings, so that an
        interrupted demonstration is resumed.
    rotate
        Degrees by which the images are rotated.
    fractions
        Fractions of kept weights. Where adapters of the last layer have about as many numbers, the
        masks have exactly as many.
    source
        One of :data:`seedbed.studies.zeroth_order.SOURCES`.
    steps, batch, seeds
        Steps of a training, images of a step, and trainings of each way.
    jobs
        Processes.

    Returns the content of the JSON file. Raises ``ValueError`` for bad numbers or data, and
    ``OSError``.
    """
    make_source(source)
    if not fractions or not all(0 < fraction < 1 for fraction in fractions):
        raise ValueError("a fraction must be above 0 and below 1")
    if not -180 <= rotate <= 180:
        raise ValueError(f"the rotation must be in -180..180 degrees, not {rotate}")
    if min(seeds, batch, steps // POINTS) < 1:
        raise ValueError(f"there must be a seed, an image of a step, and {POINTS} steps or more")
    split = digits() if data is None else mnist(data)
    out.mkdir(parents=True, exist_ok=True)
    start = mlp_task.prepare(split, replace(mlp_task.SETTINGS[split.name], degrees=rotate))
    task = prepare(start, split.pre, Settings(steps=steps, batch=batch, source=source), out)
    kinds = _kinds(task, fractions)

    def run(wanted: list[Job], description: str) -> dict[Job, dict[str, Any]]:
        return run_jobs(
            task, wanted, out / "cache", workers=jobs, progress=console is not None,
            description=description,
        )  # fmt: skip

    rates = _rates(task, kinds, steps, lambda wanted: run(wanted, "rates"))
    wanted = {
        kind: [_job(kind, rate, seed, steps, POINTS) for seed in range(seeds)]
        for kind, rate in rates.items()
    }
    done = run([job for group in wanted.values() for job in group], "trainings")
    name = "digits" if data is None else data.resolve().name
    result = {
        "command": "seedbed demo personalise-mlp" + ("" if data is None else " --data DIR"),
        "data": name,
        "rotate": rotate,
        "network": list(task.model.sizes),
        "weights": len(task.orders["magnitude"]),
        "settings": asdict(task.settings),
        "images": {n: len(getattr(task, n)[1]) for n in ("tune", "judged", "test")},
        "accuracies": {name: 100 * value for name, value in task.accuracies.items()},
        "rows": [_row(task, kind, group, done) for kind, group in wanted.items()],
    }
    write_atomic(out / "personalise.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    write_atomic(out / "personalise.png", _plot(result))
    if console is not None:
        _show(result, console)
    return result


def _kinds(task: Task, fractions: tuple[float, ...]) -> list[Kind]:
    """Return what is tuned, how many numbers of it, and the method."""
    weights = len(task.orders["magnitude"])
    counts = dict.fromkeys(_count(task.model, max(1, round(f * weights))) for f in fractions)
    counts[Adapters.sizes(task.model)[0]] = None
    found = []
    for method, names in (("zo", ZEROTH), ("bp", BACKPROP)):
        for name in names:
            sizes = [weights] if name == "all" else [c for c in counts if c < weights]
            if name == "adapters":
                sizes = [count for count in sizes if _rank(task.model, count)]
            found += [(name, count, method) for count in sizes]
    return found


def _count(model: Mlp, count: int) -> int:
    """Return the numbers of the adapters nearest to ``count``; ``count`` if there are none."""
    whole, last = Adapters.sizes(model)
    size = whole if count >= whole else last
    nearest = round(count / size) * size
    return nearest if _rank(model, nearest) else count


def _rank(model: Mlp, count: int) -> int:
    """Return the rank of adapters with ``count`` numbers; 0 if there are none."""
    whole, last = Adapters.sizes(model)
    rank, rest = divmod(count, whole if count >= whole else last)
    return rank if rest == 0 and rank <= model.sizes[-1] else 0


def _job(kind: Kind, rate: float, seed: int, steps: int, points: int) -> Job:
    name, count, method = kind
    return Job(
        tuned=name, count=count, method=method, rate=rate, seed=seed, steps=steps, points=points
    )


def _rates(
    task: Task, kinds: list[Kind], steps: int,
    run: Callable[[list[Job]], dict[Job, dict[str, Any]]],
) -> dict[Kind, float]:  # fmt: skip
    """Return the best rate of each kind; one that raises the loss counts as one that diverges."""
    tried: dict[Kind, dict[float, float | None]] = {kind: {} for kind in kinds}
    first = {kind: 0.1 if kind[2] == "bp" else 5 / kind[1] for kind in kinds}
    while wanted := {
        (kind, rate): _job(kind, rate, TUNING_SEED, steps, 0)
        for kind in kinds
        for rate in untried(tried[kind], first[kind])
    }:
        done = run(list(wanted.values()))
        for (kind, rate), job in wanted.items():
            loss, start = done[job]["loss"], task.tuned(job)
            before = float(start.losses(start.theta[None], *task.judged)[0])
            tried[kind][rate] = None if loss is None or loss > before else loss
    return {kind: best(found) for kind, found in tried.items()}


def _row(
    task: Task, kind: Kind, group: list[Job], done: dict[Job, dict[str, Any]]
) -> dict[str, Any]:
    curves = []
    for job in group:
        after = done[job]["accuracies"] or [None] * POINTS
        curve = [task.before(job), *after, *[None] * (POINTS - len(after))]
        curves.append([None if value is None else 100 * value for value in curve])
    last = [curve[-1] for curve in curves]
    known = [value for value in last if value is not None]
    row: dict[str, Any] = dict(zip(("tuned", "numbers", "method"), kind, strict=True))
    row |= {"rate": group[0].rate, "before": curves[0][0], "after": last, "curves": curves}
    return row | {"mean": mean(known) if len(known) == len(last) else None}


def _show(result: dict[str, Any], console: Console) -> None:
    lines = []
    for row in result["rows"]:
        after = ["diverged" if value is None else f"{value:.1f}" for value in row["after"]]
        whole = "" if row["mean"] is None else f"{row['mean']:.1f}"
        lines.append(
            [row["tuned"], f"{row['numbers']:,}", row["method"], f"{row['rate']:g}",
             f"{row['before']:.1f}", ", ".join(after), whole]
        )  # fmt: skip
    header = ["tuned", "numbers", "method", "rate", "before, %", "after, by seed, %", "mean, %"]
    show_table(console, header, lines)
    known = result["accuracies"]
    console.print(
        f"Accuracy in float32: {known['upright']:.1f} % upright, {known['rotated']:.1f} % rotated "
        f"by {result['rotate']:g} degrees; compressed, rotated: {known['compressed']:.1f} %.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def _plot(result: dict[str, Any]) -> bytes:
    """Return a plot of the accuracy over zeroth-order steps, a panel for each number."""
    rows = [row for row in result["rows"] if row["method"] == "zo" and row["mean"] is not None]
    counts = sorted({row["numbers"] for row in rows if row["tuned"] != "all"}) or [0]
    figure, all_axes = panels(len(counts), 4.0 * len(counts), 3.8, sharey=True)
    palette = ["#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"]
    colors = dict(zip(ZEROTH, palette, strict=False))
    at = np.linspace(0, result["settings"]["steps"], POINTS + 1)
    for count, axes in zip(counts, all_axes, strict=True):
        for row in rows:
            if row["tuned"] != "all" and row["numbers"] != count:
                continue
            curves, color = np.array(row["curves"]), colors[row["tuned"]]
            axes.plot(at, curves.mean(axis=0), "o-", ms=3, color=color, label=row["tuned"])
            axes.fill_between(
                at, curves.min(axis=0), curves.max(axis=0), color=color, alpha=0.2, lw=0
            )
        axes.set_xlabel(f"steps; {count} tuned numbers")
        axes.set_ylabel("accuracy, %")
    legend(figure, columns=6)
    return png(figure)
