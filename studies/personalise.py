"""Personalisation: a thousandth of a compressed model's weights, tuned by forward passes.

The base is the model at 4 bits a weight. Some weights are kept in 16 bits; zeroth-order SGD
(:func:`seedbed.studies.zeroth_order.step`) tunes them alone, on one text, and the perplexity of
other lines of that text is measured. Masks of kept weights are compared. Source: SensZOQ
(arXiv:2406.02913), Definitions 3 and 4.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.compress import workers
from seedbed.flow.jobs.lm_task import Task, Windows, embedded, load, resumed
from seedbed.flow.jobs.personalise_loss import perplexity
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.plot_style import NEUTRAL, legend, panels, png
from seedbed.flow.run.progress import Bar
from seedbed.studies import zeroth_order as zo
from seedbed.studies.personalise_job import BASES, Base, Schedule, Training, make_base, train
from seedbed.studies.rates import RATES, best, untried

__all__ = ["MASKS", "personalise"]

#: What is tuned: the weights with the largest squared gradients on the first text, or on the text
#: that is tuned on; the largest weights; random ones; all compressed weights.
MASKS = ("sensitive", "task", "magnitude", "random", "all")
#: The first rate that is tried, times the number of tuned weights.
FIRST = 5.0
#: Name of the result.
FILE = "personalise.json"
#: Steps to find the rate, as a share of all; points of a curve.
TUNING, POINTS = 5, 5
#: Seed of the trainings that find the rate; those of the result count from 0.
TUNING_SEED = 1000


def personalise(
    model: Path | None, out: Path, *, base: str = "seedlm", fractions: tuple[float, ...],
    masks: tuple[str, ...] = MASKS, source: str = "lutopt", schedule: Schedule | None = None,
    seeds: int = 3, lines: int = 300, jobs: int = 1, resume: bool = False,
    console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tune a compressed language model with each mask; write ``out/personalise.json`` and a plot.

    Each mask's rate is that of :data:`RATES` with the lowest perplexity after a fifth of the steps,
    on lines that are neither tuned on nor held out. Rates are tried from the one nearest to
    :data:`FIRST` over the number of tuned weights, until both neighbours of the best are tried.

    Parameters
    ----------
    model, lines
        As for :func:`seedbed.studies.lm.run_lm`. The last text by its name is tuned on.
    base
        One of :data:`seedbed.studies.personalise_job.BASES`.
    fractions, masks
        Fractions of kept weights, for all masks but ``all``; some of :data:`MASKS`.
    source
        One of :data:`seedbed.studies.zeroth_order.SOURCES`.
    schedule, seeds
        Steps, batches and perturbations of a training, by default those of :class:`Schedule`, and
        trainings for each mask.
    jobs
        Processes.
    resume
        Keep the trainings that an interrupted run with the same settings has finished.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model, text or
    setting, and ``OSError``.
    """
    if base not in BASES:
        raise ValueError(f"the base must be one of {', '.join(BASES)}, not {base!r}")
    schedule = schedule or Schedule()
    zo.make_source(source)
    if not fractions or not all(0 < fraction < 1 for fraction in fractions):
        raise ValueError("a fraction must be above 0 and below 1")
    if not masks or not set(masks) <= set(MASKS):
        raise ValueError(f"a mask must be one of {', '.join(MASKS)}, not {', '.join(masks)}")
    if min(seeds, schedule.steps // (TUNING * POINTS)) < 1:
        raise ValueError(f"there must be a seed and {TUNING * POINTS} steps or more")
    progress = Console(stderr=True, quiet=console is None)
    out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        task = embedded(progress) if model is None else load(model, lines)
        made = make_base(task, base, fractions, schedule.spread, out)
    result = _begin(
        task, made, out, resume=resume, form=base, source=source, schedule=asdict(schedule)
    )
    kinds = [(m, f) for m in MASKS if m in masks for f in ((1.0,) if m == "all" else fractions)]
    with workers.processes(jobs) as pool, _bar(progress) as bar:
        run = _Run(pool, made, schedule, result, out)
        short = schedule.steps // TUNING
        shown = bar.add_task("rates", total=None)
        while tried := [(kind, rate) for kind in kinds for rate in _untried(run, kind, short)]:
            trials = [
                Training(mask=m, fraction=f, source=source, rate=r, seed=TUNING_SEED, steps=short)
                for (m, f), r in tried
            ]
            run.trainings(trials, made.judged, 1, lambda: bar.advance(shown))
        trainings = [
            Training(mask=m, fraction=f, source=source, seed=seed, steps=schedule.steps,
                     rate=best(_tried(result, (m, f), short)))
            for seed in range(seeds)
            for m, f in kinds
        ]  # fmt: skip
        bar.update(shown, description="trainings", total=len(trainings), completed=0)
        run.trainings(trainings, made.held, POINTS, lambda: bar.advance(shown))
    result["rows"] = [_summary(result, made, kind, trainings) for kind in kinds]
    _write(result, out)
    write_atomic(out / "personalise.png", _plot(result))
    if console is not None:
        _show(result, console)
    return result


def _bar(console: Console) -> Bar:
    return Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip


def _begin(task: Task, base: Base, out: Path, *, resume: bool, **settings: Any) -> dict[str, Any]:
    """Return a result without trainings, or that of an interrupted run."""
    digest = sha256(json.dumps(settings, sort_keys=True).encode())
    for name, value in sorted((task.parameters | base.dense).items()):
        digest.update(name.encode() + value.tobytes())
    for windows in (base.judged, base.held):
        digest.update(b"".join(part.tobytes() for part in windows))
    digest.update(base.tuned.characters.tobytes() + base.tuned.targets.tobytes())
    result: dict[str, Any] = {"input": digest.hexdigest(), **settings}
    if resume and (before := resumed(out / FILE, result["input"])):
        return before
    with threadpool_limits(1):
        result["perplexity"] = {
            "float32": perplexity(task.parameters, *base.held),
            "compressed": perplexity(base.dense, *base.held),
        }
    return result | {"characters": len(base.held[1]), "trainings": []}


@dataclass(frozen=True)
class _Run:
    """Adds trainings to a result."""

    pool: workers.Pool
    base: Base
    schedule: Schedule
    result: dict[str, Any]
    out: Path

    def trainings(
        self, wanted: list[Training], windows: Windows, points: int, advance: Callable[[], None]
    ) -> None:
        """Add the missing trainings; the file is written after each of them."""
        known = [_training(row) for row in self.result["trainings"]]
        missing = [training for training in wanted if training not in known]
        for _ in range(len(wanted) - len(missing)):
            advance()

        def work() -> Iterator[tuple[Any, ...]]:
            for training in missing:
                yield self.base, self.schedule, training, windows, points

        found = workers.results_in_order(self.pool, _train, work())
        for training, curve in zip(missing, found, strict=True):
            self.result["trainings"].append({**asdict(training), "perplexity": curve})
            _write(self.result, self.out)
            advance()


def _train(arguments: tuple[Any, ...]) -> list[float | None]:
    return train(*arguments)


def _training(row: dict[str, Any]) -> Training:
    return Training(**{k: v for k, v in row.items() if k != "perplexity"})


def _curve(result: dict[str, Any], training: Training) -> list[float | None]:
    return next(r["perplexity"] for r in result["trainings"] if _training(r) == training)


def _tried(
    result: dict[str, Any], kind: tuple[str, float], steps: int
) -> dict[float, float | None]:
    """Return the perplexity by the rate that was tried."""
    return {
        row["rate"]: row["perplexity"][-1]
        for row in result["trainings"]
        if (row["mask"], row["fraction"]) == kind
        and (row["seed"], row["steps"]) == (TUNING_SEED, steps)
    }


def _untried(run: _Run, kind: tuple[str, float], steps: int) -> list[float]:
    """Return the rates to try next."""
    first = FIRST / len(run.base.places[kind])
    return untried(_tried(run.result, kind, steps), first, RATES)


def _summary(
    result: dict[str, Any], base: Base, kind: tuple[str, float], trainings: list[Training]
) -> dict[str, Any]:
    own = [t for t in trainings if (t.mask, t.fraction) == kind]
    with threadpool_limits(1):
        before = base.before(kind, base.held)
    curves = [[before, *_curve(result, t)] for t in own]
    last = [curve[-1] for curve in curves]
    whole = result["perplexity"]
    row: dict[str, Any] = {"mask": kind[0], "fraction": kind[1], "rate": own[0].rate}
    row |= {"weights": len(base.places[kind]), "before": before, "after": last, "curves": curves}
    if None in last:
        return row | {"mean": None, "regained": None, "tuned": None}
    mean = float(np.mean([value for value in last if value is not None]))
    cost = whole["compressed"] - whole["float32"]
    regained, tuned = (whole["compressed"] - mean) / cost, (before - mean) / cost
    return row | {"mean": mean, "regained": regained, "tuned": tuned}


def _write(result: dict[str, Any], out: Path) -> None:
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    write_atomic(out / FILE, text)


def _show(result: dict[str, Any], console: Console) -> None:
    lines = []
    for row in result["rows"]:
        shares = [
            "" if row[name] is None else f"{100 * row[name]:.1f}" for name in ("regained", "tuned")
        ]
        after = [f"{value:.3f}" if value else "diverged" for value in row["after"]]
        lines.append(
            [row["mask"], f"{100 * row['fraction']:g}", f"{row['rate']:g}", f"{row['before']:.3f}",
             ", ".join(after), *shares]
        )  # fmt: skip
    header = ["tuned weights", "%", "rate", "perplexity before", "after, by seed", "regained %",
              "by training %"]  # fmt: skip
    show_table(console, header, lines)
    whole = result["perplexity"]
    console.print(
        f"Held-out perplexity: {whole['float32']:.3f} in float32, {whole['compressed']:.3f} "
        "compressed with nothing kept. Regained: of the difference of these two.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def _plot(result: dict[str, Any]) -> bytes:
    """Return a plot of the held-out perplexity over the steps, the range of seeds as a band."""
    fractions = sorted({row["fraction"] for row in result["rows"] if row["mask"] != "all"}) or [1.0]
    figure, all_axes = panels(len(fractions), 4.6 * len(fractions), 3.8, sharey=True)
    colors = dict(zip(MASKS, ["#D55E00", "#0072B2", "#009E73", "#E69F00", "#56B4E9"], strict=False))
    at = np.linspace(0, result["schedule"]["steps"], POINTS + 1)
    for fraction, axes in zip(fractions, all_axes, strict=True):
        for name, style in (("float32", "--"), ("compressed", ":")):
            axes.axhline(result["perplexity"][name], color=NEUTRAL, ls=style, label=name)
        for row in result["rows"]:
            if row["mask"] != "all" and row["fraction"] != fraction:
                continue
            curves = np.array(row["curves"], np.float64)
            axes.plot(
                at, curves.mean(axis=0), "o-", ms=3, color=colors[row["mask"]], label=row["mask"]
            )
            axes.fill_between(
                at, curves.min(axis=0), curves.max(axis=0), color=colors[row["mask"]], alpha=0.2
            )
        axes.set_xlabel(f"steps; {100 * fraction:g} % of the weights are kept")
        axes.set_ylabel("perplexity of held-out lines")
    legend(figure, columns=4)
    return png(figure)
