"""The sentiment of sentences: the last layer of an encoder, tuned by forward passes.

PeZO's sources of numbers (ICCAD 2025, Tables 3 and 4) and SensZOQ's choices of weights
(arXiv:2406.02913) are compared at equal passes, each with its own rate, and few weights are tuned
beside a base of 4 bits.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from seedbed.flow.importer.packed_rows import KEPT
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.plot_style import NEUTRAL, OTHER, OURS, legend, panels, png
from seedbed.flow.run.pool import run_jobs
from seedbed.flow.run.progress import Bar
from seedbed.spec.checks import require_choice, require_int
from seedbed.studies.rates import best, untried
from seedbed.studies.sentiment_job import BACKPROPAGATION, MASKS, POINTS, Task, Training
from seedbed.studies.sentiment_task import TRELLIS, prepare
from seedbed.studies.zeroth_order import make_source

__all__ = ["TABLES", "TUNING", "TUNING_SEED", "changes", "sentiment", "spread"]

#: The sources that are compared.
SOURCES = (
    "gaussian", "rademacher", "unscaled", "uniform", "scaled", "on-the-fly", "pre-generated",
    "lutopt",
)  # fmt: skip
#: Fractions of tuned weights.
FRACTIONS = (0.001, 0.01)
#: The source of the other tables: that of a core, of full period.
SOURCE = "lutopt"
TABLES = ("sources", "tuned", "base")
#: Steps to find a rate, as a share of all; the seed of these trainings.
TUNING, TUNING_SEED = 3, 1000
#: The rate that is tried first: by what is tuned, for numbers with a modulus of 1.
FIRST = {
    "all": 3e-4, "sensitive": 1e-2, "magnitude": 0.3, "random": 1.0, "adapters": 0.3, "head": 1e-2,
    BACKPROPAGATION: 0.1,
}  # fmt: skip
#: Bytes of a tuned number: a value of 16 bits; of a kept weight, with its place.
VALUE_BYTES, KEPT_BYTES = 2, KEPT.itemsize


@dataclass(frozen=True)
class Kind:
    """What a training differs in, but for rate and seed."""

    table: str
    tuned: str
    source: str
    fraction: float = 1.0
    base: str = "float"

    @property
    def name(self) -> str:
        """The name in its table."""
        if self.table == "sources":
            return self.source
        share = "" if self.fraction == 1 else f" {100 * self.fraction:g} %"
        return f"{self.tuned}{share}"

    @property
    def bytes(self) -> int:
        """Bytes of a tuned number."""
        return KEPT_BYTES if self.tuned in MASKS else VALUE_BYTES

    def first(self) -> float:
        """Return the rate that is tried first."""
        if self.source == BACKPROPAGATION:
            return FIRST[BACKPROPAGATION]
        source = make_source(self.source)
        seed = next(source.seeds(np.random.default_rng(0), 1000))
        return FIRST[self.tuned] / float((source.numbers(seed, 1000) ** 2).mean())

    def training(self, k: int, rate: float, seed: int, steps: int, *, judged: bool) -> Training:
        """Return one of its trainings."""
        return Training(
            base=self.base, tuned=self.tuned, fraction=self.fraction, source=self.source, k=k,
            rate=rate, seed=seed, steps=steps, judged=judged,
        )  # fmt: skip


def _kinds(tables: Sequence[str]) -> list[Kind]:
    found = [Kind("sources", "all", name) for name in (*SOURCES, BACKPROPAGATION)]
    found += [
        Kind("tuned", name, SOURCE, fraction)
        for fraction in FRACTIONS
        for name in (*MASKS, "adapters")
    ]
    found += [Kind("tuned", "all", SOURCE), Kind("tuned", "head", SOURCE)]
    found += [Kind("base", "sensitive", SOURCE, fraction, TRELLIS) for fraction in FRACTIONS]
    return [kind for kind in found if kind.table in tables]


def sentiment(
    model: Path | None, data: Path | None, out: Path, *, ks: tuple[int, ...] = (),
    only: Sequence[str] = TABLES, steps: int = 300, batch: int = 16, seeds: int = 3, jobs: int = 1,
    console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tune the last layer in each way; write ``out/sentiment.json`` and a plot.

    Each way's rate is that with the lowest training loss after a third of the steps, with a seed
    that is not used afterwards; rates next to the best are tried until both are worse.

    Parameters
    ----------
    model
        The folder of a BERT-like encoder; by default a small one with random weights.
    data
        A folder with sets of sentences, see :func:`seedbed.studies.sentiment_data.read`; by default
        the embedded ones.
    out
        Created if needed. Its ``cache`` holds the results of single trainings, so that an
        interrupted demonstration is resumed.
    ks
        Sentences of a class to train on; by default 16, and with ``data`` 256, too.
    only
        Some of :data:`TABLES`.
    steps, batch, seeds
        Steps of a training, sentences of a step at most, and trainings of each way.
    jobs
        Processes.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model, data or setting,
    and ``OSError``.
    """
    require_int("steps", steps, TUNING * POINTS, 1_000_000)
    require_int("batch", batch, 1, 4_096)
    require_int("seeds", seeds, 1, 100)
    require_int("jobs", jobs, 1, 256)
    ks = ks or ((16,) if data is None else (16, 256))
    for k in ks:
        require_int("k", k, 1, 100_000)
    for name in only:
        require_choice("a table", name, TABLES)
    out.mkdir(parents=True, exist_ok=True)
    progress = Console(stderr=True, quiet=console is None)
    with threadpool_limits(1), Bar(console=progress) as bar:
        task, known = prepare(model, data, ks, out, bar, trellis="base" in only, batch=batch)
    kinds = _kinds(only)

    def run(wanted: list[Training], description: str) -> dict[Training, dict[str, Any]]:
        return run_jobs(
            task, wanted, out / "cache", workers=jobs, progress=console is not None,
            description=description,
        )  # fmt: skip

    rows = []
    for k in ks:
        rates = _rates(task, kinds, k, steps, run)
        wanted = {
            kind: [kind.training(k, rate, seed, steps, judged=True) for seed in range(seeds)]
            for kind, rate in rates.items()
        }
        # What nothing is tuned of: the float model, and the base without kept weights.
        plain = {
            base: [
                Training(base=base, tuned="none", k=k, rate=0.0, seed=s, steps=0, judged=True)
                for s in range(seeds)
            ]
            for base in task.bases
        }
        groups = [*plain.values(), *wanted.values()]
        done = run([job for group in groups for job in group], f"k = {k}: trainings")
        for base, group in plain.items():
            rows.append({"k": k, "table": "none", "base": base, "runs": [done[j] for j in group]})
        for kind, group in wanted.items():
            rows.append(_row(kind, k, group, done))
    result = {
        "command": "seedbed demo sentiment" + (" --model DIR" if model else "")
        + (" --data DIR" if data else ""),
        **known, "steps": steps, "batch": batch, "eps": task.eps, "seeds": seeds, "rows": rows,
    }  # fmt: skip
    write_atomic(out / "sentiment.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    write_atomic(out / "sentiment.png", _plot(result))
    if console is not None:
        _show(result, console)
    return result


def _rates(task: Task, kinds: list[Kind], k: int, steps: int, run: Any) -> dict[Kind, float]:
    """Return the best rate of each kind; one that raises the loss counts as one that diverges."""
    tried: dict[Kind, dict[float, float | None]] = {kind: {} for kind in kinds}
    first = {kind: kind.first() for kind in kinds}
    while wanted := {
        (kind, rate): kind.training(k, rate, TUNING_SEED, steps // TUNING, judged=False)
        for kind in kinds
        for rate in untried(tried[kind], first[kind])
    }:
        done = run(list(wanted.values()), f"k = {k}: rates")
        for (kind, rate), job in wanted.items():
            before, after = (done[job]["train"][name] for name in ("before", "after"))
            tried[kind][rate] = None if after is None or after > before else after
    return {kind: best(found) for kind, found in tried.items()}


def _row(
    kind: Kind, k: int, group: list[Training], done: dict[Training, dict[str, Any]]
) -> dict[str, Any]:
    runs = [done[job] for job in group]
    return {
        "k": k, "table": kind.table, "name": kind.name, "base": kind.base, "tuned": kind.tuned,
        "fraction": kind.fraction, "source": kind.source, "numbers": runs[0]["numbers"],
        "bytes": kind.bytes * runs[0]["numbers"], "rate": group[0].rate, "runs": runs,
    }  # fmt: skip


def spread(values: list[float], form: str = "+.4f") -> str:
    """Return the mean of several seeds, with the lowest and the highest."""
    return f"{mean(values):{form}} ({min(values):{form}}..{max(values):{form}})"


def changes(runs: list[dict[str, Any]]) -> list[str]:
    """Return how losses and accuracy change, over seeds and with standard errors."""
    if any(run[name]["after"] is None for run in runs for name in ("train", "held")):
        return ["diverged", "", "", ""]
    train, held = ([run[name] for run in runs] for name in ("train", "held"))
    return [
        spread([run["change"] for run in train]),
        spread([run["change"] for run in held]),
        f"{mean(run['change_error'] for run in held):.4f}",
        f"{spread([100 * run['gained'] for run in held], '+.1f')} "
        f"+-{100 * mean(run['gained_error'] for run in held):.1f}",
    ]


def _show(result: dict[str, Any], console: Console) -> None:
    console.print(
        f"{result['set']}: {sum(result['sentences'])} sentences, {result['held']} held out, "
        f"{result['tokens']:.1f} tokens each.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    for k in dict.fromkeys(row["k"] for row in result["rows"]):
        for row in result["rows"]:
            if (row["k"], row["table"]) == (k, "none"):
                train, held = ([run[name] for run in row["runs"]] for name in ("train", "held"))
                losses = (spread([run["before"] for run in each], ".4f") for each in (train, held))
                right = spread([100 * run["accuracy_before"] for run in held], ".1f")
                console.print(
                    f"k = {k}, {row['base']}, not tuned: loss {' and held out '.join(losses)}; "
                    f"{right} % right.",
                    highlight=False, soft_wrap=True,
                )  # fmt: skip
        for table in TABLES:
            rows = [row for row in result["rows"] if (row["k"], row["table"]) == (k, table)]
            if rows:
                _show_rows(rows, k, table, console)


def _show_rows(rows: list[dict[str, Any]], k: int, table: str, console: Console) -> None:
    header = [
        {"sources": "source"}.get(table, "tuned"), "numbers", "bytes", "rate",
        "training loss", "held-out loss", "error", "held-out accuracy, points",
    ]  # fmt: skip
    lines = []
    for row in rows:
        line = [row["name"], f"{row['numbers']:,}", f"{row['bytes']:,}", f"{row['rate']:g}"]
        lines.append([*line, *changes(row["runs"])])
    show_table(console, header, lines, title=f"{table}, k = {k}: changes by training")


def _plot(result: dict[str, Any]) -> bytes:
    """Return a plot of the changes of losses by training, a panel for each k and table."""
    keys = list(dict.fromkeys((r["k"], r["table"]) for r in result["rows"] if r["table"] != "none"))
    figure, all_axes = panels(len(keys), 4.0 * len(keys), 4.2, sharey=True)
    names = {"train": ("training sentences", OURS, -0.15), "held": ("held-out", OTHER, 0.15)}
    for (k, table), axes in zip(keys, all_axes, strict=True):
        rows = [row for row in result["rows"] if (row["k"], row["table"]) == (k, table)]
        axes.axhline(0, color=NEUTRAL, lw=0.8)
        for at, row in enumerate(rows):
            for name, (label, color, shift) in names.items():
                found = [run[name].get("change", np.nan) for run in row["runs"]]
                places = [at + shift] * len(found)
                axes.plot(places, found, "o", ms=4, color=color, label=f"{label}, a dot a seed")
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_xticks(range(len(rows)), [row["name"] for row in rows], rotation=60, ha="right")
        axes.set_title(f"{table}, k = {k}", fontsize=9)
        axes.set_ylabel("change of the loss")
    legend(figure, columns=2)
    return png(figure)
