"""One training of the personalisation demonstration, executable in a separate process."""

from dataclasses import asdict, dataclass
from itertools import islice
from math import inf
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from threadpoolctl import threadpool_limits

from seedbed.flow.compress.packed import Config
from seedbed.flow.compress.plan import Options
from seedbed.flow.jobs.lm_task import (
    TENSORS,
    Task,
    Windows,
    damped,
    join,
    restore,
    second_moments,
    squared_gradients,
)
from seedbed.flow.jobs.personalise_loss import LongWindows, long_windows, losses, perplexity
from seedbed.golden import language_model
from seedbed.spec import SEEDLM
from seedbed.spec.packing import GroupsConfig
from seedbed.studies import zeroth_order as zo

__all__ = ["BASES", "Base", "Schedule", "Training", "make_base", "train"]

#: Formats of the base. ``feedback`` is SeedLM, with errors compensated by later columns.
BASES: dict[str, Config] = {
    "seedlm": SEEDLM[4],
    "feedback": SEEDLM[4],
    "groups": GroupsConfig(group=32),
}
#: The last of so many parts of a text is held out; half as many lines before it find the rates.
HELD_OUT = 4
#: Lines of a text whose gradients choose weights, and give the base its second moments.
STATISTICS = 60
#: What is added to the diagonal of second moments, as a share of its mean.
DAMPING = 1e-2


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What all trainings share.

    Parameters
    ----------
    steps, batch, queries
        Steps of a training, windows of a step, and perturbations of a step.
    eps, clip
        Step of the perturbation, and limit of a slope.
    spread
        A window gives the losses after so many characters fewer and more than 40.
    """

    steps: int = 1000
    batch: int = 64
    queries: int = 1
    eps: float = 1e-2
    clip: float = 1.0
    spread: int = 4

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "spread" and not 0 < value < inf:
                raise ValueError(f"{name} must be above 0 and finite, not {value}")
        if not 0 <= self.spread < language_model.CONTEXT:
            raise ValueError(
                f"spread must be in 0..{language_model.CONTEXT - 1}, not {self.spread}"
            )


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
    """The model and the texts of all trainings.

    ``dense`` is the compressed model; ``places`` has the kept weights of each mask and fraction as
    indices into all compressed matrices, one after the other, and ``values`` their first values.
    """

    dense: dict[str, np.ndarray]
    names: list[str]  #: of the compressed matrices
    places: dict[tuple[str, float], np.ndarray]
    values: dict[tuple[str, float], np.ndarray]
    tuned: LongWindows
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

    def before(self, kept: tuple[str, float], windows: Windows) -> float:
        """Return the perplexity before a training."""
        return perplexity(self.model(kept, self.values[kept]), *windows)


def train(
    base: Base, schedule: Schedule, training: Training, windows: Windows, points: int
) -> list[float | None]:
    """Return the perplexity of ``windows`` after each of ``points`` parts of the steps.

    The rate falls linearly to 0. After a loss that is not finite, the values are ``None``.
    """
    kept = (training.mask, training.fraction)
    rng = np.random.default_rng(training.seed)
    source = zo.make_source(training.source)
    theta = base.values[kept].astype(np.float64)
    seeds = source.seeds(rng, len(theta))
    found: list[float] = []
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
        for step in range(training.steps):
            batch = base.tuned.select(rng.integers(len(base.tuned), size=schedule.batch))

            def loss(thetas: np.ndarray, batch: LongWindows = batch) -> np.ndarray:
                return losses([base.model(kept, values) for values in thetas], batch)

            rate = training.rate * (1 - step / training.steps)
            theta, level = zo.step(
                loss, theta, source, *islice(seeds, schedule.queries), eps=schedule.eps, rate=rate,
                clip=schedule.clip,
            )  # fmt: skip
            if not (np.isfinite(level) and np.isfinite(theta).all()):
                return [*found, *[None] * (points - len(found))]
            if (step + 1) * points // training.steps > step * points // training.steps:
                found.append(perplexity(base.model(kept, theta), *windows))
    return [value if np.isfinite(value) else None for value in found]


def make_base(
    task: Task, form: str, fractions: tuple[float, ...], spread: int, out: Path
) -> Base:  # fmt: skip
    """Return the compressed model with all masks; ``out`` gets the intermediate files."""
    source = out / "model.safetensors"
    save_file({n: np.ascontiguousarray(v) for n, v in task.parameters.items()}, source)
    importance = _moments(task, out) if form == "feedback" else None
    options = Options(config=BASES[form], tensors=TENSORS, importance=importance)
    *_, dense = restore(source, out, options)
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
        by_name = squared_gradients(task.parameters, found[:STATISTICS], lambda: None)
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
    return Base(
        dense, names, places, values, long_windows(tuned, spread), join(middle), join(lines[-held:])
    )


def _moments(task: Task, out: Path) -> Path:
    """Write the second moments of the first text's lines, as importance of columns together."""
    lines = task.lines[task.statistics][:STATISTICS]
    moments = damped(second_moments(task.parameters, lines, lambda: None), DAMPING)
    path = out / "moments.safetensors"
    save_file(moments, path)
    return path
