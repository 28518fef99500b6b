"""What an import gives, and which files it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from seedbed.spec.network import NetworkConfig

__all__ = ["CORES", "Model", "Origin", "require_model"]

#: Cores that take a network.
CORES = ("conv_engine", "instantft", "zo_trainer")
#: First bytes of files that PyTorch writes: a zip archive, and pickles.
ARCHIVE, PICKLE = b"PK\x03\x04", b"\x80"


@dataclass(frozen=True)
class Origin:
    """Of an ONNX file: its input and its output, and the operator after the logits, or ``""``.

    ``shape`` is that of the input, without the batch.
    """

    input: str
    shape: list[int]
    output: str
    last: str = ""


@dataclass(frozen=True)
class Model:
    """A network, its parameters, float32, by name, and notes on what was changed.

    ``origin`` is what they were read from, if it was an ONNX file.
    """

    network: NetworkConfig
    parameters: Mapping[str, np.ndarray]
    notes: list[str] = field(default_factory=list)
    origin: Origin | None = None


def require_model(path: Path) -> str:
    """Return the suffix of a file, ``.onnx`` or ``.safetensors``.

    Raises ``ValueError`` for another file; for one of PyTorch, the sentence says how to export it.
    """
    with path.open("rb") as file:
        first = file.read(len(ARCHIVE))
    if first == ARCHIVE or first[:1] == PICKLE:
        raise ValueError(
            f"{path} is a file of PyTorch, which is not read without PyTorch: export the module "
            "there with torch.onnx.export(module, images, 'model.onnx')"
        )
    suffix = path.suffix.lower()
    if suffix not in (".onnx", ".safetensors"):
        raise ValueError(
            f"{path} must end in .onnx, or in .safetensors for a state dict; export a module of "
            "PyTorch with torch.onnx.export(module, images, 'model.onnx')"
        )
    return suffix
