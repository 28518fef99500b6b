"""State dicts in safetensors files, as the parameters of a network file."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint
from seedbed.flow.cores import networks
from seedbed.flow.importer.model import Model, Origin

__all__ = ["read", "write"]

#: NumPy's types of parameters, by the format's names.
TYPES = {**FLOATS, "F64": np.dtype("<f8")}
#: Key of the metadata of a file whose network was an ONNX file.
ONNX = "onnx"


def read(path: Path, network_file: Path) -> Model:
    """Return the network of a file with the parameters of a safetensors file.

    A layer NAME has NAME.weight of shape (outputs, inputs), or (outputs, channels, kernel, kernel),
    and NAME.bias. Raises ``ValueError`` with the file's name for another list of tensors, another
    shape or type, and for numbers that are not finite. A file of an import says whether it was one
    of an ONNX file.
    """
    network = networks.read(network_file)
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for layer in network.layers:
        maps = (layer.outputs, layer.inputs[0], layer.kernel, layer.kernel)
        rows = (layer.outputs, layer.fan_in)
        shapes[f"{layer.name}.weight"] = [maps, rows] if layer.kind == "conv" else [rows]
        if layer.bias:
            shapes[f"{layer.name}.bias"] = [(layer.outputs,)]
    notes: list[str] = []
    with Checkpoint(path) as file:
        for name in [*shapes, *file.tensors]:
            if name not in file.tensors:
                raise ValueError(f"{path} has no tensor {name!r}, which {network_file} asks for")
            if name not in shapes:
                raise ValueError(
                    f"{path} has the tensor {name!r}, which no layer of {network_file} has; fold "
                    "it before, or export the module as ONNX"
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
    return Model(network, found, notes, _origin(path, onnx) if onnx else None)


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
