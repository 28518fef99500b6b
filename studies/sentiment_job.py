"""One training of the demonstration of sentiment, executable in a separate process."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from seedbed.flow.jobs.kept_tuning import fitted_head
from seedbed.flow.run.cache import code
from seedbed.studies import zeroth_order as zo
from seedbed.studies.sentiment_layer import Layer, Sentences

__all__ = [
    "BACKPROPAGATION",
    "MASKS",
    "POINTS",
    "Base",
    "Task",
    "Training",
    "adapter_rank",
    "drawn",
    "judged",
]

#: The source of a training that takes the gradient.
BACKPROPAGATION = "backpropagation"
#: Ways to choose kept weights: the largest squared gradients on other text, magnitudes, or random.
MASKS = ("sensitive", "magnitude", "random")
#: Parts of a training, whose mean losses are its curve.
POINTS = 10
#: The matrices with adapters: the queries' and the values'.
ADAPTED = (0, 2)


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training: of which base, what it tunes, by which numbers, and on how many sentences.

    Parameters
    ----------
    base
        A name of :attr:`Task.bases`.
    tuned
        ``all``: the attention's matrices; one of :data:`MASKS`: so large a ``fraction`` of them;
        ``adapters``: low-rank ones, with at most as many numbers; ``head``; or ``none``.
    source
        One of :data:`seedbed.studies.zeroth_order.SOURCES`, or :data:`BACKPROPAGATION`.
    k
        Sentences of a class. ``seed`` draws them, the batches and the perturbations.
    judged
        Whether held-out sentences are judged, too.
    """

    base: str = "float"
    tuned: str = "all"
    fraction: float = 1.0
    source: str = "gaussian"
    k: int = 16
    rate: float
    seed: int
    steps: int
    judged: bool = False


@dataclass(frozen=True)
class Base:
    """An encoder's last layer, and all sentences as its inputs."""

    layer: Layer
    sentences: Sentences


def adapter_rank(width: int, fraction: float) -> int:
    """Return the rank of adapters with at most a fraction of the weights' numbers, 1 at least."""
    return max(1, int(fraction * 4 * width * width) // (2 * width * len(ADAPTED)))


def drawn(pool: np.ndarray, labels: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Return k sentences of each class that a seed draws from a pool."""
    order = np.random.default_rng([seed, k]).permutation(pool)
    return np.concatenate([order[labels[order] == each][:k] for each in (0, 1)])


def judged(
    before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray] | None
) -> dict[str, Any]:
    """Return mean loss and accuracy, before and after, with standard errors over sentences.

    ``change`` is the mean change of a sentence's loss, and ``gained`` that of its being right.
    """
    root = np.sqrt(len(before[0]))
    found = {
        "before": float(before[0].mean()), "before_error": float(before[0].std() / root),
        "accuracy_before": float(before[1].mean()), "after": None,
    }  # fmt: skip
    if after is None or not np.isfinite(after[0]).all():
        return found
    change, gained = after[0] - before[0], after[1].astype(float) - before[1]
    return found | {
        "after": float(after[0].mean()), "after_error": float(after[0].std() / root),
        "change": float(change.mean()), "change_error": float(change.std() / root),
        "accuracy": float(after[1].mean()), "accuracy_error": float(after[1].std() / root),
        "gained": float(gained.mean()), "gained_error": float(gained.std() / root),
    }  # fmt: skip


@dataclass(frozen=True)
class _Tuned:
    """What is tuned: its first values, and the matrices and the head for other values."""

    theta: np.ndarray
    model: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    #: The gradient by theta, for that by the matrices.
    gradient: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Task:
    """What all trainings have in common.

    Parameters
    ----------
    bases
        The model in float32, and other forms of it, by name.
    orders
        For each mask, the places of the weights in all matrices, the first ones first.
    pool, held
        The sentences to draw from, and those that are held out.
    batch, eps
        Sentences of a step at most, and the step of a perturbation.
    """

    bases: dict[str, Base]
    orders: dict[str, np.ndarray]
    pool: np.ndarray
    held: np.ndarray
    batch: int = 16
    eps: float = 1e-3

    @cached_property
    def digest(self) -> str:
        """A hash of everything that a result depends on, code included.

        Other bases follow from the one in float32 and the code that prepares them.
        """
        found = hashlib.sha256(f"{self.batch} {self.eps} {np.__version__}".encode())
        found.update(code("seedbed.studies.sentiment_task").encode())
        layer, text = self.bases["float"].layer, self.bases["float"].sentences
        parts = [self.orders[name] for name in sorted(self.orders)]
        parts += [layer.parameters[name] for name in sorted(layer.parameters)]
        for part in (self.pool, self.held, text.inputs, text.lengths, text.labels, *parts):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()

    def drawn(self, k: int, seed: int) -> np.ndarray:
        """Return the sentences of a seed, k of each class."""
        return drawn(self.pool, self.bases["float"].sentences.labels, k, seed)

    def head(self, k: int, seed: int) -> np.ndarray:
        """Return the head that is fitted to a seed's sentences, on the model in float32."""
        base = self.bases["float"]
        own = base.sentences.select(self.drawn(k, seed))
        return fitted_head(base.layer.means(base.layer.matrices, own), own.labels)

    def run(self, job: Training) -> dict[str, Any]:
        """Train; return losses before and after, with what :func:`judged` says.

        The rate falls linearly to 0. After a number that is not finite, ``after`` is ``None``.
        """
        base = self.bases[job.base]
        own = base.sentences.select(self.drawn(job.k, job.seed))
        tuned = self._tuned(job)
        found: dict[str, Any] = {"numbers": len(tuned.theta), "curve": []}
        sets = {"train": own}
        if job.judged:
            sets["held"] = base.sentences.select(self.held)
        start = {
            name: base.layer.losses(*tuned.model(tuned.theta), of) for name, of in sets.items()
        }
        theta, levels = self._trained(job, base, tuned, own)
        parts = np.array_split(np.array(levels), POINTS) if len(levels) == job.steps else []
        found["curve"] = [float(part.mean()) for part in parts if len(part)]
        for name, of in sets.items():
            after = None if theta is None else base.layer.losses(*tuned.model(theta), of)
            found[name] = judged(start[name], after)
        return found

    def _trained(
        self, job: Training, base: Base, tuned: _Tuned, own: Sentences
    ) -> tuple[np.ndarray | None, list[float]]:
        """Return the last theta, ``None`` if it diverged, and the loss of each step's batch."""
        rng = np.random.default_rng(job.seed)
        theta = tuned.theta
        levels: list[float] = []
        backward = job.source == BACKPROPAGATION
        source = None if backward else zo.make_source(job.source)
        seeds = source.seeds(rng, len(theta)) if source else iter(())
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for step in range(job.steps):
                count = min(self.batch, 2 * job.k)
                batch = own.select(rng.choice(2 * job.k, count, replace=False))
                rate = job.rate * (1 - step / job.steps)

                def loss(thetas: np.ndarray, batch: Sentences = batch) -> np.ndarray:
                    return np.array([
                        base.layer.losses(*tuned.model(each), batch)[0].mean() for each in thetas
                    ])  # fmt: skip

                if source is None:
                    assert tuned.gradient is not None
                    level, slopes = base.layer.gradient(*tuned.model(theta), batch)
                    theta = theta - rate * tuned.gradient(slopes)
                else:
                    theta, level = zo.step(
                        loss, theta, source, *islice(seeds, 1), eps=self.eps, rate=rate
                    )
                if not (np.isfinite(level) and np.isfinite(theta).all()):
                    return None, levels
                levels.append(level)
        return theta, levels

    def _tuned(self, job: Training) -> _Tuned:
        head = self.head(job.k, job.seed)
        matrices = self.bases[job.base].layer.matrices
        width = matrices.shape[2]
        if job.tuned == "all":
            return _Tuned(
                matrices.reshape(-1).astype(np.float64),
                lambda theta: (theta.astype(np.float32).reshape(matrices.shape), head),
                lambda slopes: slopes.reshape(-1),
            )
        if job.tuned == "head":
            return _Tuned(head.reshape(-1), lambda theta: (matrices, theta.reshape(head.shape)))
        if job.tuned == "adapters":
            rank = adapter_rank(width, job.fraction)
            first = np.zeros((len(ADAPTED), 2, rank, width))
            first[:, 0] = np.random.default_rng(job.seed).normal(0, width**-0.5, first[:, 0].shape)

            def adapted(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                found = matrices.copy()
                for place, (a, b) in zip(ADAPTED, theta.reshape(first.shape), strict=True):
                    found[place] += (b.T @ a).astype(np.float32)
                return found, head

            return _Tuned(first.reshape(-1), adapted)
        places = np.zeros(0, np.int64)
        if job.tuned != "none":
            count = round(job.fraction * matrices.size)
            places = np.sort(self.orders[job.tuned][:count])
        # A kept weight is a difference in 16 bits.
        exact = self.bases["float"].layer.matrices.reshape(-1)[places]
        dense = matrices.reshape(-1)[places]
        kept = dense + (exact - dense).astype(np.float16)

        def replaced(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found = matrices.copy()
            found.reshape(-1)[places] = theta
            return found, head

        return _Tuned(kept.astype(np.float64), replaced, lambda slopes: slopes.reshape(-1)[places])
