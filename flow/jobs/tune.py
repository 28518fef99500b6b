"""Fine-tuning of a user's network on a user's data, by the cores that train.

A training is a job, which the model, the emitted Verilog and a board run alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from seedbed.flow.cores import networks, registry, settings
from seedbed.flow.importer import state_dict
from seedbed.flow.importer.images import read_sets
from seedbed.flow.importer.imported import (
    ADAPTERS,
    NETWORK,
    WEIGHTS,
    adapter_tensors,
    read_adapters,
)
from seedbed.flow.importer.integers import int8_layers
from seedbed.flow.importer.model import Model
from seedbed.flow.jobs import elasticzo_checkpoint as checkpoints
from seedbed.flow.jobs import instantft_rtl, zo_trainer_rtl
from seedbed.flow.jobs.instantft_task import fine_tuning
from seedbed.flow.jobs.zo_trainer_rtl import training
from seedbed.flow.run.cache import code
from seedbed.golden.engine import network_weights
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.zeroth_order.zo_steps import class_layout
from seedbed.sim.job import Act, Epoch
from seedbed.sim.jobs import instantft_job, zo_job
from seedbed.sim.payloads import unpack
from seedbed.spec.checks import require_int
from seedbed.spec.network import NetworkConfig

__all__ = [
    "AdapterTuning", "Data", "Epochs", "Result", "Tuning", "ZeroOrderTuning", "drawn", "instantft",
    "zo_trainer",
]  # fmt: skip

#: Images to train on, and other ones, at most, unless numbers are given.
IMAGES, HELD = 1024, 256
#: Standard deviation of the adapters' A.
DEVIATION = 0.05
#: Bits of a beat of the memory on a board.
BEAT_BITS = 64


@dataclass(frozen=True)
class Data:
    """Images, bytes (samples, C, H, W), and labels; the first ``tuned`` are trained on."""

    images: np.ndarray
    labels: np.ndarray
    tuned: int


def drawn(
    path: Path, network: NetworkConfig, *, images: int | None, held: int | None, seed: int,
    most: int = IMAGES,
) -> Data:  # fmt: skip
    """Return images of a path, drawn by the seed, see :func:`~seedbed.flow.importer.images.read`.

    Without a number, at most ``most`` images are trained on.

    Held-out images are those for tests, where there are any; otherwise, by default, a fifth of all.
    Raises ``ValueError`` for numbers out of range, and for images that are not in 0..1.
    """
    require_int("seed", seed, 0, 2**32 - 1)
    sets = read_sets(path, network)
    parts = []
    for number, each in enumerate(sets):
        if each.pixels is None:
            raise ValueError(f"{path}: images must be in 0..1, as the core takes bytes")
        order = np.random.default_rng([seed, number]).permutation(len(each.labels))
        parts.append((each.pixels[order], each.labels[order]))
    one = len(parts) == 1
    others = len(parts[-1][1]) - one
    if others < 1:
        raise ValueError(f"{path} has one image, and none to hold out")
    if held is None:
        held = min(HELD, max(1, (others + 1) // 5) if one else others)
    require_int(f"the held-out images of {path}", held, 1, others)
    if one:
        [(x, labels)] = parts
        parts = [(x[held:], labels[held:]), (x[:held], labels[:held])]
    there = len(parts[0][1])
    images = min(IMAGES, most, there) if images is None else images
    require_int(f"the images of {path} to train on", images, 1, there)
    (x, labels), (others_x, others_labels) = (
        [part[:count] for part in each] for each, count in zip(parts, (images, held), strict=True)
    )
    whole = np.concatenate([x, others_x]), np.concatenate([labels, others_labels])
    return Data(*whole, tuned=images)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished training: shares of the held-out images, 0..1, and what was learned.

    Parameters
    ----------
    before, after
        Classified correctly.
    epochs
        Of each epoch, accuracy on its images, 0..1, and the mean loss where the core gives it.
    learned
        As the tuning has it.
    """

    before: float
    after: float
    epochs: list[dict[str, float]]
    learned: Any


class Epochs:
    """Trains epoch by epoch; what a finished one gives is in a file, and is not computed again.

    Parameters
    ----------
    folder
        Of the files.
    key
        A hash of all that the training depends on.
    shown
        Called with the number of an epoch that is finished, and what it gave.
    """

    def __init__(
        self, folder: Path, key: str, shown: Callable[[int, Mapping[str, np.ndarray]], None]
    ):
        self.folder, self.key, self.shown = folder, key, shown

    def __call__(
        self, number: int, train: Callable[[], dict[str, np.ndarray]]
    ) -> Mapping[str, np.ndarray]:
        path = self.folder / f"tune-{self.key[:24]}-{number}.npz"
        kept = checkpoints.load(path)
        if kept and kept[1].get("key") == self.key:
            found = kept[0]
        else:
            found = train()
            checkpoints.save(path, found, {"key": self.key})
        self.shown(number, found)
        return found


@dataclass(frozen=True, kw_only=True)
class Tuning(ABC):
    """A training of a network by a core.

    Parameters
    ----------
    core, params
        Its name, and its parameters.
    job
        What model, Verilog and board run.
    model
        The network, with its weights.
    """

    core: str
    params: Mapping[str, Any]
    job: Any
    model: Model

    @property
    def tuned(self) -> int:
        """The number of images to train on."""
        return len(self.labels(0))

    @property
    def held(self) -> int:
        """The number of other images."""
        return len(self.job.labels) - self.tuned

    @property
    def key(self) -> str:
        """A hash of the job, and of the code that runs it."""
        digest = sha256(code(type(self).__module__).encode())
        for name, value in vars(self.job).items():
            digest.update(name.encode())
            parts = value.values() if isinstance(value, Mapping) else value
            parts = parts if isinstance(parts, Sequence | np.ndarray) else [parts]
            for part in parts:
                raw = part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
                digest.update(raw)
        return digest.hexdigest()

    @abstractmethod
    def labels(self, number: int) -> np.ndarray:
        """Return the labels of an epoch's samples, in order."""

    @abstractmethod
    def _acts(self, epoch: Epoch) -> list[Act]:
        """Train the model; return what it expects of a core."""

    @abstractmethod
    def _correct(self, act: Act) -> np.ndarray:
        """Return which held-out images an act expects to be of their classes."""

    @abstractmethod
    def _learned(self, acts: Sequence[Act]) -> Any:
        """Return what the acts read."""

    @abstractmethod
    def simulate(
        self, verilog: Path, *, build: Path, epoch: Epoch, progress: Callable[[str, float], None]
    ) -> dict[str, int]:
        """Run the job on the emitted Verilog; return cycles by phase.

        Raises :class:`~seedbed.sim.harness.Mismatch` for a bit that is not the model's.
        """

    @abstractmethod
    def files(self, result: Result) -> dict[str, bytes]:
        """Return the files of what was learned, by name."""

    def scores(self, number: int, found: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Return the accuracy of an epoch on its images, 0..1, and the mean loss if there is one.

        Images are classified as they are trained on.
        """
        scores = {"accuracy": float((found["best"] == self.labels(number)).mean())}
        if "loss" in found:
            scores["loss"] = float(found["loss"].mean()) / self.job.config.values.one
        return scores

    def run(self, epoch: Epoch) -> Result:
        """Train the model."""
        epochs: list[dict[str, float]] = []

        def kept(
            number: int, train: Callable[[], dict[str, np.ndarray]]
        ) -> Mapping[str, np.ndarray]:
            found = epoch(number, train)
            epochs.append(self.scores(number, found))
            return found

        acts = self._acts(kept)
        first, last = (act for act in acts if act.name in ("before", "after", "infer"))
        before, after = (float(self._correct(act).mean()) for act in (first, last))
        return Result(before=before, after=after, epochs=epochs, learned=self._learned(acts))

    def _network_files(self, model: Model) -> dict[str, bytes]:
        """Return a network with its weights, and the parameters of the core."""
        core = registry.find(self.core)
        text = settings.toml(core, {**self.params, "network": NETWORK})
        return {
            NETWORK: networks.toml(model.network).encode(),
            WEIGHTS: state_dict.write(model),
            f"{self.core}.toml": text.encode(),
        }


class AdapterTuning(Tuning):
    """Adapters of a frozen network, by ``instantft``; what is learned are A and B of each layer."""

    job: instantft_job.Job

    def labels(self, number: int) -> np.ndarray:
        count = self.job.tuned
        places = np.concatenate(self.job.order)[number * count :][:count]
        return self.job.labels[places]

    def _acts(self, epoch: Epoch) -> list[Act]:
        return self.job.acts(lambda places: places, epoch=epoch)[0]

    def _correct(self, act: Act) -> np.ndarray:
        return self.job.correct(act)[self.job.tuned :]

    def _learned(self, acts: Sequence[Act]) -> Any:
        return self.job.learned(acts)

    def simulate(
        self, verilog: Path, *, build: Path, epoch: Epoch, progress: Callable[[str, float], None]
    ) -> dict[str, int]:
        seed = self.job.a_seed[0]
        found = instantft_rtl.simulate(
            verilog, self.job, build=build, seed=seed, epoch=epoch, progress=progress
        )
        return found["cycles"]

    def files(self, result: Result) -> dict[str, bytes]:
        form = self.job.config.adapters
        tensors = adapter_tensors(self.model.network, result.learned, form)
        found = self._network_files(self.model) | {ADAPTERS: save(tensors)}
        return found | _onnx(self.model, tensors)


class ZeroOrderTuning(Tuning):
    """All weights in int8, by ``zo_trainer``; what is learned are the integers of each layer."""

    job: zo_job.Job

    def labels(self, number: int) -> np.ndarray:
        return self.job.labels[self.job.order[number]]

    def _acts(self, epoch: Epoch) -> list[Act]:
        names = ("before", "train", "read", "infer")
        return self.job.acts(names, lambda places: places, epoch=epoch)[0]

    def _correct(self, act: Act) -> np.ndarray:
        best = unpack(class_layout(self.job.config), act.outputs["o"], "best")[:, 0]
        return best == self.job.labels[self.job.classified]

    def _learned(self, acts: Sequence[Act]) -> Any:
        config, (read,) = self.job.config, [act for act in acts if act.name == "read"]
        found = unpack(words_layout(config.engine), read.outputs["o_parameters"], "word")
        rows = found.reshape(-1, config.ways, config.lanes)
        return network_weights(config.engine.plan, config.layers, rows)

    def simulate(
        self, verilog: Path, *, build: Path, epoch: Epoch, progress: Callable[[str, float], None]
    ) -> dict[str, int]:
        found = zo_trainer_rtl.measure(
            verilog, self.job, build=build, epoch=epoch, progress=progress
        )
        return found["cycles"]

    def files(self, result: Result) -> dict[str, bytes]:
        parameters = {}
        for layer in self.model.network.layers:
            exponent = self.job.exponents[layer.name]
            real = np.ldexp(result.learned[layer.name], exponent).astype(np.float32)
            parameters[f"{layer.name}.weight"] = real
            if layer.bias:
                parameters[f"{layer.name}.bias"] = np.zeros(layer.outputs, np.float32)
        model = replace(self.model, parameters=parameters)
        return self._network_files(model) | _onnx(model)


def _onnx(model: Model, adapters: dict[str, np.ndarray] | None = None) -> dict[str, bytes]:
    """Return the ONNX file of a network that comes from one."""
    if model.origin is None:
        return {}
    from seedbed.flow.importer import onnx_output

    return {"model.onnx": onnx_output.write(model, adapters)}


def instantft(
    file: Path, model: Model, data: Path, params: Mapping[str, Any], *, images: int | None,
    held: int | None, epochs: int, seed: int, rate: float,
) -> AdapterTuning:  # fmt: skip
    """Return the fine-tuning of a network by adapters, from those beside its file if there are any.

    Raises ``ValueError`` for what the core does not take.
    """
    params = {"beat_bits": BEAT_BITS, **params, "network": model.network}
    config = registry.find("instantft").configure(params)
    # It refuses maps that it cannot keep.
    _ = config.forward_cache
    found = drawn(data, model.network, images=images, held=held, seed=seed, most=config.entries)
    path = file.with_name(ADAPTERS)
    adapters = None
    if path.is_file():
        adapters = read_adapters(path, model.network, config.rank, config.adapters)
    job = fine_tuning(
        config, model.parameters, found.images, found.labels, tuned=found.tuned, epochs=epochs,
        rate=rate, deviation=DEVIATION, seed=seed, adapters=adapters,
    )  # fmt: skip
    return AdapterTuning(core="instantft", params=params, job=job, model=model)


def zo_trainer(
    file: Path, model: Model, data: Path, params: Mapping[str, Any], *, images: int | None,
    held: int | None, epochs: int, seed: int, batch: int, magnitude: int,
) -> ZeroOrderTuning:  # fmt: skip
    """Return the training of a network's weights, rounded to int8, without its biases.

    Raises ``ValueError`` for what the core does not take.
    """
    params = {**params, "network": model.network}
    config = registry.find("zo_trainer").configure(params)
    found = drawn(data, model.network, images=images, held=held, seed=seed)
    weights, exponents = int8_layers(config.layers, model.parameters)
    job = training(
        config, weights, exponents, found.images, found.labels, tuned=found.tuned, batch=batch,
        epochs=epochs, magnitude=magnitude, seed=seed,
    )  # fmt: skip
    return ZeroOrderTuning(core="zo_trainer", params=params, job=job, model=model)
