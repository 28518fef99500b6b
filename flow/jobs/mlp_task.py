"""What trainings of a classifier start from: a pre-trained MLP, and rotated images."""

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from seedbed.flow.jobs.data import Split, rotated
from seedbed.golden.classifier import Mlp, adam

__all__ = ["SETTINGS", "Settings", "Task", "flat", "prepare"]


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


#: Hyperparameters by data set, the same for all sources. The digits' rate is below the best rate of
#: the Gaussian: all sources but the unscaled one are stable at it. :data:`RATES` has other rates.
SETTINGS = {
    "digits": Settings(hidden=32, shots=(16, 40), steps=5000, rate=3e-3, eps=2**-7),
    "mnist": Settings(hidden=16, shots=(16, 256), steps=6000, rate=1e-3, eps=2**-7),
}


@dataclass(frozen=True)
class Task:
    """Start of all jobs: the pre-trained network, and the rotated images as vectors.

    ``upright`` is the network's accuracy on upright images, 0..1.
    """

    settings: Settings
    model: Mlp
    theta: np.ndarray
    tune: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    upright: float


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
