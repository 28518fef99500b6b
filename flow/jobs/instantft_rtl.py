"""Fine-tuning jobs on the emitted Verilog, and the paper's: LeNet-5 on rotated images."""

from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.instantft_task import SETTINGS, prepare, require, require_angle, turned
from seedbed.flow.run.cache import code, memo
from seedbed.sim import tools
from seedbed.sim.job import Epoch, Memory, every_epoch
from seedbed.sim.jobs import instantft_job
from seedbed.sim.jobs.instantft_job import MEMORY, Done, Job
from seedbed.sim.verilog import cosim
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["measure", "reported", "row_figures", "simulate"]

#: Stalled cycles of 16, at every port and at the memory, in a job with stalls.
STALLS = 8


def measure(
    verilog: Path,
    config: InstantFtConfig,
    data: Path | None,
    *,
    build: Path,
    folder: Path,
    images: int = 1024,
    epochs: int = 10,
    angle: float = 90,
    seed: int = 0,
    stalls: bool = False,
    progress: Callable[[str, float], None] = lambda step, share: None,
) -> dict[str, Any]:
    """Run the job on ``verilog``; return cycles, accuracies, settings and tool versions.

    Parameters
    ----------
    verilog, config
        The emitted core and its configuration.
    data
        A folder with MNIST's IDX files; ``None``: scikit-learn's digits, scaled to 28 x 28.
    build, folder
        Folder of the executable and the cached result, and folder of the pre-trained network.
    images, epochs, angle
        Number of training images, epochs, and rotation in degrees. As many other images, or the
        remaining ones, are held out.
    seed
        Seed of the images, the adapters, the order of the batches, and the memory.
    stalls
        Whether all ports stall in half of the cycles; by default only the memory stalls, in an
        eighth of the cycles.
    progress
        Called with the current step and its completed share, 0..1.

    Raises ``ValueError`` for bad numbers or data, ``RuntimeError`` if the Verilog does not
    build, and :class:`~seedbed.sim.harness.Mismatch` if a bit differs from the model.
    """
    require(config, images=images, epochs=epochs, seed=seed)
    require_angle(angle)
    split = digits() if data is None else mnist(data)
    settings = SETTINGS[split.name]
    steps, done = sum(steps for steps, _ in settings.phases), 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        progress("pre-training", done / steps)

    with threadpool_limits(1):
        task = prepare(split, settings, folder, advance)
    tuned = min(images, len(task.labels) - 1)
    held = min(tuned, len(task.labels) - tuned)
    job = turned(config, task, images=tuned, held=held, epochs=epochs, angle=angle, seed=seed)
    found = simulate(verilog, job, build=build, seed=seed, stalls=stalls, progress=progress)
    return {"data": split.name, "angle": angle, "upright": 100 * task.upright, **found}


def simulate(
    verilog: Path,
    job: Job,
    *,
    build: Path,
    seed: int,
    stalls: bool = False,
    epoch: Epoch = every_epoch,
    progress: Callable[[str, float], None] = lambda step, share: None,
) -> dict[str, Any]:
    """Run a job on ``verilog``; return cycles, accuracies, and tool versions.

    Parameters
    ----------
    verilog, job
        The emitted core, and the job.
    build
        Folder of the executable and the cached result.
    seed, stalls, progress
        As :func:`measure` has them.
    epoch
        Trains the model for an epoch, see :meth:`~seedbed.sim.jobs.instantft_job.Job.acts`.

    Raises ``RuntimeError`` and :class:`~seedbed.sim.harness.Mismatch`, as :func:`measure`.
    """
    config = job.config
    memory = Memory(gaps=STALLS) if stalls else MEMORY
    versions = {"numpy": version("numpy"), "amaranth": version("amaranth")}
    versions |= {name.lower(): tools.version(name) for name in ("YOSYS", "VERILATOR", "CXX")}
    arrays = [job.images, job.labels, *job.weights.values(), np.concatenate(job.order)]
    arrays += [part for parts in job.adapters or () for part in parts]
    key = {
        "verilog": sha256(verilog.read_bytes()).hexdigest(),
        "data": sha256(b"".join(part.tobytes() for part in arrays)).hexdigest(),
        "code": sha256((code(__name__) + cosim.MAIN.read_text()).encode()).hexdigest(),
        "job": [job.tuned, job.epochs, job.eta, job.a_seed, job.deviation, seed, stalls],
        "config": repr(config),
        "tools": versions,
    }

    def compute() -> dict[str, Any]:
        progress("building the simulation", 0)
        bench = instantft_job.executable(verilog, config, build=build / "job")
        with threadpool_limits(1):
            found = instantft_job.run(
                bench, job, seed=seed, pauses=STALLS if stalls else 0, memory=memory, epoch=epoch,
                progress=lambda share: progress("fine-tuning in the RTL", share),
            )  # fmt: skip
        return {
            "tuned": job.tuned,
            "held": len(job.images) - job.tuned,
            "epochs": job.epochs,
            "seed": seed,
            "stalls": stalls,
            "lanes": config.lanes,
            "config": repr(config),
            "memory": asdict(memory),
            "rate": job.eta,
            **_figures(job, found),
            "tools": versions,
        }

    return memo(build / "cache", "job", key, compute)


def _figures(job: Job, done: Done) -> dict[str, Any]:
    """Return cycles, losses and accuracies in percent."""
    cycles, count = done.cycles, job.tuned
    by_epoch = np.array_split(done.losses, job.epochs)
    found: dict[str, Any] = {
        "cycles": cycles,
        "job_cycles": done.job,
        "counters": done.counters,
        "losses": [float(part.sum()) / count / job.config.values.one for part in by_epoch],
        "seconds": done.seconds,
        "cycles_per_second": (done.job + cycles["infer"]) / done.seconds,
    }
    if job.epochs > 1:
        found["pass_cycles"] = cycles["cached"] / (count * (job.epochs - 1))
    for when, correct in (("before", done.before), ("after", done.after)):
        found[f"{when}_tuned"] = 100 * float(correct[:count].mean())
        found[f"{when}_held"] = 100 * float(correct[count:].mean())
    return found


def reported(verilog: Path, config: InstantFtConfig, build: Path) -> dict[str, Any]:
    """Return the result of the job on the digits, for a report row."""
    folder = build / "demo" / "digits" / "instantft_cache"
    return measure(verilog, config, None, build=build, folder=folder)


def row_figures(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a report row from a result of :func:`measure`."""
    return {
        "images": found["tuned"],
        "held_images": found["held"],
        **{f"{phase}_cycles": found["cycles"][phase] for phase in ("load", "fill", "cached")},
        "read_cycles": found["cycles"]["read"],
        **{name: found[name] for name in ("job_cycles", "pass_cycles", "cycles_per_second")},
        "accuracy_before": found["before_held"],
        "accuracy_after": found["after_held"],
    }
