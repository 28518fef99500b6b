"""Checkpoints of ElasticZO's trainings, and what their names stand for."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from seedbed.flow.run.files import write_atomic

__all__ = ["METHODS", "NETWORKS", "Arrays", "load", "save"]

#: Layers at the end that backpropagation trains; -1 is all of them.
METHODS = {"full-zo": 0, "cls2": 1, "cls1": 2, "full-bp": -1}
#: Which network for which side of the images.
NETWORKS = {8: "lenet_digits", 28: "lenet5_padded"}

Arrays = dict[str, np.ndarray]


def save(path: Path, arrays: Arrays, state: dict[str, Any]) -> None:
    """Write a checkpoint: arrays, and a state of JSON values; equal values give equal bytes."""
    # numpy would store a transposed array as it lies in memory.
    arrays = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    buffer = BytesIO()
    text = json.dumps(state).encode()
    np.savez(buffer, **arrays, state=np.frombuffer(text, np.uint8))  # type: ignore[arg-type]
    write_atomic(path, buffer.getvalue())


def load(path: Path) -> tuple[Arrays, dict[str, Any]] | None:
    """Return a checkpoint's arrays and state, or ``None`` if there is none that can be read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            arrays = {name: file[name] for name in file.files}
            state = json.loads(arrays.pop("state").tobytes())
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return arrays, state
