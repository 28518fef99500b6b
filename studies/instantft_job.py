"""One run of the InstantFT demonstration, executable in a separate process."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from time import process_time
from typing import Any

import numpy as np

from seedbed.flow.jobs.data import rotated
from seedbed.flow.jobs.instantft_task import Task, to_bytes
from seedbed.flow.run.cache import code
from seedbed.golden import nf4
from seedbed.golden.instantft import InstantFt, batches, quantised
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import LENET5
from seedbed.studies import finetune
from seedbed.studies.finetune_methods import METHODS

__all__ = ["FIXED", "Job", "Methods"]

#: The method with fixed-point training; the others are those of ``METHODS``.
FIXED = "fixed point"


@dataclass(frozen=True)
class Job:
    """A method, its forward cache (``none``, ``exact`` or ``nf4``), an angle and a seed."""

    method: str
    cache: str
    angle: float
    seed: int


@dataclass(frozen=True)
class Methods:
    """Fine-tuning by each method, from the same start."""

    start: Task

    @cached_property
    def digest(self) -> str:
        """A hash of the settings, the images, the pre-trained network, and the code that runs."""
        text = f"{self.start.settings} {np.__version__} {code(__name__)}"
        raw = b"".join(part.tobytes() for part in self.start.parameters.values())
        raw += self.start.images.tobytes() + self.start.labels.tobytes()
        return hashlib.sha256(text.encode() + raw).hexdigest()

    @property
    def count(self) -> int:
        """Number of training images, and of held-out images."""
        return min(self.start.settings.images, len(self.start.labels) // 2)

    def config(self, cache: str) -> InstantFtConfig:
        """Return the core's configuration."""
        settings = self.start.settings
        return InstantFtConfig(rank=settings.rank, batch=settings.batch, cache=cache)

    def run(self, job: Job) -> dict[str, Any]:
        """Fine-tune; return accuracies before and after, 0..1, and seconds of processor time.

        Floating point also returns whether training diverged (infinity or NaN). Fixed point
        returns the mean loss of the last epoch and the count of saturated numbers. Accuracies are
        those of inference, which does not use the cache. Images, adapters and batches have
        separate random generators, so that all methods see the same images in the same order.
        """
        image_rng, adapters, order = (np.random.default_rng([job.seed, k]) for k in range(3))
        start, count = self.start, self.count
        picked = image_rng.permutation(len(start.labels))[: 2 * count]
        images, labels = to_bytes(rotated(start.images[picked], job.angle)), start.labels[picked]
        schedule = batches(count, start.settings.batch, start.settings.epochs, order)
        run = self._fixed if job.method == FIXED else self._float
        # A diverged network may overflow until its run ends.
        with np.errstate(over="ignore", invalid="ignore"):
            return run(job, adapters, images, labels, schedule)

    def _fixed(
        self,
        job: Job,
        adapters: np.random.Generator,
        images: np.ndarray,
        labels: np.ndarray,
        schedule: Iterator[np.ndarray],
    ) -> dict[str, Any]:
        config, settings, count = self.config(job.cache), self.start.settings, self.count
        weights = quantised(config, self.start.parameters)
        core = InstantFt(config, weights, adapters, settings.deviation)
        base = core.base(images)
        before = core.predict(base) == labels
        start_time = process_time()
        losses = core.train(core.cached(base[:count]), labels[:count], schedule, settings.rate)
        seconds = process_time() - start_time
        after = core.predict(base) == labels
        last = losses[-(len(losses) // settings.epochs) :].sum() / count
        return {
            **_accuracies("before", before, count),
            **_accuracies("after", after, count),
            "seconds": seconds,
            "loss": float(last) / config.values.one,
            "saturations": core.saturations.count,
        }

    def _float(
        self,
        job: Job,
        adapters: np.random.Generator,
        images: np.ndarray,
        labels: np.ndarray,
        schedule: Iterator[np.ndarray],
    ) -> dict[str, Any]:
        settings, count, method = self.start.settings, self.count, METHODS[job.method]
        x = images[:, None].astype(np.float32) / np.float32(255)
        theta = finetune.begin(
            LENET5,
            method,
            self.start.parameters,
            adapters,
            rank=settings.rank,
            deviation=settings.deviation,
        )
        caches: dict[str, Callable[[np.ndarray], np.ndarray] | None] = {
            "none": None,
            "exact": np.asarray,
            "nf4": partial(nf4.through, block=self.config("nf4").block),
        }

        def correct(theta: dict[str, np.ndarray]) -> np.ndarray:
            return finetune.predict(LENET5, method, theta, x) == labels

        before = correct(theta)
        start_time = process_time()
        theta = finetune.train(
            LENET5,
            method,
            theta,
            x[:count],
            labels[:count],
            schedule,
            rate=settings.rate / settings.batch,
            cache=caches[job.cache],
        )
        seconds = process_time() - start_time
        after = correct(theta)
        return {
            **_accuracies("before", before, count),
            **_accuracies("after", after, count),
            "seconds": seconds,
            "diverged": not all(np.isfinite(value).all() for value in theta.values()),
        }


def _accuracies(when: str, correct: np.ndarray, count: int) -> dict[str, float]:
    return {f"{when}_tuned": correct[:count].mean(), f"{when}_held": correct[count:].mean()}
