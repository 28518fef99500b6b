"""One training of the ElasticZO demonstration, executable in a separate process."""

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from seedbed.flow.jobs.data import Split, rotated
from seedbed.flow.jobs.elasticzo_checkpoint import METHODS, Arrays, load, save
from seedbed.flow.run.cache import code
from seedbed.golden import network as floating
from seedbed.golden.elasticzo import ElasticZo, Network, batches, init
from seedbed.golden.elasticzo_sources import HARDWARE, SOURCES
from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.elasticzo import GRAIN, ElasticZoConfig, phases_of
from seedbed.spec.network import named
from seedbed.studies.elasticzo_float import ElasticZoFloat

__all__ = ["ARITHMETICS", "Images", "Settings", "Task"]

ARITHMETICS = ("int8", "float")
#: Rotated images to train on, and as many to test on. Source: ElasticZO, section 5.1.
ROTATED = 1024
#: The rate in floating point falls ten times, by this factor. Source: ElasticZO, section 5.1.1.
DECAY = 0.8


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a training depends on besides its images.

    Parameters
    ----------
    arithmetic
        ``int8`` or ``float``.
    method
        One of :data:`METHODS`.
    epochs
        Passes over the training images, 1..10,000; the schedule of the paper's 100 is scaled.
    batch
        Images of a batch, 1..4,096.
    seed
        Of weights, batches and perturbations.
    source
        ``int8`` only: one of :data:`~seedbed.golden.elasticzo_sources.SOURCES`.
    magnitude
        ``int8`` only: r_max, 1..63. The paper tunes it among 1, 3, 7, 15, 31, 63.
    choices
        ``int8`` only: values of :class:`~seedbed.spec.elasticzo.ElasticZoConfig` by name, where
        they are not its defaults.
    rate, eps, clip
        ``float`` only: the first learning rate, the scale of perturbations, and the limit of the
        zeroth-order gradient.
    """

    arithmetic: str = "int8"
    method: str = "full-zo"
    epochs: int = 100
    batch: int = 256
    seed: int = 0
    source: str = "software"
    magnitude: int = 15
    choices: tuple[tuple[str, Any], ...] = ()
    rate: float = 1e-3
    eps: float = 1e-3
    clip: float = 10.0

    def __post_init__(self) -> None:
        require_choice("arithmetic", self.arithmetic, ARITHMETICS)
        require_choice("method", self.method, METHODS)
        require_int("epochs", self.epochs, 1, 10_000)
        require_int("batch", self.batch, 1, 4_096)
        require_int("seed", self.seed, 0, (1 << 32) - 1)
        require_choice("source", self.source, SOURCES)
        if self.arithmetic == "float" and self.source != "software":
            raise ValueError(f"source must be software in floating point, not {self.source!r}")
        for name in ("rate", "eps", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)}")
        # Refuses magnitude and choices, before any work.
        phases_of(self.epochs, self.magnitude)
        self.config("lenet5_padded")

    @property
    def name(self) -> str:
        """A name for files."""
        source = () if self.source == "software" else (self.source,)
        return "-".join(("elasticzo", self.arithmetic, self.method, *source))

    def partition(self, network: str) -> int:
        """Return how many layers zeroth order trains."""
        tail = METHODS[self.method]
        return 0 if tail < 0 else len(named(network).layers) - tail

    def config(self, network: str) -> ElasticZoConfig:
        """Return the configuration for a network, in int8."""
        return ElasticZoConfig(
            network=network,
            partition=self.partition(network),
            batch=self.batch,
            perturbation="rank1" if self.source == "rank1" else "full",
            **({"alignment": "batch"} if self.method == "full-bp" else {}) | dict(self.choices),
        )

    def schedule(self) -> list[Any]:
        """Return what holds in each epoch: a phase, or in floating point a rate."""
        epochs = range(self.epochs)
        if self.arithmetic == "float":
            return [self.rate * DECAY ** (10 * epoch // self.epochs) for epoch in epochs]
        grain = GRAIN if self.source in HARDWARE else 1
        phases = phases_of(self.epochs, self.magnitude, grain=grain)
        return [[phase for phase in phases if phase.epoch <= epoch][-1] for epoch in epochs]


@dataclass(frozen=True)
class Images:
    """Training and test images as int8 values with exponent -7, float32 (n, 1, side, side).

    ``validation`` are images to choose settings by, if there are any.
    """

    name: str
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(
        cls, split: Split, *, degrees: float = 0, limit: int | None = None, validation: int = 0
    ) -> "Images":
        """Return all images that are not held out, and those that are.

        Parameters
        ----------
        split
            Images in 0..1.
        degrees
            Rotates them, anticlockwise, and takes 1,024 of each, drawn at random.
        limit
            How many images to train on, drawn at random, and a third as many to test on; by default
            all.
        validation
            How many of the images to train on are kept apart, drawn at random: a sixth at most.
        """
        images, labels = (np.concatenate(k) for k in zip(split.pre, split.tune, strict=True))
        sets = [(images, labels), split.test]
        if degrees:
            rng = np.random.default_rng(0)
            sets = [_drawn(each, ROTATED, rng) for each in sets]
            sets = [(rotated(images, degrees), labels) for images, labels in sets]
        if limit is not None:
            rng = np.random.default_rng(1)
            sets = [_drawn(sets[0], limit, rng), _drawn(sets[1], limit // 3, rng)]
        found = [(_int8(images), labels) for images, labels in sets]
        if not validation:
            return cls(split.name, found[0], found[1])
        (images, labels), test = found
        order = np.random.default_rng(2).permutation(len(labels))
        count = min(validation, len(labels) // 6)
        apart, rest = order[:count], order[count:]
        return cls(split.name, (images[rest], labels[rest]), test, (images[apart], labels[apart]))

    @cached_property
    def digest(self) -> str:
        """A hash of the images and their labels."""
        parts = [*self.train, *self.test, *(self.validation or ())]
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def _drawn(
    images: tuple[np.ndarray, np.ndarray], count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    chosen = rng.permutation(len(images[1]))[:count]
    return images[0][chosen], images[1][chosen]


def _int8(images: np.ndarray) -> np.ndarray:
    """Return 0..1 as 0..127: the upper seven bits of a byte."""
    return np.floor(np.clip(np.rint(images * 255), 0, 255) / 2).astype(np.float32)[:, None]


@dataclass(frozen=True)
class Task:
    """What all trainings have in common.

    Parameters
    ----------
    images
        :class:`Images`.
    network
        The name of a network.
    folder
        Where the checkpoint of each epoch goes.
    resume
        Whether an unfinished training goes on from its checkpoint. Otherwise it is refused.
    start
        Weights to start from, as in a checkpoint; by default random ones.
    threads
        1, or 2 for both forward passes of a step at once.
    count
        Called with images that were trained on; not where processes run the trainings.
    """

    images: Images
    network: str
    folder: Path
    resume: bool = False
    start: Arrays | None = None
    threads: int = 1
    count: Callable[[int], None] | None = field(default=None, compare=False)

    @cached_property
    def inputs(self) -> str:
        """A hash of images and weights that trainings start from."""
        start = b"".join(v.tobytes() for _, v in sorted((self.start or {}).items()))
        return hashlib.sha256(self.images.digest.encode() + start).hexdigest()

    @cached_property
    def digest(self) -> str:
        """A hash of the inputs, and of the code that runs."""
        return hashlib.sha256((self.inputs + code(__name__)).encode()).hexdigest()

    def checkpoint(self, job: Settings) -> Path:
        """Return the file of a training's checkpoint."""
        key = hashlib.sha256(f"{self.inputs} {self.network} {job}".encode()).hexdigest()
        return self.folder / f"{job.name}-seed{job.seed}-{key[:12]}.npz"

    def run(self, job: Settings) -> dict[str, Any]:
        """Train for all epochs; return the history, and accuracy and loss before the first one.

        Raises ``ValueError`` where an unfinished training is not to be resumed.
        """
        path = self.checkpoint(job)
        kept = load(path)
        done = len(kept[1]["history"]) if kept else 0
        if kept and not self.resume and done < job.epochs:
            raise ValueError(
                f"{path} holds {done} of {job.epochs} epochs: --resume goes on from them, and "
                f"without the file the training starts again"
            )
        version = self.digest[:12]
        with ExitStack() as stack:
            trainer = self._trainer(job, kept[0] if kept and self.resume else self.start, stack)
            if kept and self.resume:
                state = kept[1]
                self._count(done * len(self.images.train[1]))
            else:
                loss, right = trainer.evaluate(*self._scaled(job, *self.images.test))
                before = {"test_loss": loss, "accuracy": 100 * right}
                state = {"before": before, "history": [], "versions": [version]}
            if state["versions"][-1] != version and done < job.epochs:
                state["versions"].append(version)
            schedule = job.schedule()
            for epoch in range(len(state["history"]), job.epochs):
                found = self._epoch(trainer, job, epoch, schedule[epoch])
                state["history"].append(found)
                save(path, _arrays(trainer), state)
        return {**state, "checkpoint": path.name}

    def _trainer(self, job: Settings, start: Arrays | None, stack: ExitStack) -> Any:
        """Return what trains, from ``start`` or from random weights."""
        parallel: Callable[..., Iterable[Any]] = map
        if self.threads > 1:
            parallel = stack.enter_context(ThreadPoolExecutor(self.threads)).map
        rng = np.random.default_rng(job.seed)
        if job.arithmetic == "float":
            network = named(self.network)
            weights = dict(start) if start else floating.init(network, rng)
            return ElasticZoFloat(
                network, job.partition(self.network), weights, job.seed,
                eps=job.eps, clip=job.clip, parallel=parallel,
            )  # fmt: skip
        config = job.config(self.network)
        state = _network(start) if start else init(config, rng)
        source = SOURCES[job.source](job.seed, config)
        trainer = ElasticZo(config, state, source, parallel=parallel)
        if start and "average" in start:
            trainer.levels.average = int(start["average"])
        return trainer

    def _scaled(
        self, job: Settings, images: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return images as the arithmetic has them."""
        return (images / 128 if job.arithmetic == "float" else images), labels

    def _epoch(self, trainer: Any, job: Settings, epoch: int, now: Any) -> dict[str, float]:
        """Train for one epoch, and return losses, accuracy, signs as in float, and seconds."""
        began = perf_counter()
        images, labels = self._scaled(job, *self.images.train)
        rng = np.random.default_rng([job.seed, epoch])
        steps = len(labels) // job.batch
        found = []
        for number, batch in enumerate(batches(rng, images, labels, job.batch)):
            found.append(trainer.step(epoch * steps + number, *batch, now))
            self._count(job.batch)
        self._count(len(labels) - steps * job.batch)
        seconds = perf_counter() - began
        test_loss, right = trainer.evaluate(*self._scaled(job, *self.images.test))
        apart = {}
        if self.images.validation:
            _, share = trainer.evaluate(*self._scaled(job, *self.images.validation))
            apart["validation"] = 100 * share
        return apart | {
            "loss": float(np.mean([each.loss for each in found])),
            "test_loss": test_loss,
            "accuracy": 100 * right,
            "agreement": float(100 * np.mean([each.sign == each.exact for each in found])),
            "seconds": seconds,
        }

    def _count(self, images: int) -> None:
        if self.count is not None:
            self.count(images)

    def alone(self) -> "Task":
        """Return the task as it is sent to other processes."""
        return replace(self, threads=1, count=None)


def _arrays(trainer: Any) -> Arrays:
    """Return what a checkpoint holds: float32 parameters, or int8 weights and exponents."""
    if isinstance(trainer, ElasticZoFloat):
        return trainer.parameters
    weights, exponents = trainer.network.weights, trainer.network.exponents
    average = trainer.levels.average
    kept = {} if average is None else {"average": np.array(average)}
    return (
        kept
        | {name: values.astype(np.int8) for name, values in weights.items()}
        | {f"{name}.exponent": np.array(value) for name, value in exponents.items()}
    )


def _network(arrays: Arrays) -> Network:
    names = [name for name in arrays if f"{name}.exponent" in arrays]
    weights = {name: arrays[name].astype(np.float32) for name in names}
    return Network(weights, {name: int(arrays[f"{name}.exponent"]) for name in names})
