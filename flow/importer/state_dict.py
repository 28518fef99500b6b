"""State dicts in safetensors files, as the parameters of a network file."""

import json
from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint
from seedbed.flow.cores import networks
from seedbed.flow.importer.model import Model, Origin
from seedbed.flow.importer.operators import normalized
from seedbed.spec.network import NetworkConfig

__all__ = ["read", "write"]

#: NumPy's types of parameters, by the format's names.
TYPES = {**FLOATS, "F64": np.dtype("<f8")}
#: Of a batch normalization: the tensor of a training alone, and PyTorch's default of epsilon.
COUNT, EPSILON = "num_batches_tracked", 1e-5
#: Key of the metadata of a file whose network was an ONNX file.
ONNX = "onnx"


def read(path: Path, network_file: Path) -> Model:
    """Return the network of a file with the parameters of a safetensors file.

    A layer NAME has NAME.weight of shape (outputs, inputs), or (outputs, channels, kernel, kernel),
    and NAME.bias. A layer of the file may have ``normalization``, the name of a batch normalization
    of its sums, which is folded into it. Raises ``ValueError`` with the file's name for another
    list of tensors, another shape or type, and for numbers that are not finite. A file of an import
    says whether it was one of an ONNX file.
    """
    network, folds = _network(network_file)
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for layer in network.layers:
        maps = (layer.outputs, layer.inputs[0], layer.kernel, layer.kernel)
        rows = (layer.outputs, layer.fan_in)
        shapes[f"{layer.name}.weight"] = [maps, rows] if layer.kind == "conv" else [rows]
        if layer.bias:
            shapes[f"{layer.name}.bias"] = [(layer.outputs,)]
    notes: list[str] = []
    with Checkpoint(path) as file:
        for layer in network.layers:
            for part in folds[layer.name].parts(file.tensors) if layer.name in folds else ():
                shapes[part] = [(layer.outputs,)]
        unused = {f"{fold.name}.{COUNT}" for fold in folds.values()}
        for name in [*shapes, *file.tensors]:
            if name not in file.tensors:
                raise ValueError(f"{path} has no tensor {name!r}, which {network_file} asks for")
            if name not in shapes and name not in unused:
                raise ValueError(
                    f"{path} has the tensor {name!r}, which no layer of {network_file} has: "
                    f"{_remedy(name, file.tensors)}"
                )
        found = {}
        onnx = file.metadata.get(ONNX)
        for name, allowed in shapes.items():
            entry = file.tensors[name]
            if entry.dtype not in TYPES:
                raise ValueError(f"{path}: {name} must be of {', '.join(TYPES)}, not {entry.dtype}")
            if entry.shape not in allowed:
                raise ValueError(
                    f"{path}: {name} must have the shape {' or '.join(map(str, allowed))}, not "
                    f"{entry.shape}"
                )
            note = f"weights of {entry.dtype} are converted to F32"
            if entry.dtype != "F32" and note not in notes:
                notes.append(note)
            raw = np.frombuffer(file.read(entry.offset, entry.nbytes), TYPES[entry.dtype])
            found[name] = raw.astype(np.float32).reshape(allowed[-1])
    for name, value in found.items():
        if not np.isfinite(value).all():
            raise ValueError(f"{path}: {name} has a number that is infinite or not a number")
    for into, fold in folds.items():
        fold.apply(into, found)
        notes.append(f"{fold.name} is folded into {into}")
    layers = tuple(replace(x, bias=x.bias or x.name in folds) for x in network.layers)
    return Model(
        NetworkConfig(layers, source=network.source),
        found,
        notes,
        _origin(path, onnx) if onnx else None,
    )


@dataclass(frozen=True)
class _Fold:
    """The batch normalization of a layer's sums."""

    name: str
    epsilon: float

    def parts(self, tensors: Container[str]) -> list[str]:
        """Return the names of its tensors. It may lack scale and bias, which are the first two."""
        affine = [f"{self.name}.{part}" for part in ("weight", "bias")]
        moments = [f"{self.name}.{part}" for part in ("running_mean", "running_var")]
        return moments if all(part not in tensors for part in affine) else affine + moments

    def apply(self, layer: str, parameters: dict[str, np.ndarray]) -> None:
        """Fold its tensors into those of the layer."""
        given = [parameters.pop(part).astype(np.float64) for part in self.parts(parameters)]
        if len(given) == 2:
            given = [np.ones_like(given[0]), np.zeros_like(given[0]), *given]
        weight, bias = f"{layer}.weight", f"{layer}.bias"
        both = normalized(parameters[weight], parameters.get(bias), given, self.epsilon)
        for name, value in zip((weight, bias), both, strict=True):
            parameters[name] = value.astype(np.float32)


def _network(file: Path) -> tuple[NetworkConfig, dict[str, _Fold]]:
    """Return the network of a file, and the batch normalization of each layer that has one."""
    table = networks.read_toml(file)
    folds: dict[str, _Fold] = {}
    layers = table.get("layer")
    for layer in layers if isinstance(layers, list) else ():
        if not isinstance(layer, dict) or "normalization" not in layer:
            continue
        name, epsilon = layer.pop("normalization"), layer.pop("epsilon", EPSILON)
        if not isinstance(name, str) or not name:
            raise ValueError(f"{file}: normalization must be the name of a module, not {name!r}")
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or epsilon < 0:
            raise ValueError(f"{file}: epsilon must be a number, 0 or more, not {epsilon!r}")
        if name in (fold.name for fold in folds.values()):
            raise ValueError(f"{file}: two layers have the normalization {name!r}; it is of one")
        folds[str(layer.get("name"))] = _Fold(name, epsilon)
    return networks.network(table, file), folds


def _remedy(name: str, tensors: Container[str]) -> str:
    """Return what helps against a tensor that no layer has."""
    module = name.rpartition(".")[0]
    if f"{module}.running_mean" in tensors:
        return f'give the layer before it normalization = "{module}"'
    return "add a layer, or export the module as ONNX"


def write(model: Model) -> bytes:
    """Return a file of a model's parameters that :func:`read` reads."""
    from safetensors.numpy import save

    origin = {ONNX: json.dumps(asdict(model.origin))} if model.origin else None
    # The library stores an array as it lies in memory.
    found = {name: np.ascontiguousarray(value) for name, value in model.parameters.items()}
    return save(found, metadata=origin)


def _origin(path: Path, text: str) -> Origin:
    try:
        return Origin(**json.loads(text))
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{path} has metadata 'onnx' that no import has written") from problem
