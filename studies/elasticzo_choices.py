"""Choices that the zeroth-order trainer's design rests on: each is changed alone, and trained."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.elasticzo_checkpoint import NETWORKS
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.pool import run_jobs
from seedbed.spec.checks import require_int
from seedbed.studies.elasticzo_job import Images, Settings, Task

__all__ = ["CHOICES", "run_choices"]

#: Question, answer, method, and what differs from the defaults.
CHOICES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("perturbations", "software, on the way", "full-zo", {}),
    ("perturbations", "in place", "full-zo", {"in_place": True}),
    ("source", "urng, 31 lanes over a row", "full-zo", {"source": "urng"}),
    ("source", "urng, 127 lanes", "full-zo", {"source": "urng-row"}),
    ("source", "buffer of 31 rows", "full-zo", {"source": "buffer"}),
    ("pooling", "before rounding", "full-zo", {"pool_first": True}),
    ("rounding", "pseudo-stochastic", "full-zo", {"rounding": "pseudo-stochastic"}),
    *(
        ("fraction bits", str(bits), "full-zo", {"fraction": bits} if bits != 4 else {})
        for bits in range(5)
    ),
    *(
        ("alignment", f"{name}, exponents {'respected' if reach else 'ignored'}", "cls1",
         {"alignment": name, "exponent_range": reach})
        for reach in (0, 3)
        for name in ("batch", "sample", "fixed")
    ),
    *(
        ("alignment", f"exponents {'respected' if reach else 'ignored'}", "cls2",
         {"exponent_range": reach})
        for reach in (0, 3)
    ),
)  # fmt: skip


def _settings(method: str, changes: dict[str, Any], base: Settings) -> Settings:
    source = changes.get("source", base.source)
    choices = tuple((name, value) for name, value in changes.items() if name != "source")
    return replace(base, method=method, source=source, choices=choices)


def run_choices(
    data: Path | None,
    out: Path,
    *,
    images: int,
    epochs: int,
    batch: int,
    seeds: int,
    jobs: int,
    console: Console | None,
) -> dict[str, Any]:
    """Train with each of :data:`CHOICES`, and write ``elasticzo-choices.json`` to ``out``.

    Parameters
    ----------
    data
        A folder with the IDX files of MNIST or Fashion-MNIST; without it, scikit-learn's digits.
    out
        Its ``elasticzo_cache`` holds the results of single trainings.
    images
        How many images to train on, drawn at random.
    epochs
        Passes over them.
    batch
        Images of a batch.
    seeds
        Trainings of each choice.
    jobs
        Trainings at a time.
    console
        Takes the table, while standard error shows the progress; ``None`` shows nothing.
    """
    require_int("images", images, 128, 60_000)
    require_int("batch", batch, 1, 128)
    require_int("seeds", seeds, 1, 100)
    require_int("jobs", jobs, 1, 256)
    split = digits() if data is None else mnist(data)
    found = Images.of(split, limit=images)
    cache = out / "elasticzo_cache"
    task = Task(found, NETWORKS[found.train[0].shape[-1]], cache, resume=True)
    base = Settings(epochs=epochs, batch=batch)
    groups = [
        [replace(_settings(method, changes, base), seed=seed) for seed in range(seeds)]
        for _, _, method, changes in CHOICES
    ]
    wanted = [job for group in groups for job in group]
    shown = console is not None
    done = run_jobs(task, wanted, cache, workers=jobs, progress=shown, description="training")
    rows = []
    for (question, answer, method, changes), group in zip(CHOICES, groups, strict=True):
        runs = [done[job]["history"] for job in group]
        last = [run[-1] for run in runs]
        rows.append({
            "question": question,
            "answer": answer,
            "method": method,
            "changes": changes,
            "accuracy": [each["accuracy"] for each in last],
            "loss": [each["loss"] for each in last],
            "agreement": [mean(each["agreement"] for each in run) for run in runs],
        })  # fmt: skip
    result = {
        "data": found.name,
        "images": len(found.train[1]),
        "epochs": epochs,
        "batch": base.batch,
        "rows": rows,
    }
    write_atomic(out / "elasticzo-choices.json", json.dumps(result, indent=1) + "\n")
    if console is not None:
        _show(result, console)
    return result


def _show(result: dict[str, Any], console: Console) -> None:
    header = ("question", "answer", "method", "accuracy %", "loss", "signs as in float %")
    lines = [
        (
            row["question"], row["answer"], row["method"], f"{mean(row['accuracy']):.1f}",
            f"{mean(row['loss']):.3f}",
            f"{mean(row['agreement']):.1f}",
        )
        for row in result["rows"]
    ]  # fmt: skip
    title = (
        f"ElasticZO-INT8, one choice at a time: {result['data']}, {result['images']} images, "
        f"{result['epochs']} epochs of batches of {result['batch']}"
    )
    show_table(console, header, lines, title=title)
