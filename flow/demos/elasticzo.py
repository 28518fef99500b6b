"""The ElasticZO-INT8 demonstration: a network trained from random weights in 8-bit integers."""

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Any
from zipfile import BadZipFile

import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from seedbed.flow.cache import code
from seedbed.flow.demos.data import Split, digits, mnist
from seedbed.flow.files import write_atomic
from seedbed.flow.plot_style import OTHER, OURS, legend, panels, png
from seedbed.flow.progress import throughput_bar
from seedbed.golden.elasticzo import ElasticZo, Network, batches, drawn, init
from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.elasticzo import ElasticZoConfig, phases_of
from seedbed.spec.network import named

__all__ = ["METHODS", "Settings", "run_elasticzo"]

Result = dict[str, Any]

#: Layers at the end that backpropagation trains; -1 is all of them.
METHODS = {"full-zo": 0, "cls2": 1, "cls1": 2, "full-bp": -1}
#: Which network for which side of the images.
NETWORKS = {8: "lenet_digits", 28: "lenet5_padded"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a training depends on beside its images.

    Parameters
    ----------
    method
        One of :data:`METHODS`.
    epochs
        Passes over the training images, 1..10,000; the schedule of the paper's 100 is scaled.
    batch
        Images of a batch, 1..4,096.
    magnitude
        r_max, 1..63. The paper tunes it among 1, 3, 7, 15, 31, 63.
    fraction
        Fraction bits in the sign of the loss difference, 0..8; the paper has 0.
    seed
        Of weights, batches and perturbations.
    """

    method: str = "full-zo"
    epochs: int = 100
    batch: int = 256
    magnitude: int = 15
    fraction: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice("method", self.method, METHODS)
        require_int("epochs", self.epochs, 1, 10_000)
        require_int("batch", self.batch, 1, 4_096)
        require_int("seed", self.seed, 0, (1 << 32) - 1)
        # Refuses magnitude and fraction, before any work.
        phases_of(self.epochs, self.magnitude)
        self.config("lenet5_padded")

    def config(self, network: str) -> ElasticZoConfig:
        """Return the configuration for a network."""
        layers = len(named(network).layers)
        tail = METHODS[self.method]
        partition = 0 if tail < 0 else layers - tail
        return ElasticZoConfig(
            network=network,
            partition=partition,
            fraction=self.fraction,
            alignment="batch" if self.method == "full-bp" else "fixed",
            batch=self.batch,
        )


@dataclass(frozen=True)
class Images:
    """Training and test images as int8 values with exponent -7, float32 (n, 1, side, side)."""

    name: str
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, split: Split) -> "Images":
        """Return all images that are not held out, and those that are."""
        train = tuple(np.concatenate(parts) for parts in zip(split.pre, split.tune, strict=True))
        return cls(split.name, (_int8(train[0]), train[1]), (_int8(split.test[0]), split.test[1]))

    @property
    def digest(self) -> str:
        """A hash of the images and their labels."""
        parts = [*self.train, *self.test]
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def _int8(images: np.ndarray) -> np.ndarray:
    """Return 0..1 as 0..127: the upper seven bits of a byte."""
    return np.floor(np.rint(images * 255) / 2).astype(np.float32)[:, None]


def run_elasticzo(
    data: Path | None, out: Path, settings: Settings, *, console: Console | None
) -> Result:
    """Train, from the last epoch that is kept on; write the result and a plot to ``out``.

    Parameters
    ----------
    data
        A folder with the IDX files of MNIST or Fashion-MNIST; without it, scikit-learn's digits.
    out
        Where ``elasticzo-METHOD.json``, the plot and the checkpoint of each epoch go.
    settings
        :class:`Settings`.
    console
        Takes the table, while standard error shows the progress; ``None`` shows nothing.

    Returns what the JSON holds. Raises as :func:`~seedbed.flow.demos.data.mnist`, and
    ``ValueError`` for a batch of more images than there are.
    """
    images = Images.of(digits() if data is None else mnist(data))
    labels = images.train[1]
    if settings.batch > len(labels):
        raise ValueError(f"batch must be at most {len(labels)}, the images, not {settings.batch}")
    network = NETWORKS[images.train[0].shape[-1]]
    config = settings.config(network)
    key = f"{images.digest} {settings} {code(__name__)}"
    checkpoint = out / f"elasticzo-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npz"
    kept = _load(checkpoint)
    history: list[dict[str, float]] = kept[1] if kept else []
    start = kept[0] if kept else init(config, np.random.default_rng(settings.seed))
    phases = phases_of(settings.epochs, settings.magnitude)
    progress = throughput_bar(Console(stderr=True) if console is not None else None, "images")
    with threadpool_limits(1), ThreadPoolExecutor(2) as threads, progress as shown:
        trainer = ElasticZo(config, start, drawn(settings.seed), parallel=threads.map)
        total = settings.epochs * len(labels)
        line = shown.add_task("training", total=total, completed=len(history) * len(labels))
        for epoch in range(len(history), settings.epochs):
            phase = [phase for phase in phases if phase.epoch <= epoch][-1]

            def count(done: int, epoch: int = epoch) -> None:
                where = f"epoch {epoch + 1} of {settings.epochs}"
                shown.update(line, description=where, advance=done)

            history.append(_epoch(trainer, images, settings, epoch, phase, count))
            _save(checkpoint, trainer.network, history)
    result = {
        "data": images.name,
        "network": network,
        "settings": asdict(settings),
        "images": {"train": len(labels), "test": len(images.test[1])},
        "history": history,
        "accuracy": history[-1]["accuracy"],
        "agreement": float(np.mean([each["agreement"] for each in history])),
    }
    name = f"elasticzo-{settings.method}"
    write_atomic(out / f"{name}.json", json.dumps(result, indent=1) + "\n")
    write_atomic(out / f"{name}.png", _plot(result))
    if console is not None:
        _show(result, console)
    return result


def _epoch(
    trainer: ElasticZo,
    images: Images,
    settings: Settings,
    epoch: int,
    phase: Any,
    count: Callable[[int], None],
) -> dict[str, float]:
    """Train for one epoch; return losses, accuracy, signs as floating point has them, seconds."""
    began = perf_counter()
    rng = np.random.default_rng([settings.seed, epoch])
    steps = len(images.train[1]) // settings.batch
    found = []
    for number, batch in enumerate(batches(rng, *images.train, settings.batch)):
        found.append(trainer.step(epoch * steps + number, *batch, phase))
        count(len(batch[1]))
    count(len(images.train[1]) - steps * settings.batch)
    seconds = perf_counter() - began
    pictures, labels = images.test
    return {
        "loss": float(np.mean([each.loss for each in found])),
        "accuracy": float(100 * (trainer.classify(pictures) == labels).mean()),
        "agreement": float(100 * np.mean([each.sign == each.exact for each in found])),
        "seconds": seconds,
    }


def _save(path: Path, network: Network, history: list[dict[str, float]]) -> None:
    buffer = BytesIO()
    weights = {name: values.astype(np.int8) for name, values in network.weights.items()}
    text = json.dumps({"exponents": network.exponents, "history": history})
    np.savez(buffer, **weights, state=np.frombuffer(text.encode(), np.uint8))
    write_atomic(path, buffer.getvalue())


def _load(path: Path) -> tuple[Network, list[dict[str, float]]] | None:
    """Return a checkpoint, or ``None`` where there is none that can be read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            state = json.loads(file["state"].tobytes())
            weights = {name: file[name].astype(np.float32) for name in state["exponents"]}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return Network(weights, state["exponents"]), state["history"]


def _show(result: Result, console: Console) -> None:
    settings, last = result["settings"], result["history"][-1]
    table = Table(title=f"ElasticZO-INT8, {settings['method']}, {result['data']}")
    for head in ("epochs", "r_max", "loss", "test accuracy %", "signs as in float %", "s an epoch"):
        table.add_column(head, justify="right")
    seconds = np.median([each["seconds"] for each in result["history"]])
    table.add_row(
        str(settings["epochs"]), str(settings["magnitude"]), f"{last['loss']:.3f}",
        f"{result['accuracy']:.2f}", f"{result['agreement']:.1f}", f"{seconds:.1f}",
    )  # fmt: skip
    console.print(table)


def _plot(result: Result) -> bytes:
    """Draw loss and accuracy by epoch; the paper's Figure 3."""
    figure, (left, right) = panels(2, 9, 3.6)
    _curve(left, result, "loss", "Training loss (cross-entropy)", OURS)
    _curve(right, result, "accuracy", "Test accuracy (%)", OTHER)
    legend(figure)
    return png(figure)


def _curve(axes: Axes, result: Result, name: str, label: str, colour: str) -> None:
    history = result["history"]
    epochs = range(1, len(history) + 1)
    axes.plot(epochs, [each[name] for each in history], color=colour, label=label)
    axes.set(xlabel="Epoch", ylabel=label)
