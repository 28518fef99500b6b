"""Training of a compressed network's kept weights on rotated images, on the emitted Verilog."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from seedbed.flow.jobs.data import Split, digits
from seedbed.flow.jobs.instantft_task import sized
from seedbed.flow.jobs.mlp_task import SETTINGS, Task, flat, prepare
from seedbed.flow.jobs.sparse_network import Compressed, activations, compress
from seedbed.flow.run.cache import code, memo
from seedbed.sim import tools
from seedbed.sim.jobs import sparse_job
from seedbed.sim.jobs.sparse_job import Done, Job
from seedbed.sim.verilog import cosim
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.checks import require_int

__all__ = ["Settings", "draw", "images", "measure", "reported", "row_figures"]

#: Held-out images whose accuracy the model gives, and that the RTL classifies.
HELD, CLASSIFIED = 2000, 64
#: Images that choose the kept weights and the ranges of activations.
STATISTICS = 2000
#: The least bit of a value is 2^-14. The updates of all layers are shifted alike.
UNIT, UPDATE_SHIFT = 14, 8


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a training; ``rate`` and ``shift`` are those of the core's command.

    The rate falls linearly, epoch by epoch.
    """

    degrees: float = 30
    kept: int = 127
    images: int = 512
    batch: int = 32
    epochs: int = 20
    rate: int = 256
    shift: int = 12
    scale: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("kept", self.kept, 1, 65536)
        require_int("images", self.images, 1, 65536)
        require_int("epochs", self.epochs, 1, 65535)
        require_int("batch", self.batch, 1, 4096)
        require_int("rate", self.rate, 1, 65535)
        require_int("shift", self.shift, 0, 31)
        require_int("scale", self.scale, 0, 7)
        require_int("seed", self.seed, 0, 2**32 - 1)


@dataclass(frozen=True)
class Drawn:
    """A network in floating point, and images.

    ``statistics`` are upright images as vectors in 0..1, and their classes, which choose formats
    and what is kept. ``x`` are rotated images as vectors of bytes, ``labels`` their classes: those
    to train on, of which ``order`` has the numbers in each epoch, and then those that are held out.
    """

    task: Task
    statistics: tuple[np.ndarray, np.ndarray]
    x: np.ndarray
    labels: np.ndarray
    order: np.ndarray

    @property
    def count(self) -> int:
        """Images to train on."""
        return self.order.shape[1]


def images(split: Split, settings: Settings) -> Drawn:
    """Return a network that is pre-trained on upright images, and rotated images.

    Images to train on are drawn at random. Raises ``ValueError`` for too few images.
    """
    parts = {name: getattr(split, name) for name in ("pre", "tune", "test")}
    whole = Split(split.name, **{name: (sized(x), y) for name, (x, y) in parts.items()})
    task = prepare(whole, replace(SETTINGS["mnist"], degrees=settings.degrees))
    x, labels = (part[:STATISTICS] for part in whole.pre)
    picked, order = (np.random.default_rng([settings.seed, k]) for k in range(2))
    require_int("images", settings.images, 1, len(task.tune[1]))
    chosen = picked.permutation(len(task.tune[1]))[: settings.images]
    held = slice(0, HELD)
    return Drawn(
        task=task,
        statistics=(flat(x), labels),
        x=activations(np.concatenate([task.tune[0][chosen], task.test[0][held]])),
        labels=np.concatenate([task.tune[1][chosen], task.test[1][held]]),
        order=np.array([order.permutation(len(chosen)) for _ in range(settings.epochs)]),
    )


def draw(
    config: SparseTrainerConfig, split: Split, settings: Settings
) -> tuple[Job, Compressed, Task]:
    """Return a training, the network that it starts from, and the network in floating point.

    The network is pre-trained on upright images, and compressed to 4 bits per weight. Images
    to train on are drawn at random; they and the held-out images are rotated.

    Raises ``ValueError`` for more entries than the core holds, or too few images.
    """
    require_int("kept", settings.kept, 1, config.entries)
    require_int("batch", settings.batch, 1, config.batch)
    drawn = images(split, settings)
    task, count = drawn.task, drawn.count
    network = compress(
        config, task.model, task.theta, *drawn.statistics, kept=settings.kept, unit=UNIT,
        scale=settings.scale, update_shift=UPDATE_SHIFT,
    )  # fmt: skip
    job = Job(
        config=config,
        layers=network.layers,
        parameters=network.parameters,
        x=drawn.x,
        labels=drawn.labels,
        order=drawn.order,
        batch=settings.batch,
        seed=settings.seed,
        rate=settings.rate,
        decay=settings.rate // settings.epochs,
        shift=settings.shift,
        classified=np.arange(count, count + min(CLASSIFIED, len(drawn.x) - count)),
    )
    return job, network, task


def measure(
    path: Path, job: Job, *, build: Path,
    progress: Callable[[str, float], None] = lambda step, share: None,
) -> dict[str, Any]:  # fmt: skip
    """Train on the Verilog in ``path``; return cycles, reads and writes, and tool versions.

    Raises ``RuntimeError`` if the Verilog does not build, and
    :class:`~seedbed.sim.harness.Mismatch` if a bit differs from the model.
    """
    versions = {"numpy": version("numpy"), "amaranth": version("amaranth")}
    versions |= {name.lower(): tools.version(name) for name in ("YOSYS", "VERILATOR", "CXX")}
    arrays = [job.x, job.labels, job.order, job.classified]
    for part in job.parameters:
        arrays += [part.base, part.biases, part.entries]
    numbers = [job.batch, job.seed, job.rate, job.decay, job.shift]
    key = {
        "verilog": sha256(path.read_bytes()).hexdigest(),
        "data": sha256(b"".join(part.tobytes() for part in arrays)).hexdigest(),
        "code": sha256((code(__name__) + cosim.MAIN.read_text()).encode()).hexdigest(),
        "job": [job.order.shape, numbers, repr(job.layers)],
        "config": repr(job.config),
        "tools": versions,
    }

    def compute() -> dict[str, Any]:
        progress("building the simulation", 0)
        bench = sparse_job.executable(path, "sparse_trainer", job.config, build=build / "job")
        with threadpool_limits(1):
            done = sparse_job.run(
                bench, job, seed=job.seed,
                progress=lambda share: progress("training in the RTL", share),
            )  # fmt: skip
        return figures(job, done) | {"tools": versions}

    return memo(build / "cache", "sparse_job", key, compute)


def figures(job: Job, done: Done) -> dict[str, Any]:
    """Return cycles and accesses of a job in the RTL."""
    samples, steps, count = job.order.size, len(done.log), len(job.classified)
    # From a sample's result to the next one's: a forward pass without a perturbation.
    forward = float(np.median(np.diff(done.when["before"].astype(np.int64))))
    step = done.cycles["train"] / steps
    passes = 2 * forward * samples / steps

    def both(counts: np.ndarray, of: int) -> list[float]:
        return [float(counts.min()) / of, float(counts.max()) / of]

    return {
        "cycles": done.cycles,
        "job_cycles": sum(done.cycles[name] for name in ("load", "train", "read")),
        "steps": steps,
        "step_cycles": step,
        "forward_cycles": forward,
        "step_ratio": step / passes,
        "pass_beats": done.beats["train"] / (2 * samples),
        "reads_per_pass": both(done.reads["pass"], 2 * samples),
        "reads_per_update": both(done.reads["update"], steps),
        "writes_per_update": both(done.writes, steps),
        "saturated": done.saturated,
        "classified": count,
        "correct_before": int(done.correct["before"].sum()),
        "correct_after": int(done.correct["after"].sum()),
        "cycles_per_second": sum(done.cycles.values()) / done.seconds,
        "seconds": done.seconds,
    }


def reported(verilog: Path, config: SparseTrainerConfig, build: Path) -> dict[str, Any]:
    """Return the result of a training of two epochs on the digits, rotated by 30 degrees."""
    settings = Settings(epochs=2)
    job, *_ = draw(config, digits(), settings)
    found = measure(verilog, job, build=build)
    return found | {"data": "digits", "seed": settings.seed}


def row_figures(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a report row from a result of :func:`measure`."""
    names = ("job_cycles", "step_cycles", "forward_cycles", "step_ratio", "cycles_per_second")
    return {
        **{name: found[name] for name in names},
        "reads_per_update": found["reads_per_update"][1],
        "writes_per_update": found["writes_per_update"][1],
    }
