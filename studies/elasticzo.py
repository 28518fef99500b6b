"""The ElasticZO demonstration: a network trained by forward passes, in 8-bit integers or float."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from rich.console import Console
from rich.table import Table

from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.elasticzo_checkpoint import NETWORKS, load
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.pool import run_jobs
from seedbed.flow.run.progress import throughput_bar
from seedbed.spec.checks import require_int
from seedbed.studies.elasticzo_job import Images, Settings, Task
from seedbed.studies.elasticzo_plots import draw

__all__ = ["run_elasticzo"]

Result = dict[str, Any]


def run_elasticzo(
    data: Path | None,
    out: Path,
    settings: Settings,
    *,
    seeds: int = 1,
    jobs: int = 1,
    degrees: float = 0,
    start: Path | None = None,
    resume: bool = False,
    console: Console | None,
) -> Result:
    """Train once for each seed; write the result and the plot to ``out``.

    Parameters
    ----------
    data
        A folder with the IDX files of MNIST or Fashion-MNIST; without it, scikit-learn's digits.
    out
        Where ``elasticzo-ARITHMETIC-METHOD.json``, the plot and the checkpoint of each epoch go.
    settings
        :class:`~seedbed.studies.elasticzo_job.Settings`; its seed is the first one.
    seeds
        Trainings, 1..100.
    jobs
        Trainings at a time, 1..256. One training uses two threads.
    degrees
        Rotates the images, 0..180, and takes 1,024 to train on and as many to test on, as Table 2.
    start
        A checkpoint to start from, of the same network and arithmetic.
    resume
        Whether unfinished trainings go on from their checkpoints.
    console
        Takes the table, while standard error shows the progress; ``None`` shows nothing.

    Returns what the JSON holds. Raises as :func:`~seedbed.flow.jobs.data.mnist`, and
    ``ValueError`` for a batch of more images than there are, and for an unfinished training that is
    not to be resumed.
    """
    require_int("seeds", seeds, 1, 100)
    require_int("jobs", jobs, 1, 256)
    if not 0 <= degrees <= 180:
        raise ValueError(f"degrees must be in 0..180, not {degrees:g}")
    images = Images.of(digits() if data is None else mnist(data), degrees=degrees)
    if data is not None:
        images = replace(images, name=data.resolve().name)
    count = len(images.train[1])
    if settings.batch > count:
        raise ValueError(f"batch must be at most {count}, the images, not {settings.batch}")
    network = NETWORKS[images.train[0].shape[-1]]
    task = Task(images, network, out, resume, _start(start))
    wanted = [replace(settings, seed=settings.seed + k) for k in range(seeds)]
    if jobs > 1 and seeds > 1:
        cache = out / "elasticzo_cache"
        shown = console is not None
        done = run_jobs(task, wanted, cache, workers=jobs, progress=shown, description="training")
        runs = [done[job] for job in wanted]
    else:
        runs = _in_turn(task, wanted, console)
    result = {
        "data": images.name,
        "network": network,
        "settings": {**asdict(settings), "degrees": degrees},
        "images": {"train": count, "test": len(images.test[1])},
        "seeds": [job.seed for job in wanted],
        "runs": runs,
        "accuracy": mean(run["history"][-1]["accuracy"] for run in runs),
        "agreement": mean(each["agreement"] for run in runs for each in run["history"]),
    }
    rotation = f"-rotated{degrees:g}" if degrees else ""
    write_atomic(out / f"{settings.name}{rotation}.json", json.dumps(result, indent=1) + "\n")
    write_atomic(out / f"elasticzo-{settings.arithmetic}{rotation}.png", draw(out, result))
    if console is not None:
        _show(result, console)
    return result


def _start(path: Path | None) -> Any:
    if path is None:
        return None
    found = load(path)
    if found is None:
        raise ValueError(f"{path} is not a checkpoint of this demonstration")
    return found[0]


def _in_turn(task: Task, wanted: list[Settings], console: Console | None) -> list[Result]:
    """Train one after the other, with both passes of a step at once, and a bar of images."""
    bar = throughput_bar(Console(stderr=True) if console is not None else None, "images")
    with bar as shown:
        epochs = wanted[0].epochs * len(wanted)
        line = shown.add_task("training", total=epochs * len(task.images.train[1]))
        counted = replace(task, threads=2, count=lambda images: shown.advance(line, images))
        return [counted.run(job) for job in wanted]


def _show(result: Result, console: Console) -> None:
    settings = result["settings"]
    rotation = f", rotated by {settings['degrees']:g} degrees" if settings["degrees"] else ""
    name = {"int8": "ElasticZO-INT8", "float": "ElasticZO"}[settings["arithmetic"]]
    table = Table(title=f"{name}, {settings['method']}, {result['data']}{rotation}")
    heads = ("seed", "epochs", "before %", "loss", "test accuracy %", "signs as in float %")
    for head in (*heads, "s an epoch", "checkpoint"):
        table.add_column(head, justify="left" if head == "checkpoint" else "right")
    for seed, run in zip(result["seeds"], result["runs"], strict=True):
        history, last = run["history"], run["history"][-1]
        table.add_row(
            str(seed), str(settings["epochs"]), f"{run['before']['accuracy']:.2f}",
            f"{last['loss']:.3f}", f"{last['accuracy']:.2f}",
            f"{mean(each['agreement'] for each in history):.1f}",
            f"{median(each['seconds'] for each in history):.1f}", run["checkpoint"],
        )  # fmt: skip
    console.print(table)
