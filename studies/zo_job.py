"""One run of the fine-tuning demonstration, executable in a separate process."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from seedbed.flow.jobs.data import few_shot
from seedbed.flow.jobs.mlp_task import Task
from seedbed.flow.run.cache import code
from seedbed.golden.classifier import adam
from seedbed.studies.zeroth_order import Loss, make_source, train

__all__ = ["BACKPROP", "Job", "Sources", "run"]

BACKPROP = "backpropagation"
#: Points of a loss curve; each is the mean over the same number of steps.
POINTS = 50


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
class Sources:
    """Trainings by each source, from the same start."""

    start: Task

    def run(self, job: Job) -> dict[str, Any]:
        """See :func:`run`."""
        return run(self.start, job)

    @cached_property
    def digest(self) -> str:
        """A hash of the settings, the images, the pre-trained network, and the code that runs."""
        start = self.start
        text = f"{start.settings} {np.__version__} {code(__name__)}"
        parts = [start.theta, *start.tune, *start.test]
        raw = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        return hashlib.sha256(text.encode() + raw).hexdigest()


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
