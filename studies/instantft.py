"""The InstantFT demonstration: LeNet-5 is fine-tuned on rotated images."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.instantft_task import ANGLES, SETTINGS, prepare, require_angle
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.pool import bar, run_jobs
from seedbed.spec.network import LENET5
from seedbed.studies.finetune_methods import METHODS, cost
from seedbed.studies.instantft_job import FIXED, Job, Methods
from seedbed.studies.instantft_plots import draw, show

__all__ = ["SEEDS", "run_instantft"]

SEEDS = 3
#: Curves of Figure 7a: method and cache. For a frozen network, the exact cache gives the same
#: result as no cache, in less time.
ANGLE_SWEEP = (
    *((name, "exact" if name == "InstantFT" else "none") for name in METHODS),
    (FIXED, "nf4"),
)
#: Rows of the table, with and without NF4.
TABLE = tuple((name, cache) for name in ("InstantFT", FIXED) for cache in ("exact", "nf4"))
#: Points of Figure 1.
TIMED = (*((name, "none") for name in METHODS), ("InstantFT", "exact"))
Result = dict[str, Any]


def run_instantft(
    data: Path | None,
    out: Path,
    *,
    angle: float = 90,
    seeds: int = SEEDS,
    workers: int = 2,
    console: Console | None = None,
) -> Result:
    """Pre-train, rotate, fine-tune; write ``out/instantft.json`` and the plots to ``out``.

    Parameters
    ----------
    data
        A folder with MNIST's IDX files; ``None``: scikit-learn's digits, scaled to 28 x 28.
    out
        Created if needed. Its ``instantft_cache`` holds the pre-trained network and the results of
        single runs, so that an interrupted demonstration can be resumed.
    angle
        Rotation angle of the tables and of Figure 1, 15..90 degrees.
    seeds
        Runs per figure.
    workers
        Number of processes.
    console
        Output of the tables; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for bad numbers or data, and
    ``OSError`` if ``out`` cannot be written.
    """
    for name, value in {"seeds": seeds, "workers": workers}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    require_angle(angle)
    split = digits() if data is None else mnist(data)
    out.mkdir(parents=True, exist_ok=True)
    settings, folder, shown = SETTINGS[split.name], out / "instantft_cache", console is not None
    with bar(shown) as progress, threadpool_limits(1):
        line = progress.add_task("pre-training", total=sum(steps for steps, _ in settings.phases))
        start = prepare(split, settings, folder, lambda steps: progress.advance(line, steps))
    task = Methods(start)

    def jobs(variant: tuple[str, str], degrees: float) -> list[Job]:
        return [Job(*variant, float(degrees), seed) for seed in range(seeds)]

    wanted = [job for variant in (*TABLE, *TIMED) for job in jobs(variant, angle)]
    wanted += [
        job for degrees in ANGLES for variant in ANGLE_SWEEP for job in jobs(variant, degrees)
    ]
    done = run_jobs(task, wanted, folder, workers=workers, progress=shown)
    table = [summary(jobs(variant, angle), done) for variant in TABLE]
    result = {
        "command": f"seedbed demo instantft --angle {angle:g} --seeds {seeds}"
        + ("" if data is None else " --data DIR"),
        "data": split.name,
        "tuned": task.count,
        "held": task.count,
        "upright": 100 * start.upright,
        "angle": angle,
        "seeds": list(range(seeds)),
        "settings": asdict(settings),
        "cache_bytes": cache_bytes(task),
        "costs": {name: asdict(cost(LENET5, method)) for name, method in METHODS.items()},
        "table": table,
        "times": [summary(jobs(variant, angle), done) for variant in TIMED],
        "angles": [
            summary(jobs(variant, degrees), done) for degrees in ANGLES for variant in ANGLE_SWEEP
        ],
        "gaps": gaps(table),
    }
    write_atomic(out / "instantft.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    draw(result, out)
    if console is not None:
        show(result, console)
    return result


def cache_bytes(task: Methods) -> dict[str, int]:
    """Return the forward cache's bytes for all training images, as float32, exact and NF4."""
    found = {"float32": 4 * sum(task.config("exact").cached) * task.count}
    for cache in ("exact", "nf4"):
        found[cache] = -(-task.config(cache).entry_bits // 8) * task.count
    return found


def summary(group: list[Job], done: dict[Job, dict[str, Any]]) -> Result:
    """Return means over the seeds, accuracies in percent, and the accuracy of each seed."""
    results = [done[job] for job in group]
    found: Result = {
        "method": group[0].method,
        "cache": group[0].cache,
        "angle": group[0].angle,
        "accuracies": [100 * each["after_held"] for each in results],
        "seconds": mean(each["seconds"] for each in results),
        "diverged": sum(each.get("diverged", False) for each in results),
        "saturations": sum(each.get("saturations", 0) for each in results),
    }
    for name in ("before_tuned", "before_held", "after_tuned", "after_held"):
        values = [100 * each[name] for each in results]
        found[name] = mean(values)
        found[f"{name}_std"] = stdev(values) if len(values) > 1 else None
    return found


def gaps(table: list[Result]) -> dict[str, float]:
    """Return the loss of held-out accuracy by fixed point and by NF4, in percentage points."""
    held = {(row["method"], row["cache"]): row["after_held"] for row in table}
    return {
        "fixed_point_with_nf4": held["InstantFT", "exact"] - held[FIXED, "nf4"],
        "nf4_in_float": held["InstantFT", "exact"] - held["InstantFT", "nf4"],
        "nf4_in_fixed_point": held[FIXED, "exact"] - held[FIXED, "nf4"],
    }
