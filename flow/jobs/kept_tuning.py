"""Kept weights of an encoder that are tuned by steps of zeroth order with two passes.

As MeZO (arXiv:2305.17333) has it: all kept weights are perturbed by the same random signs, up and
down, a vector of each text is computed with either, and the difference of the mean losses is the
step. The host computes a loss from the vectors with a head of two classes that stays as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from seedbed.golden.engine_image import EngineImage
from seedbed.golden.kept_weights import KeptTuner
from seedbed.golden.stream_engine import StreamEngine
from seedbed.golden.tuning_log import Step, deltas
from seedbed.spec import StreamEngineConfig
from seedbed.spec.checks import require_int
from seedbed.spec.stream_engine import SIGN_BITS

__all__ = [
    "FRACTION", "LARGE", "Model", "Settings", "Tuned", "Tuning", "class_losses", "fitted_head",
    "log_shares", "train",
]  # fmt: skip

#: Fraction bits of kept weights at most: fewer where larger weights are kept.
FRACTION = 6
#: What a model with many kept weights is tuned with: each of them changes less.
LARGE: dict[str, Any] = {"eps": 4.0, "rate": 200.0, "most": 2.0}
#: Factor of the squared head that is added to its loss.
DECAY = 0.1
#: Steps of Newton's method.
NEWTON = 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How kept weights are tuned.

    Parameters
    ----------
    steps, batch
        Steps, and texts of each.
    eps, rate
        The size of a perturbation in units of the trellis code; what a value changes in these units
        for a difference of the two losses of 1, in the first step. The rate falls linearly to 0.
    most
        The most that a value changes in a step, in these units.
    seed
        Of the batches and signs.
    """

    steps: int = 8
    batch: int = 16
    eps: float = 8.0
    rate: float = 3000.0
    most: float = 16.0
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("steps", self.steps, 1, 1_000_000)
        require_int("batch", self.batch, 1, 4_096)

    def change(self, step: int, difference: float) -> float:
        """Return the change of a step whose losses differ so much, in units of the trellis code."""
        rate = self.rate * (1 - step / self.steps)
        return float(np.clip(rate * difference, -self.most, self.most))


class Tuned(Protocol):
    """A program that is run and whose kept weights are tuned: a core, or its model alone."""

    def start(self) -> None: ...
    def run(self, tokens: np.ndarray) -> np.ndarray: ...
    def tune(self, *, seed: int, delta: int) -> None: ...


class Model:
    """The model of a program whose kept weights are tuned as a core tunes those of an image."""

    def __init__(self, engine: StreamEngine, config: StreamEngineConfig, image: EngineImage):
        self.start, self.run = engine.start, engine.run
        self.tuner = KeptTuner(config, engine.parameters, image)
        self.tune = self.tuner.tune


@dataclass(frozen=True)
class Tuning:
    """A program whose kept weights have fraction bits, and texts: their tokens and classes, 0 or 1.

    The program has one vector for a text.
    """

    engine: StreamEngine
    sentences: Sequence[np.ndarray]
    labels: np.ndarray

    @property
    def fraction(self) -> int:
        """Fraction bits of kept weights."""
        return max(of.kept.fraction for of in self.engine.parameters.values() if of.kept)

    @property
    def count(self) -> int:
        """Kept weights."""
        return sum(len(of.kept.rows) for of in self.engine.parameters.values() if of.kept)

    def units(self, value: float) -> int:
        """Return a number of units of the trellis code in those of kept weights."""
        return int(np.rint(np.ldexp(value, self.fraction)))

    def vectors(self, program: Any, numbers: np.ndarray) -> np.ndarray:
        """Return the vector of each of some texts, in float64."""
        found = []
        for number in numbers:
            program.start()
            found.append(program.run(self.sentences[number])[0])
        of = self.engine.program
        return np.ldexp(np.array(found, np.float64), -of.vectors[of.result].fraction)

    def head(self, numbers: np.ndarray) -> np.ndarray:
        """Return the head that is fitted to some texts."""
        return fitted_head(self.vectors(self.engine, numbers), self.labels[numbers])

    def losses(
        self, program: Tuned, head: np.ndarray, numbers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss of each of some texts, and whether its class is right."""
        return class_losses(self.vectors(program, numbers), head, self.labels[numbers])


def train(
    tuning: Tuning, program: Tuned, head: np.ndarray, settings: Settings, numbers: np.ndarray,
    done: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Step, float, float]]:  # fmt: skip
    """Yield each step on some of the texts ``numbers``, and the mean losses of its two passes."""
    rng = np.random.default_rng(settings.seed)
    eps = tuning.units(settings.eps)
    for step in range(settings.steps):
        seed = int(rng.integers(1, 1 << SIGN_BITS))
        batch = rng.choice(numbers, min(settings.batch, len(numbers)), replace=False)
        losses = []
        for delta in deltas(eps, 0)[:2]:
            program.tune(seed=seed, delta=delta)
            losses.append(float(tuning.losses(program, head, batch)[0].mean()))
            done()
        change = tuning.units(settings.change(step, losses[0] - losses[1]))
        program.tune(seed=seed, delta=deltas(eps, change)[2])
        yield Step(seed, change), losses[0], losses[1]


def log_shares(means: np.ndarray, head: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of the classes' shares, and the shares, float64 (texts, 2).

    ``head`` has the weights of the elements and a bias for each class, (2, width + 1).
    """
    logits = means.astype(np.float64) @ head[:, :-1].T + head[:, -1]
    logits -= logits.max(axis=1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logs, np.exp(logs)


def class_losses(
    means: np.ndarray, head: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of each text, in float64, and whether its class is right.

    ``means`` are the vectors of the texts, and ``head`` is as in :func:`log_shares`.
    """
    logs, _ = log_shares(means, head)
    return -logs[np.arange(len(logs)), labels], logs.argmax(axis=1) == labels


def fitted_head(means: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the head, float64 (2, width + 1), of the least loss with a decay, by Newton."""
    x = np.concatenate([means, np.ones((len(means), 1))], axis=1).astype(np.float64)
    w = np.zeros(x.shape[1])
    decay = np.full(len(w), DECAY)
    decay[-1] = 0
    for _ in range(NEWTON):
        shares = 1 / (1 + np.exp(-x @ w))
        slope = x.T @ (shares - labels) / len(x) + decay * w
        curve = (x * (shares * (1 - shares))[:, None]).T @ x / len(x) + np.diag(decay)
        w -= np.linalg.solve(curve, slope)
    return np.stack([-w / 2, w / 2])
