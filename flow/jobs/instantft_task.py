"""InstantFT's jobs, and what they start from: a network, and images not used for it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.ndimage import zoom

from seedbed.flow.jobs.data import Split, rotated
from seedbed.flow.jobs.pretrained import pretrained
from seedbed.golden import network
from seedbed.golden.instantft import batches, quantised
from seedbed.sim.jobs.instantft_job import Adapters, Job
from seedbed.spec.checks import require_int
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import LENET5

__all__ = [
    "ANGLES", "SETTINGS", "SIDE", "Settings", "Task", "fine_tuning", "prepare", "require",
    "require_angle", "sized", "to_bytes", "turned",
]  # fmt: skip

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


#: Pre-training by data set: steps and rates of Adam. All other settings are the paper's, except the
#: digits' learning rate: a network pre-trained on 500 digits has activations over twice as large.
SETTINGS = {
    "digits": Settings(phases=((500, 1e-3), (250, 2e-4)), rate=0.02),
    "mnist": Settings(phases=((2000, 1e-3), (1000, 2e-4))),
}
#: Angles of Figure 7a, in degrees.
ANGLES = (15, 30, 45, 60, 75, 90)


@dataclass(frozen=True)
class Task:
    """Start of all jobs: the pre-trained network, and upright images not used for it.

    ``upright`` is the network's accuracy on them, 0..1.
    """

    settings: Settings
    parameters: dict[str, np.ndarray]
    images: np.ndarray
    labels: np.ndarray
    upright: float


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


def require(config: InstantFtConfig, *, images: int, epochs: int, seed: int) -> None:
    """Raise ``ValueError`` for a job that is out of range."""
    require_int("images", images, 1, config.entries)
    require_int("epochs", epochs, 1, 65535)
    require_int("seed", seed, 0, 2**32 - 1)


def fine_tuning(
    config: InstantFtConfig,
    parameters: Mapping[str, np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    *,
    tuned: int,
    epochs: int,
    rate: float,
    deviation: float,
    seed: int,
    adapters: Adapters | None = None,
) -> Job:
    """Return a job on images of bytes (samples, C, H, W), the first ``tuned`` to train on.

    Adapters and batches are drawn by the seed. ``parameters`` are the network's, real numbers.
    """
    require(config, images=tuned, epochs=epochs, seed=seed)
    order = np.random.default_rng([seed, 2])
    return Job(
        config=config,
        weights=quantised(config, parameters),
        images=images,
        labels=labels,
        tuned=tuned,
        order=list(batches(tuned, config.batch, epochs, order)),
        eta=rate,
        a_seed=[seed, 1],
        deviation=deviation,
        adapters=adapters,
    )


def turned(
    config: InstantFtConfig, task: Task, *, images: int, held: int, epochs: int, angle: float,
    seed: int,
) -> Job:  # fmt: skip
    """Return a job on rotated images of a task, drawn by the seed."""
    picked = np.random.default_rng([seed, 0]).permutation(len(task.labels))[: images + held]
    return fine_tuning(
        config, task.parameters, to_bytes(rotated(task.images[picked], angle))[:, None],
        task.labels[picked], tuned=images, epochs=epochs, rate=task.settings.rate,
        deviation=task.settings.deviation, seed=seed,
    )  # fmt: skip


def require_angle(angle: float) -> None:
    """Raise ``ValueError`` for a rotation that is out of range."""
    if not ANGLES[0] <= angle <= ANGLES[-1]:
        raise ValueError(f"angle must be in {ANGLES[0]}..{ANGLES[-1]} degrees, not {angle:g}")


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
