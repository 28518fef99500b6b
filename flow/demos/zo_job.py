"""One run of the fine-tuning demonstration, executable in a separate process."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from seedbed.flow.cache import code
from seedbed.flow.demos.data import Split, few_shot, rotated
from seedbed.golden.classifier import Mlp, adam
from seedbed.golden.zo import Loss, make_source, train

__all__ = [
    "BACKPROP",
    "Job",
    "Settings",
    "Task",
    "prepare",
    "run",
]

BACKPROP = "backpropagation"
#: Points of a loss curve; each is the mean over the same number of steps.
POINTS = 50


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of all runs on a data set, the same for all perturbation sources.

    ``shots`` are the training samples per class of the table's columns; ``degrees`` is the rotation
    of the images; ``eps`` and ``rate`` are those of Eq. 1 and 2.
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
    """A source with its parameters, the samples per class, and the random seed.

    ``eta`` multiplies the settings' rate.
    """

    source: str
    params: tuple[tuple[str, int], ...]
    shots: int
    seed: int
    eta: float = 1.0


@dataclass(frozen=True)
class Task:
    """Start of all jobs: the pre-trained network, and the rotated images as vectors."""

    settings: Settings
    model: Mlp
    theta: np.ndarray
    tune: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    upright: float

    def run(self, job: Job) -> dict[str, Any]:
        """See :func:`run`."""
        return run(self, job)

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

    Images, batches and perturbation seeds have separate random generators, so that all sources see
    the same images in the same order.
    """
    settings, model = task.settings, task.model
    image_rng, order, seeds = (np.random.default_rng([job.seed, k]) for k in range(3))
    images = few_shot(task.tune[1], job.shots, image_rng)
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

    # A diverged network may overflow once more in the test.
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
    finite = done.diverged is None
    points = np.array_split(done.losses, min(POINTS, settings.steps)) if finite else []
    return {
        "accuracy": accuracy,
        "losses": [float(part.mean()) for part in points],
        "diverged": done.diverged,
    }
