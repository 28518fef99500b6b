"""One run of the fine-tuning demonstration, as a process of its own can do it."""

import hashlib
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from seedbed.flow.cache import code, memo
from seedbed.flow.demos.data import Split, few_shot, rotated
from seedbed.golden.classifier import Mlp, adam
from seedbed.golden.zo import Loss, make_source, train

__all__ = [
    "BACKPROP",
    "Job",
    "NotKeptError",
    "Settings",
    "Task",
    "begin",
    "kept",
    "prepare",
    "run",
    "run_here",
]

BACKPROP = "backpropagation"
#: Points of a loss curve; each is the mean over as many steps as there are steps to a point.
POINTS = 50


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all runs on a data set share, whatever the source of their perturbations.

    ``shots`` are the training samples a class of the table's columns; ``degrees`` the rotation
    that fine-tuning has to cope with; ``eps`` and ``rate`` those of Eq. 1 and 2.
    """

    hidden: int
    shots: tuple[int, ...]
    steps: int
    rate: float
    eps: float
    batch: int = 64
    degrees: float = 30
    pre_steps: int = 1000
    pre_rate: float = 3e-3
    backprop_steps: int = 1000
    backprop_rate: float = 1e-3


@dataclass(frozen=True)
class Job:
    """A source with its parameters, the samples a class, and the seed of everything random.

    ``eta`` multiplies the settings' rate.
    """

    source: str
    params: tuple[tuple[str, int], ...]
    shots: int
    seed: int
    eta: float = 1.0


@dataclass(frozen=True)
class Task:
    """The pre-trained network and the rotated images, flat: what every job starts from."""

    settings: Settings
    model: Mlp
    theta: np.ndarray
    tune: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    upright: float

    @cached_property
    def digest(self) -> str:
        """A hash of the settings, the images, the pre-trained network, and the code that runs."""
        text = f"{self.settings} {np.__version__} {code(__name__)}"
        parts = [self.theta, *self.tune, *self.test]
        raw = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        return hashlib.sha256(text.encode() + raw).hexdigest()


def prepare(split: Split, settings: Settings) -> Task:
    """Pre-train on the upright images, and rotate the others."""
    x, labels = split.pre
    x = flat(x)
    model = Mlp((x.shape[1], settings.hidden, 10))
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        theta = adam(
            model,
            model.init(rng),
            x,
            labels,
            steps=settings.pre_steps,
            batch=settings.batch,
            rate=settings.pre_rate,
            rng=rng,
        )
        upright = model.accuracy(theta, flat(split.test[0]), split.test[1])
    tune, test = (
        (flat(rotated(images, settings.degrees)), names)
        for images, names in (split.tune, split.test)
    )
    return Task(settings, model, theta, tune, test, upright)


def flat(images: np.ndarray) -> np.ndarray:
    """Return the images as rows."""
    return images.reshape(len(images), -1)


def run(task: Task, job: Job) -> dict[str, Any]:
    """Fine-tune, and return the held-out accuracy, the loss curve and the step of divergence.

    Images, batches and perturbation seeds have a generator each, so that all sources see the same
    images in the same order.
    """
    settings, model = task.settings, task.model
    chosen, order, seeds = (np.random.default_rng([job.seed, k]) for k in range(3))
    images = few_shot(task.tune[1], job.shots, chosen)
    x, labels = (part[images] for part in task.tune)
    if job.source == BACKPROP:
        theta = adam(
            model,
            task.theta,
            x,
            labels,
            steps=settings.backprop_steps,
            batch=settings.batch,
            rate=settings.backprop_rate,
            rng=order,
        )
        return {"accuracy": model.accuracy(theta, *task.test), "losses": [], "diverged": None}

    def batches() -> Iterator[Loss]:
        while True:
            picked = order.integers(len(x), size=settings.batch)
            yield partial(model.loss, x=x[picked], labels=labels[picked])

    # A network that diverged may overflow once more when it is tried.
    with np.errstate(over="ignore", invalid="ignore"):
        done = train(
            batches(),
            task.theta,
            make_source(job.source, **dict(job.params)),
            steps=settings.steps,
            eps=settings.eps,
            rate=settings.rate * job.eta,
            rng=seeds,
        )
        accuracy = model.accuracy(done.theta, *task.test)
    whole = done.diverged is None
    points = np.array_split(done.losses, min(POINTS, settings.steps)) if whole else []
    return {
        "accuracy": accuracy,
        "losses": [float(part.mean()) for part in points],
        "diverged": done.diverged,
    }


class NotKeptError(Exception):
    """Raised in place of running."""


def kept(task: Task, job: Job, folder: Path, *, may_run: bool = False) -> dict[str, Any]:
    """Return :func:`run`'s result from ``folder``, where it is kept as long as it holds.

    Raises :class:`NotKeptError` where it is not there, unless ``may_run``.
    """

    def compute() -> dict[str, Any]:
        if not may_run:
            raise NotKeptError
        return run(task, job)

    return memo(folder, "run", {"task": task.digest, "job": asdict(job)}, compute)


_here: list[tuple[Task, Path]] = []


def begin(task: Task, folder: Path) -> None:
    """Take what :func:`run_here` works on; one thread, and interrupts are the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    _here[:] = [(task, folder)]


def run_here(job: Job) -> dict[str, Any]:
    """Run a job on what this process has begun with, and keep its result."""
    task, folder = _here[0]
    return kept(task, job, folder, may_run=True)
