"""Files of an import or a fine-tuning: a network, its weights, and adapters."""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.pieces import floats
from seedbed.flow.importer import state_dict
from seedbed.flow.importer.model import Model
from seedbed.golden.fixed import to_fixed
from seedbed.spec.fixed import Fixed
from seedbed.spec.network import NetworkConfig

__all__ = ["ADAPTERS", "NETWORK", "WEIGHTS", "adapter_tensors", "read", "read_adapters"]

#: Names of the files in a folder.
NETWORK, WEIGHTS, ADAPTERS = "network.toml", "weights.safetensors", "adapters.safetensors"


def read(path: Path) -> tuple[Path, Model]:
    """Return the network file of a folder, or the file itself, and the network with its weights.

    Raises ``ValueError`` with the name of the file that is missing or that does not fit.
    """
    file = path / NETWORK if path.is_dir() else path
    weights = file.with_name(WEIGHTS)
    for each in (file, weights):
        if not each.is_file():
            raise ValueError(f"{each} is missing: 'seedbed import MODEL -o DIR' writes it")
    return file, state_dict.read(weights, file)


def _orders(network: NetworkConfig) -> list[np.ndarray]:
    """Return of each layer the place of its input's numbers, as an adapter has them.

    An adapter takes rows, columns, channels; the place is that in channels, rows, columns. A dense
    layer takes the maps before it.
    """
    layers = network.layers
    shapes = [layers[0].inputs, *(layer.shape for layer in layers[:-1])]
    places = [np.arange(prod(shape)).reshape(shape) for shape in shapes]
    return [each.transpose(1, 2, 0).ravel() for each in places]


def adapter_tensors(
    network: NetworkConfig, adapters: tuple[Sequence[np.ndarray], Sequence[np.ndarray]], form: Fixed
) -> dict[str, np.ndarray]:
    """Return adapters, integers as the core has them, as float32 tensors of layers.

    NAME.lora_a is (rank, inputs), the inputs in channels, rows, columns; NAME.lora_b is
    (classes, rank).
    """
    found = {}
    for layer, order, a, b in zip(network.layers, _orders(network), *adapters, strict=True):
        sorted_ = np.empty_like(a)
        sorted_[:, order] = a
        for name, part in (("lora_a", sorted_), ("lora_b", b)):
            real = (part / form.one).astype(np.float32)
            # safetensors stores an array as it lies in memory.
            found[f"{layer.name}.{name}"] = np.ascontiguousarray(real)
    return found


def read_adapters(
    path: Path, network: NetworkConfig, rank: int, form: Fixed
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the adapters of a file of :func:`adapter_tensors`, integers as the core has them.

    Raises ``ValueError`` with the file's name for another rank, and for another network.
    """
    a, b, classes = [], [], network.layers[-1].outputs
    with Checkpoint(path) as file:
        for layer, order in zip(network.layers, _orders(network), strict=True):
            shapes = {"lora_a": (rank, prod(layer.inputs)), "lora_b": (classes, rank)}
            parts: Mapping[str, np.ndarray] = {
                end: _tensor(file, f"{layer.name}.{end}", shape) for end, shape in shapes.items()
            }
            a.append(to_fixed(parts["lora_a"][:, order], form))
            b.append(to_fixed(parts["lora_b"], form))
    return a, b


def _tensor(file: Checkpoint, name: str, shape: tuple[int, ...]) -> np.ndarray:
    entry = file.tensors.get(name)
    if entry is None or entry.dtype != "F32" or entry.shape != shape:
        raise ValueError(f"{file.path} must have {name!r} of F32 in {list(shape)}")
    found = floats(file.read(entry.offset, entry.nbytes), entry.dtype).reshape(shape)
    if not np.isfinite(found).all():
        raise ValueError(f"{file.path}: tensor {name!r} has numbers that are not finite")
    return found
