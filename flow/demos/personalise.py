"""Personalisation: a thousandth of a compressed model's weights, tuned by forward passes.

The base is the model at 4 bits a weight. Some weights are kept in 16 bits; zeroth-order SGD
(:func:`seedbed.golden.zo.step`) tunes them alone, on one text, and the perplexity of other lines of
that text is measured. Masks of kept weights are compared. Source: SensZOQ (arXiv:2406.02913),
Definitions 3 and 4.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.compress import workers
from seedbed.flow.demos.lm_task import Task, Windows, embedded, load, resumed
from seedbed.flow.demos.personalise_job import BATCH, EPS, Base, Training, make_base, train
from seedbed.flow.files import write_atomic
from seedbed.flow.options import show_table
from seedbed.flow.plot_style import NEUTRAL, legend, panels, png
from seedbed.flow.progress import Bar
from seedbed.golden import language_model, zo
from seedbed.spec import SEEDLM
from seedbed.spec.packing import GroupsConfig

__all__ = ["BASES", "MASKS", "personalise"]

#: Formats of the base.
BASES = {"seedlm": SEEDLM[4], "groups": GroupsConfig(group=32)}
#: What is tuned: the weights with the largest squared gradients on the first text, or on the text
#: that is tuned on; the largest weights; random ones; all compressed weights.
MASKS = ("sensitive", "task", "magnitude", "random", "all")
#: Rates that are tried; with a factor of three, the best is less than 1.8 times from one of them.
RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
#: Name of the result.
FILE = "personalise.json"
#: Steps to find the rate, as a share of all; points of a curve.
TUNING, POINTS = 5, 10
#: Seed of the trainings that find the rate; those of the result count from 0.
TUNING_SEED = 1000


def personalise(
    model: Path | None, out: Path, *, base: str = "seedlm", fractions: tuple[float, ...],
    source: str = "lutopt", steps: int = 1000, seeds: int = 3, lines: int = 300, jobs: int = 1,
    resume: bool = False, console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tune a compressed language model with each mask; write ``out/personalise.json`` and a plot.

    Each mask's rate is the one of :data:`RATES` with the lowest perplexity after a fifth of the
    steps, on lines that are neither tuned on nor held out.

    Parameters
    ----------
    model, lines
        As for :func:`seedbed.flow.demos.lm.run_lm`. The last text by its name is tuned on.
    base
        One of :data:`BASES`.
    fractions
        Fractions of kept weights, for all masks but ``all``.
    source
        One of :data:`seedbed.golden.zo.SOURCES`.
    steps, seeds
        Steps of a training, and trainings for each mask.
    jobs
        Processes.
    resume
        Keep the trainings that an interrupted run with the same settings has finished.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model, text or
    setting, and ``OSError``.
    """
    if base not in BASES:
        raise ValueError(f"the base must be one of {', '.join(BASES)}, not {base!r}")
    zo.make_source(source)
    if not fractions or not all(0 < fraction < 1 for fraction in fractions):
        raise ValueError("a fraction must be above 0 and below 1")
    if min(seeds, steps // (TUNING * POINTS)) < 1:
        raise ValueError(f"there must be a seed and {TUNING * POINTS} steps or more")
    progress = Console(stderr=True, quiet=console is None)
    out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        task = embedded(progress) if model is None else load(model, lines)
        made = make_base(task, BASES[base], fractions, out)
    result = _begin(task, made, out, resume=resume, form=base, source=source, steps=steps)
    kinds = [(m, f) for m in MASKS if m != "all" for f in fractions] + [("all", 1.0)]
    with workers.processes(jobs) as pool, _bar(progress) as bar:
        short = steps // TUNING
        trials = [
            Training(mask=m, fraction=f, source=source, rate=r, seed=TUNING_SEED, steps=short)
            for m, f in kinds
            for r in RATES
        ]
        shown = bar.add_task("rates", total=len(trials) + seeds * len(kinds))
        _run(pool, made, made.judged, trials, 1, result, out, lambda: bar.advance(shown))
        bar.update(shown, description="trainings")
        trainings = [
            Training(mask=m, fraction=f, source=source, seed=seed, steps=steps,
                     rate=_best(result, (m, f), short))
            for m, f in kinds
            for seed in range(seeds)
        ]  # fmt: skip
        _run(pool, made, made.held, trainings, POINTS, result, out, lambda: bar.advance(shown))
    result["rows"] = [_summary(result, kind, trainings) for kind in kinds]
    _write(result, out)
    write_atomic(out / "personalise.png", _plot(result, steps))
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
    for windows in (base.tuned, base.judged, base.held):
        digest.update(b"".join(part.tobytes() for part in windows))
    result: dict[str, Any] = {"input": digest.hexdigest(), **settings, "batch": BATCH, "eps": EPS}
    if resume and (before := resumed(out / FILE, result["input"])):
        return before
    with threadpool_limits(1):
        result["perplexity"] = {
            "float32": language_model.perplexity(task.parameters, *base.held),
            "compressed": language_model.perplexity(base.dense, *base.held),
        }
    return result | {"characters": len(base.held[1]), "trainings": []}


def _run(
    pool: workers.Pool, base: Base, windows: Windows, trainings: list[Training], points: int,
    result: dict[str, Any], out: Path, advance: Any,
) -> None:  # fmt: skip
    """Add the missing trainings to the result; the file is written after each of them."""
    known = [_training(row) for row in result["trainings"]]
    missing = [training for training in trainings if training not in known]
    for _ in range(len(trainings) - len(missing)):
        advance()

    def tasks() -> Iterator[tuple[Any, ...]]:
        for training in missing:
            yield training, pool.executor.submit(train, base, training, windows, points)

    queue = list(tasks()) if pool.ahead > 1 else tasks()
    for training, future in queue:
        result["trainings"].append({**asdict(training), "perplexity": future.result()})
        _write(result, out)
        advance()


def _training(row: dict[str, Any]) -> Training:
    return Training(**{k: v for k, v in row.items() if k != "perplexity"})


def _curve(result: dict[str, Any], training: Training) -> list[float | None]:
    return next(r["perplexity"] for r in result["trainings"] if _training(r) == training)


def _best(result: dict[str, Any], kind: tuple[str, float], steps: int) -> float:
    """Return the rate with the lowest perplexity; the lowest rate if all diverge."""
    tried = {
        row["rate"]: row["perplexity"][-1]
        for row in result["trainings"]
        if (row["mask"], row["fraction"]) == kind
        and (row["seed"], row["steps"]) == (TUNING_SEED, steps)
    }
    return min(tried, key=lambda rate: (tried[rate] is None, tried[rate] or 0, rate))


def _summary(
    result: dict[str, Any], kind: tuple[str, float], trainings: list[Training]
) -> dict[str, Any]:
    own = [t for t in trainings if (t.mask, t.fraction) == kind]
    curves = [_curve(result, t) for t in own]
    last = [curve[-1] for curve in curves]
    whole = result["perplexity"]
    row: dict[str, Any] = {"mask": kind[0], "fraction": kind[1], "rate": own[0].rate}
    row |= {"before": curves[0][0], "after": last, "curves": curves}
    if None in last:
        return row | {"mean": None, "regained": None}
    mean = float(np.mean([value for value in last if value is not None]))
    cost = whole["compressed"] - whole["float32"]
    return row | {"mean": mean, "regained": (whole["compressed"] - mean) / cost}


def _write(result: dict[str, Any], out: Path) -> None:
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    write_atomic(out / FILE, text)


def _show(result: dict[str, Any], console: Console) -> None:
    lines = []
    for row in result["rows"]:
        share = "" if row["regained"] is None else f"{100 * row['regained']:.1f}"
        after = [f"{value:.3f}" if value else "diverged" for value in row["after"]]
        lines.append(
            [row["mask"], f"{100 * row['fraction']:g}", f"{row['rate']:g}", f"{row['before']:.3f}",
             ", ".join(after), share]
        )  # fmt: skip
    header = ["tuned weights", "%", "rate", "perplexity before", "after, by seed", "regained %"]
    show_table(console, header, lines)
    whole = result["perplexity"]
    console.print(
        f"Held-out perplexity: {whole['float32']:.3f} in float32, {whole['compressed']:.3f} "
        "compressed with nothing kept. Regained: of the difference of these two.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def _plot(result: dict[str, Any], steps: int) -> bytes:
    """Return a plot of the held-out perplexity over the steps, the range of seeds as a band."""
    fractions = sorted({row["fraction"] for row in result["rows"] if row["mask"] != "all"})
    figure, all_axes = panels(len(fractions), 4.6 * len(fractions), 3.8, sharey=True)
    colors = dict(zip(MASKS, ["#D55E00", "#0072B2", "#009E73", "#E69F00", "#56B4E9"], strict=False))
    at = np.linspace(0, steps, POINTS + 1)
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
