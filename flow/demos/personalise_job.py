"""One training of the personalisation demonstration, executable in a separate process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from threadpoolctl import threadpool_limits

from seedbed.flow.compress.plan import Options
from seedbed.flow.demos.lm_task import TENSORS, Task, Windows, join, restore, squared_gradients
from seedbed.golden import language_model, zo

__all__ = ["BATCH", "EPS", "Base", "Training", "make_base", "train"]

#: Step of the perturbation, and windows of a batch.
EPS = 1e-2
BATCH = 64
#: The last of so many parts of a text is held out; half as many lines before it find the rates.
HELD_OUT = 4


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training: which weights, how many, by which numbers, at which rate."""

    mask: str
    fraction: float
    source: str
    rate: float
    seed: int
    steps: int


@dataclass(frozen=True)
class Base:
    """What all trainings share.

    ``dense`` is the compressed model; ``places`` has the kept weights of each mask and fraction as
    indices into all compressed matrices, one after the other, and ``values`` their first values.
    """

    dense: dict[str, np.ndarray]
    names: list[str]  #: of the compressed matrices
    places: dict[tuple[str, float], np.ndarray]
    values: dict[tuple[str, float], np.ndarray]
    tuned: Windows
    judged: Windows  #: to find rates
    held: Windows

    def model(self, kept: tuple[str, float], values: np.ndarray) -> dict[str, np.ndarray]:
        """Return the model with other kept values."""
        whole = np.concatenate([self.dense[name].reshape(-1) for name in self.names])
        whole[self.places[kept]] = values
        found, start = dict(self.dense), 0
        for name in self.names:
            size = self.dense[name].size
            found[name] = whole[start : start + size].reshape(self.dense[name].shape)
            start += size
        return found


def train(base: Base, training: Training, windows: Windows, points: int) -> list[float | None]:
    """Return the perplexity of ``windows`` before, and after each of ``points`` parts of the steps.

    The rate falls linearly to 0. After a loss that is not finite, the values are ``None``.
    """
    kept = (training.mask, training.fraction)
    rng = np.random.default_rng(training.seed)
    source = zo.make_source(training.source)
    theta = base.values[kept].astype(np.float64)
    contexts, targets = base.tuned
    seeds = source.seeds(rng, len(theta))
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
        found = [language_model.perplexity(base.model(kept, theta), *windows)]
        for step in range(training.steps):
            chosen = rng.integers(len(targets), size=BATCH)

            def loss(thetas: np.ndarray, chosen: np.ndarray = chosen) -> np.ndarray:
                models = (base.model(kept, values) for values in thetas)
                losses = (
                    language_model.losses(m, contexts[chosen], targets[chosen]) for m in models
                )
                return np.array([values.mean() for values in losses])

            rate = training.rate * (1 - step / training.steps)
            theta, level = zo.step(loss, theta, source, next(seeds), eps=EPS, rate=rate)
            if not (np.isfinite(level) and np.isfinite(theta).all()):
                return [*found, *[None] * (points + 1 - len(found))]
            if (step + 1) * points // training.steps > step * points // training.steps:
                found.append(language_model.perplexity(base.model(kept, theta), *windows))
    return [value if np.isfinite(value) else None for value in found]


def make_base(task: Task, config: Any, fractions: tuple[float, ...], out: Path) -> Base:
    """Return the compressed model with all masks; ``out`` gets the intermediate files."""
    source = out / "model.safetensors"
    save_file({n: np.ascontiguousarray(v) for n, v in task.parameters.items()}, source)
    *_, dense = restore(source, out, Options(config=config, tensors=TENSORS))
    names = sorted(n for n, v in dense.items() if n.endswith(".weight") and v.shape[0] > 1)
    personal = list(task.lines)[-1]
    lines = task.lines[personal]
    if len(lines) < HELD_OUT:
        raise ValueError(f"the text {personal!r} must have {HELD_OUT} lines or more")
    held = len(lines) // HELD_OUT
    judged = max(1, held // 2)
    tuned = lines[: len(lines) - held - judged]
    before = np.concatenate([task.parameters[n].reshape(-1) for n in names])
    compressed = np.concatenate([dense[n].reshape(-1) for n in names])
    # A kept weight is a difference in 16 bits.
    exact = compressed + (before - compressed).astype(np.float16)

    def squares(found: list[Windows]) -> np.ndarray:
        by_name = squared_gradients(task.parameters, found, lambda: None)
        return np.concatenate([by_name[n].reshape(-1) for n in names])

    keys = {
        "sensitive": squares(task.lines[task.statistics]),
        "task": squares(tuned),
        "magnitude": np.abs(before),
        "random": np.random.default_rng(1).random(len(before)),
    }
    places = {
        (mask, fraction): np.sort(np.argsort(-key, kind="stable")[: round(fraction * len(key))])
        for mask, key in keys.items()
        for fraction in fractions
    }
    values = {kept: exact[found] for kept, found in places.items()}
    places["all", 1.0], values["all", 1.0] = np.arange(len(before)), compressed
    middle = lines[len(tuned) : len(lines) - held]
    return Base(dense, names, places, values, join(tuned), join(middle), join(lines[-held:]))
