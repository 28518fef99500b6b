"""One training of the MLP's personalisation, executable in a separate process."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from seedbed.flow.compress.plan import Options
from seedbed.flow.jobs import mlp_task
from seedbed.flow.jobs.lm_task import restore
from seedbed.flow.run.cache import code
from seedbed.golden.classifier import Mlp
from seedbed.golden.network import slope
from seedbed.spec import SEEDLM
from seedbed.studies.zeroth_order import make_source, step

__all__ = ["Adapters", "Job", "Settings", "Task", "prepare", "squared_gradients"]

Images = tuple[np.ndarray, np.ndarray]
#: Images whose gradients choose weights.
STATISTICS = 1000
#: The last of so many parts of the images to tune on finds the rates.
JUDGED = 5


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of all trainings: steps, images of a step, step of a perturbation, its source.

    ``deviation`` is that of an adapter's first values.
    """

    steps: int
    batch: int = 64
    eps: float = 2**-7
    source: str = "lutopt"
    deviation: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training: what it tunes, how many numbers, by which method and rate.

    ``points`` are the parts of the steps after which held-out images are judged; 0: the loss of
    other images is judged after the last step.
    """

    tuned: str
    count: int
    method: str
    rate: float
    seed: int
    steps: int
    points: int


@dataclass(frozen=True)
class Adapters:
    """Low-rank adapters from layers' inputs to the logits, of ``count`` numbers, as InstantFT's.

    They are those of all layers if ``count`` suffices for rank 1, or of the last one. An adapter
    adds b a x to the logits; theta holds a (rank, inputs) and b (classes, rank) of each.
    """

    model: Mlp
    count: int

    @staticmethod
    def sizes(model: Mlp) -> tuple[int, int]:
        """Return the numbers of rank 1: of the adapters of all layers, and of the last one."""
        *inputs, classes = model.sizes
        return sum(inputs) + len(inputs) * classes, inputs[-1] + classes

    @property
    def inputs(self) -> tuple[int, ...]:
        """Widths of the adapters' inputs."""
        inputs = self.model.sizes[:-1]
        return inputs if self.count >= self.sizes(self.model)[0] else inputs[-1:]

    @property
    def rank(self) -> int:
        """The rank."""
        whole, last = self.sizes(self.model)
        return self.count // whole or self.count // last

    def begin(self, rng: np.random.Generator, deviation: float) -> np.ndarray:
        """Return theta: a from N(0, deviation^2), b = 0."""
        theta = np.zeros(self.count)
        for a, _ in self.parts(theta):
            a[:] = rng.normal(0, deviation, a.shape)
        return theta

    def parts(self, theta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return views of ``theta``, (.., count): a and b of each adapter."""
        found, start, classes = [], 0, self.model.sizes[-1]
        for width in self.inputs:
            middle, stop = start + self.rank * width, start + self.rank * (width + classes)
            shape = theta.shape[:-1]
            a = theta[..., start:middle].reshape(*shape, self.rank, width)
            found.append((a, theta[..., middle:stop].reshape(*shape, classes, self.rank)))
            start = stop
        return found

    def _seen(self, base: np.ndarray, x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the inputs of the adapters, and the logits without them."""
        *hidden, (weights, biases) = self.model.layers(base.astype(x.dtype))
        inputs = [x]
        for w, b in hidden:
            inputs.append(np.maximum(inputs[-1] @ w + b, 0))
        return inputs[-len(self.inputs) :], inputs[-1] @ weights + biases

    def logits(self, base: np.ndarray, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the logits (.., images, classes) of networks with these adapters."""
        inputs, z = self._seen(base, x)
        for seen, (a, b) in zip(inputs, self.parts(theta.astype(x.dtype)), strict=True):
            z = z + (seen @ a.swapaxes(-1, -2)) @ b.swapaxes(-1, -2)
        return z

    def gradient(
        self, base: np.ndarray, theta: np.ndarray, x: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        """Return the gradient of the mean loss for one theta."""
        inputs, _ = self._seen(base, x)
        delta = slope(self.logits(base, theta, x), labels) / len(x)
        found = np.empty(self.count)
        known = self.parts(theta.astype(x.dtype))
        for seen, (a, b), (da, db) in zip(inputs, known, self.parts(found), strict=True):
            da[:], db[:] = (delta @ b).T @ seen, delta.T @ (seen @ a.T)
        return found


@dataclass(frozen=True)
class Task:
    """Start of all jobs: the compressed network, the masks' orders, and the rotated images.

    ``orders`` has, for each mask, all weights' places in theta, those to keep first; ``exact`` is
    theta with each weight as kept, in 16 bits.
    """

    settings: Settings
    model: Mlp
    theta: np.ndarray
    exact: np.ndarray
    orders: dict[str, np.ndarray]
    tune: Images
    judged: Images
    test: Images
    accuracies: dict[str, float] = field(compare=False)

    @cached_property
    def digest(self) -> str:
        """A hash of the settings, the images, the networks, and the code that runs."""
        text = f"{self.settings} {np.__version__} {code(__name__)}"
        parts = [self.theta, self.exact, *self.orders.values()]
        parts += [*self.tune, *self.judged, *self.test]
        raw = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
        return hashlib.sha256(text.encode() + raw).hexdigest()

    def run(self, job: Job) -> dict[str, Any]:
        """Return the accuracies of held-out images, or the loss of judged ones, if finite."""
        tuned = self.tuned(job)
        order, seeds = (np.random.default_rng([job.seed, k]) for k in range(2))
        x, labels = self.tune
        source = make_source(self.settings.source)
        numbers = source.seeds(seeds, job.count)
        theta, points = tuned.theta, []
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(job.steps):
                picked = order.integers(len(x), size=self.settings.batch)
                rate = job.rate * (1 - k / job.steps)
                batch = x[picked], labels[picked]
                if job.method == "zo":
                    losses = partial(tuned.losses, x=batch[0], labels=batch[1])
                    theta, _ = step(
                        losses, theta, source, next(numbers), eps=self.settings.eps, rate=rate
                    )
                else:
                    theta = theta - rate * tuned.gradient(theta, *batch)
                if not np.isfinite(theta).all():
                    return {"accuracies": None, "loss": None}
                if (k + 1) * job.points // job.steps > k * job.points // job.steps:
                    points.append(tuned.accuracy(theta, *self.test))
            loss = None if job.points else float(tuned.losses(theta[None], *self.judged)[0])
        finite = loss is not None and np.isfinite(loss)
        return {"accuracies": points, "loss": loss if finite else None}

    def before(self, job: Job) -> float:
        """Return the accuracy of held-out images before a job."""
        tuned = self.tuned(job)
        return tuned.accuracy(tuned.theta, *self.test)

    def tuned(self, job: Job) -> "Tuned":
        """Return what a job tunes, at its start."""
        if job.tuned == "adapters":
            adapters = Adapters(self.model, job.count)
            rng = np.random.default_rng([job.seed, 2])
            return Tuned(self.model, self.theta, adapters.begin(rng, self.settings.deviation),
                         adapters=adapters)  # fmt: skip
        if job.tuned == "all":
            places = np.sort(self.orders["magnitude"])
            return Tuned(self.model, self.theta, self.theta[places], places=places)
        places = np.sort(self.orders[job.tuned][: job.count])
        return Tuned(self.model, self.theta, self.exact[places], places=places)


@dataclass(frozen=True)
class Tuned:
    """A network of which some numbers change: weights at ``places``, or ``adapters``."""

    model: Mlp
    base: np.ndarray
    theta: np.ndarray
    places: np.ndarray | None = None
    adapters: Adapters | None = None

    def _whole(self, thetas: np.ndarray, x: np.ndarray) -> np.ndarray:
        whole = np.repeat(self.base[None].astype(x.dtype), len(thetas), axis=0)
        whole[:, self.places] = thetas
        return whole

    def logits(self, thetas: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the logits (networks, images, classes)."""
        if self.adapters is not None:
            return self.adapters.logits(self.base, thetas, x)
        return self.model.logits(self._whole(thetas, x), x)

    def losses(self, thetas: np.ndarray, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the mean cross-entropy of each network."""
        z = self.logits(thetas, x)
        z = z - z.max(axis=-1, keepdims=True)
        picked = z[..., np.arange(len(x)), labels]
        return (np.log(np.exp(z).sum(axis=-1)) - picked).mean(axis=-1)

    def gradient(self, theta: np.ndarray, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the gradient of the mean cross-entropy by backpropagation."""
        if self.adapters is not None:
            return self.adapters.gradient(self.base, theta, x, labels)
        return self.model.gradient(self._whole(theta[None], x)[0], x, labels)[self.places]

    def accuracy(self, theta: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
        """Return the fraction of images whose largest logit is their label's."""
        return float((self.logits(theta[None], x)[0].argmax(axis=1) == labels).mean())


def squared_gradients(model: Mlp, theta: np.ndarray, x: np.ndarray, labels: np.ndarray) -> Any:
    """Return the sum over images of the squared gradients of an image's loss, as theta."""
    layers = model.layers(theta.astype(x.dtype))
    inputs = [x]
    for w, b in layers[:-1]:
        inputs.append(np.maximum(inputs[-1] @ w + b, 0))
    delta = slope(inputs[-1] @ layers[-1][0] + layers[-1][1], labels)
    found = np.empty(model.d)
    for (weights, biases), (w, _), seen in zip(
        reversed(model.layers(found)), reversed(layers), reversed(inputs), strict=True
    ):
        weights[:], biases[:] = (seen**2).T @ delta**2, (delta**2).sum(axis=0)
        delta = (delta @ w.T) * (seen > 0)
    return found


def compressed(model: Mlp, theta: np.ndarray, out: Path) -> np.ndarray:
    """Return theta with its matrices through SeedLM's blocks of 4 bits; biases stay."""
    source = out / "model.safetensors"
    rows = [np.ascontiguousarray(w.T, np.float32) for w, _ in model.layers(theta)]
    save_file({f"layer{k}.weight": matrix for k, matrix in enumerate(rows)}, source)
    *_, restored = restore(source, out, Options(config=SEEDLM[4]))
    found = theta.copy()
    for k, (weights, _) in enumerate(model.layers(found)):
        weights[:] = restored[f"layer{k}.weight"].T
    return found


def prepare(start: mlp_task.Task, pre: Images, settings: Settings, out: Path) -> Task:
    """Compress the pre-trained network of ``start``, and order the weights by each mask.

    ``pre`` are the upright images that it was trained on; ``out`` gets the intermediate files.
    """
    model, theta = start.model, start.theta.astype(np.float32)
    base = compressed(model, theta, out)
    is_weight = np.zeros(model.d, bool)
    for weights, _ in model.layers(is_weight):
        weights[:] = True
    cut = len(start.tune[1]) - len(start.tune[1]) // JUDGED
    tune, judged = (
        (start.tune[0][part], start.tune[1][part]) for part in (slice(cut), slice(cut, None))
    )

    def squares(images: Images) -> np.ndarray:
        x, labels = (part[:STATISTICS] for part in images)
        return squared_gradients(model, theta, x.reshape(len(x), -1), labels)

    keys = {
        "sensitive": squares(pre),
        "task": squares(tune),
        "magnitude": np.abs(theta),
        "random": np.random.default_rng(1).random(model.d),
    }
    orders = {}
    for mask, key in keys.items():
        order = np.argsort(-key, kind="stable")
        orders[mask] = order[is_weight[order]]
    exact = base + (theta - base).astype(np.float16)
    upright, test = start.upright, start.test
    accuracies = {
        "upright": upright,
        "rotated": model.accuracy(theta, *test),
        "compressed": model.accuracy(base, *test),
    }
    return Task(settings, model, base, exact, orders, tune, judged, test, accuracies)
