"""The InstantFT demonstration: LeNet-5 is turned out of its depth, and fine-tuned back."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from seedbed.flow.demos.data import digits, mnist
from seedbed.flow.demos.instantft_job import FIXED, Job, Settings, Task, prepare
from seedbed.flow.demos.instantft_plots import draw, show
from seedbed.flow.files import write_atomic
from seedbed.flow.pool import bar, run_jobs
from seedbed.spec.finetune import METHODS, cost
from seedbed.spec.network import LENET5

__all__ = ["ANGLES", "SEEDS", "SETTINGS", "run_instantft"]

#: Pre-training by data set: steps and rates of Adam. All else is the paper's, but the digits'
#: learning rate: a network pre-trained on 500 of them has activations more than twice as large.
SETTINGS = {
    "digits": Settings(phases=((500, 1e-3), (250, 2e-4)), rate=0.02),
    "mnist": Settings(phases=((2000, 1e-3), (1000, 2e-4))),
}
#: Angles of Figure 7a, in degrees.
ANGLES = (15, 30, 45, 60, 75, 90)
SEEDS = 3
#: What Figure 7a has of each angle, beside the accuracy before: method and cache. A method whose
#: network is frozen gives the same with the exact cache as without, in less time.
SWEPT = (
    *((name, "exact" if name == "InstantFT" else "none") for name in METHODS),
    (FIXED, "nf4"),
)
#: What the table has, with and without NF4.
TABLE = tuple((name, cache) for name in ("InstantFT", FIXED) for cache in ("exact", "nf4"))
#: What Figure 1 has.
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
    """Pre-train, rotate, fine-tune; write ``out/instantft.json`` and the plots beside it.

    Parameters
    ----------
    data
        A folder with MNIST's IDX files; ``None`` takes scikit-learn's digits, made 28 x 28.
    out
        Made if needed. The pre-trained network and the results of single runs are kept in its
        ``instantft_cache``, so that an interrupted demonstration goes on where it was.
    angle
        Degrees of the tables and of Figure 1, 15..90.
    seeds
        Runs a figure.
    workers
        Processes.
    console
        Takes the tables, while standard error shows the progress; ``None`` shows nothing.

    Returns what the JSON holds. Raises ``ValueError`` for bad numbers or data, ``OSError`` where
    ``out`` cannot be written.
    """
    for name, value in {"seeds": seeds, "workers": workers}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    if not ANGLES[0] <= angle <= ANGLES[-1]:
        raise ValueError(f"angle must be in {ANGLES[0]}..{ANGLES[-1]} degrees, not {angle:g}")
    split = digits() if data is None else mnist(data)
    out.mkdir(parents=True, exist_ok=True)
    settings, folder, shown = SETTINGS[split.name], out / "instantft_cache", console is not None
    with bar(shown) as progress, threadpool_limits(1):
        line = progress.add_task("pre-training", total=sum(steps for steps, _ in settings.phases))
        task = prepare(split, settings, folder, lambda steps: progress.advance(line, steps))

    def jobs(what: tuple[str, str], degrees: float) -> list[Job]:
        return [Job(*what, float(degrees), seed) for seed in range(seeds)]

    wanted = [job for what in (*TABLE, *TIMED) for job in jobs(what, angle)]
    wanted += [job for degrees in ANGLES for what in SWEPT for job in jobs(what, degrees)]
    done = run_jobs(task, wanted, folder, workers=workers, progress=shown)
    result = {
        "command": f"seedbed demo instantft --angle {angle:g} --seeds {seeds}"
        + ("" if data is None else " --data DIR"),
        "data": split.name,
        "tuned": task.count,
        "held": task.count,
        "upright": 100 * task.upright,
        "angle": angle,
        "seeds": list(range(seeds)),
        "settings": asdict(settings),
        "cache_bytes": cache_bytes(task),
        "costs": {name: asdict(cost(LENET5, method)) for name, method in METHODS.items()},
        "table": [summary(jobs(what, angle), done) for what in TABLE],
        "times": [summary(jobs(what, angle), done) for what in TIMED],
        "angles": [summary(jobs(what, each), done) for each in ANGLES for what in SWEPT],
    }
    result["gaps"] = gaps(result["table"])
    write_atomic(out / "instantft.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    draw(result, out)
    if console is not None:
        show(result, console)
    return result


def cache_bytes(task: Task) -> dict[str, int]:
    """Return the forward cache's bytes for all tuned images, as float32, exact and NF4."""
    found = {"float32": 4 * sum(task.config("exact").cached) * task.count}
    for cache in ("exact", "nf4"):
        found[cache] = -(-task.config(cache).entry_bits // 8) * task.count
    return found


def summary(group: list[Job], done: dict[Job, dict[str, Any]]) -> Result:
    """Return means over the seeds, accuracies in percent, and what each seed gave."""
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
    """Return points of held-out accuracy that fixed point costs, and that NF4 does."""
    held = {(row["method"], row["cache"]): row["after_held"] for row in table}
    return {
        "fixed_point_with_nf4": held["InstantFT", "exact"] - held[FIXED, "nf4"],
        "nf4_in_float": held["InstantFT", "exact"] - held["InstantFT", "nf4"],
        "nf4_in_fixed_point": held[FIXED, "exact"] - held[FIXED, "nf4"],
    }
