"""Ways to train by zeroth order in fewer passes: each alone and together, at equal passes."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.elasticzo_checkpoint import NETWORKS, load
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.pool import run_jobs
from seedbed.spec.checks import require_choice, require_int
from seedbed.studies.elasticzo_job import Images, Settings, Task

__all__ = ["VARIANTS", "run_passes"]

#: By name: the batch, the source, levels of a step, and fraction bits of the loss difference.
VARIANTS: dict[str, tuple[int, str, int, int]] = {
    "paper": (256, "software", 1, 4),
    "batch 64": (64, "software", 1, 4),
    "batch 32": (32, "software", 1, 4),
    "batch 16": (16, "software", 1, 4),
    "rank 1": (256, "rank1", 1, 4),
    "levels": (256, "software", 4, 4),
    "6 bits": (256, "software", 1, 6),
    "batch 32, rank 1": (32, "rank1", 1, 4),
    "batch 64, levels": (64, "software", 4, 4),
    "batch 32, levels": (32, "software", 4, 4),
    "batch 32, 6 bits": (32, "software", 1, 6),
    "batch 32, rank 1, levels": (32, "rank1", 4, 4),
    "all, 6 bits": (32, "rank1", 4, 6),
    "all, 8 bits": (32, "rank1", 4, 8),
}
#: The greatest magnitudes that are tried, with the first seed.
MAGNITUDES = (7, 15, 31)


def _settings(name: str, base: Settings) -> Settings:
    """Return a training of a variant."""
    batch, source, levels, fraction = VARIANTS[name]
    given = {"levels": levels, "fraction": fraction}
    default = {"levels": 1, "fraction": 4}
    choices = tuple((key, value) for key, value in given.items() if value != default[key])
    return replace(base, batch=batch, source=source, choices=choices)


def run_passes(
    data: Path | None,
    out: Path,
    *,
    names: Sequence[str] = (),
    method: str = "full-zo",
    epochs: int = 5,
    validation: int = 5_000,
    seeds: int = 3,
    magnitudes: Sequence[int] = MAGNITUDES,
    degrees: float = 0,
    start: Path | None = None,
    jobs: int = 1,
    console: Console | None,
) -> dict[str, Any]:
    """Train each of :data:`VARIANTS` with as many passes, and write a table to ``out``.

    The greatest magnitude of a variant is the one with the best accuracy on the images that are
    kept apart, of the first seed. The accuracy is that of the test images.

    Parameters
    ----------
    data
        A folder with the IDX files of MNIST or Fashion-MNIST; without it, scikit-learn's digits.
    out
        ``elasticzo-passes.json`` goes here; ``elasticzo_cache`` holds each training's epochs.
    names
        Of the variants; by default, all.
    method
        As ``seedbed demo elasticzo`` has it.
    epochs
        Epochs of each training: two passes of each image.
    validation
        Images that are kept apart, 1..10,000; a sixth of them at most.
    seeds
        Trainings of each variant.
    magnitudes
        The greatest magnitudes that are tried.
    degrees, start
        Rotates the images, and takes 1,024 of them; a checkpoint to start from.
    jobs
        Trainings at a time.
    console
        Takes the table, while standard error shows the progress; ``None`` shows nothing.
    """
    require_int("seeds", seeds, 1, 100)
    require_int("jobs", jobs, 1, 256)
    require_int("validation", validation, 1, 10_000)
    for name in names:
        require_choice("a variant", name, VARIANTS)
    split = digits() if data is None else mnist(data)
    found = Images.of(split, degrees=degrees, validation=validation)
    first = load(start) if start else None
    if start and first is None:
        raise ValueError(f"{start} is not a checkpoint of this demonstration")
    cache = out / "elasticzo_cache"
    network = NETWORKS[found.train[0].shape[-1]]
    task = Task(found, network, cache, resume=True, start=first[0] if first else None)
    base = Settings(method=method, epochs=epochs)
    shown = console is not None

    def trained(wanted: list[Settings]) -> list[list[dict[str, float]]]:
        done = run_jobs(task, wanted, cache, workers=jobs, progress=shown, description="training")
        return [done[job]["history"] for job in wanted]

    # All variants at once: the processes of one need not wait for those of another.
    chosen = list(names or VARIANTS)
    tried = {n: [replace(_settings(n, base), magnitude=r) for r in magnitudes] for n in chosen}
    histories = iter(trained([job for n in chosen for job in tried[n]]))
    scores = {n: [next(histories)[-1]["validation"] for _ in magnitudes] for n in chosen}
    best = {n: tried[n][scores[n].index(max(scores[n]))] for n in chosen}
    histories = iter(trained([replace(best[n], seed=k) for n in chosen for k in range(seeds)]))
    rows = []
    for name in chosen:
        runs = [next(histories) for _ in range(seeds)]
        rows.append({
            "name": name,
            "batch": best[name].batch,
            "magnitude": best[name].magnitude,
            "validation": dict(zip(map(str, magnitudes), scores[name], strict=True)),
            "accuracy": [run[-1]["accuracy"] for run in runs],
            "agreement": [mean(each["agreement"] for each in run) for run in runs],
            "history": [[each["accuracy"] for each in run] for run in runs],
        })  # fmt: skip
    result = {
        "data": found.name if data is None else data.resolve().name,
        "method": method,
        "degrees": degrees,
        "images": len(found.train[1]),
        "epochs": epochs,
        "passes": 2 * epochs * len(found.train[1]),
        "rows": rows,
    }
    write_atomic(out / "elasticzo-passes.json", json.dumps(result, indent=1) + "\n")
    if console is not None:
        _show(result, console)
    return result


def _show(result: dict[str, Any], console: Console) -> None:
    header = ("variant", "batch", "r_max", "accuracy %", "each seed", "signs as in float %")
    lines = [
        (
            row["name"], str(row["batch"]), str(row["magnitude"]), f"{mean(row['accuracy']):.2f}",
            ", ".join(f"{each:.2f}" for each in row["accuracy"]), f"{mean(row['agreement']):.1f}",
        )
        for row in result["rows"]
    ]  # fmt: skip
    title = f"{result['method']}, {result['data']}, {result['passes']:,} image passes"
    show_table(console, header, lines, title=title)
