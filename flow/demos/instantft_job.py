"""One run of the InstantFT demonstration, executable in a separate process."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy.ndimage import zoom

from seedbed.flow.cache import code
from seedbed.flow.demos.data import Split, rotated
from seedbed.flow.demos.pretrained import pretrained
from seedbed.golden import finetune, network, nf4
from seedbed.golden.instantft import InstantFt, batches, quantised
from seedbed.spec.finetune import METHODS
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import LENET5

__all__ = ["FIXED", "Job", "Settings", "Task", "prepare"]

#: The method with fixed-point training; the others are those of ``METHODS``.
FIXED = "fixed point"
#: Side of an image, and zero margin around a digit, as in MNIST.
SIDE, MARGIN = 28, 4


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of all runs on a data set.

    ``phases`` are the steps and rates of pre-training by Adam; ``images`` is the maximum number of
    training images and of held-out images; ``deviation`` is the standard deviation of the
    adapters' A.
    """

    phases: tuple[tuple[int, float], ...]
    pre_batch: int = 64
    images: int = 1024
    epochs: int = 10
    batch: int = 20
    rate: float = 0.1
    rank: int = 4
    deviation: float = 0.05


@dataclass(frozen=True)
class Job:
    """A method, its forward cache (``none``, ``exact`` or ``nf4``), an angle and a seed."""

    method: str
    cache: str
    angle: float
    seed: int


@dataclass(frozen=True)
class Task:
    """Start of all jobs: the pre-trained network, and upright images not used for it."""

    settings: Settings
    parameters: dict[str, np.ndarray]
    images: np.ndarray
    labels: np.ndarray
    upright: float

    @cached_property
    def digest(self) -> str:
        """A hash of the settings, the images, the pre-trained network, and the code that runs."""
        text = f"{self.settings} {np.__version__} {code(__name__)}"
        raw = b"".join(part.tobytes() for part in self.parameters.values())
        raw += self.images.tobytes() + self.labels.tobytes()
        return hashlib.sha256(text.encode() + raw).hexdigest()

    @property
    def count(self) -> int:
        """Number of training images, and of held-out images."""
        return min(self.settings.images, len(self.labels) // 2)

    def config(self, cache: str) -> InstantFtConfig:
        """Return the core's configuration."""
        return InstantFtConfig(rank=self.settings.rank, batch=self.settings.batch, cache=cache)

    def run(self, job: Job) -> dict[str, Any]:
        """Fine-tune; return accuracies before and after, 0..1, and seconds of processor time.

        Floating point also returns whether training diverged (infinity or NaN). Fixed point
        returns the mean loss of the last epoch and the count of saturated numbers. Accuracies are
        those of inference, which does not use the cache. Images, adapters and batches have
        separate random generators, so that all methods see the same images in the same order.
        """
        image_rng, start, order = (np.random.default_rng([job.seed, k]) for k in range(3))
        picked = image_rng.permutation(len(self.labels))[: 2 * self.count]
        images, labels = to_bytes(rotated(self.images[picked], job.angle)), self.labels[picked]
        settings, count = self.settings, self.count
        schedule = batches(count, settings.batch, settings.epochs, order)
        run = self._fixed if job.method == FIXED else self._float
        # A diverged network may overflow until its run ends.
        with np.errstate(over="ignore", invalid="ignore"):
            return run(job, start, images, labels, schedule)

    def _fixed(
        self,
        job: Job,
        start: np.random.Generator,
        images: np.ndarray,
        labels: np.ndarray,
        schedule: Iterator[np.ndarray],
    ) -> dict[str, Any]:
        config, count = self.config(job.cache), self.count
        core = InstantFt(config, quantised(config, self.parameters), start, self.settings.deviation)
        base = core.base(images)
        before = core.predict(base) == labels
        start_time = process_time()
        losses = core.train(core.cached(base[:count]), labels[:count], schedule, self.settings.rate)
        seconds = process_time() - start_time
        after = core.predict(base) == labels
        last = losses[-(len(losses) // self.settings.epochs) :].sum() / count
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
        start: np.random.Generator,
        images: np.ndarray,
        labels: np.ndarray,
        schedule: Iterator[np.ndarray],
    ) -> dict[str, Any]:
        settings, count, method = self.settings, self.count, METHODS[job.method]
        x = images[:, None].astype(np.float32) / np.float32(255)
        theta = finetune.begin(
            LENET5,
            method,
            self.parameters,
            start,
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


def to_bytes(images: np.ndarray) -> np.ndarray:
    """Return images of 0..1 as bytes."""
    return np.clip(np.rint(images * 255), 0, 255).astype(np.uint8)


def sized(images: np.ndarray) -> np.ndarray:
    """Return images of 28 x 28; smaller ones are scaled to 20 x 20 and zero-padded, as in MNIST."""
    if images.shape[1] == SIDE:
        return images
    factor = (SIDE - 2 * MARGIN) / images.shape[1]
    grown = zoom(images, (1, factor, factor), order=1)
    return np.pad(grown, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)))


def prepare(split: Split, settings: Settings, folder: Path, advance: Callable[[int], None]) -> Task:
    """Pre-train on the upright images, or load the cached result from ``folder``.

    ``advance`` is called with the number of completed steps. Training and held-out images are
    drawn from the test images or, if they are too few, from all images not used for pre-training.
    """
    x, labels = to_bytes(sized(split.pre[0]))[:, None] / np.float32(255), split.pre[1]
    images, names = split.test
    if len(names) < 2 * settings.images:
        parts = (split.tune, split.test)
        images, names = (np.concatenate(each) for each in zip(*parts, strict=True))
    images = sized(images)
    parameters = pretrained(
        folder, x, labels, {"phases": settings.phases, "batch": settings.pre_batch},
        lambda: _pretrain(x, labels, settings, advance),
    )  # fmt: skip
    upright = network.accuracy(
        LENET5, parameters, to_bytes(images)[:, None] / np.float32(255), names
    )
    return Task(settings, parameters, images, names, upright)


def _pretrain(
    x: np.ndarray, labels: np.ndarray, settings: Settings, advance: Callable[[int], None]
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    theta = network.init(LENET5, rng)

    def drawn(steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(steps):
            picked = rng.integers(len(x), size=settings.pre_batch)
            yield x[picked], labels[picked]

    for steps, rate in settings.phases:
        for trained in network.adam(LENET5, theta, drawn(steps), rate=rate):
            last = trained
            advance(1)
        theta = last
    return theta
