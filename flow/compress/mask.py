"""Masks of kept weights: for each tensor, the sorted indices of its weights in storage order."""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError, Entry
from seedbed.flow.run.files import atomic_path

__all__ = ["INDICES", "KEY", "VERSION", "read_mask", "write_mask"]

#: The only key of the metadata, and the version of the format.
KEY, VERSION = "seedbed.mask", 1
#: Largest number of weights of a tensor: indices are int32.
INDICES = 1 << 31


def write_mask(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    indices: Mapping[str, np.ndarray],
    made: Mapping[str, Any],
) -> None:
    """Write a mask: for each tensor of ``shapes``, its sorted ``indices`` as int32.

    ``made`` says how the mask was made, as JSON values for the reader.
    """
    document = {"version": VERSION, "made": dict(made), "shapes": {n: s for n, s in shapes.items()}}
    tensors = {name: Entry("I32", (len(indices[name]),)) for name in shapes}
    metadata = {KEY: json.dumps(document, sort_keys=True)}
    with atomic_path(path) as part, Checkpoint.create(part, tensors, metadata) as written:
        for name, entry in written.tensors.items():
            written.write(entry.offset, indices[name].astype("<i4").tobytes())
        written.sync()


def read_mask(path: Path) -> tuple[dict[str, tuple[int, ...]], dict[str, np.ndarray]]:
    """Return the shapes of a mask's tensors, and their indices as int64, sorted and unique.

    Raises :class:`CheckpointError` with the file and, if applicable, the tensor, and ``OSError``.
    """
    with Checkpoint(path) as read:
        shapes = _shapes(read)
        if shapes.keys() != read.tensors.keys():
            other = min(shapes.keys() ^ read.tensors.keys())
            raise CheckpointError(
                f"{path}: tensor {other!r} is not both in the mask and in its metadata"
            )
        indices = {}
        for name, entry in sorted(read.tensors.items()):
            where = f"{path}: tensor {name!r}"
            if entry.dtype != "I32" or len(entry.shape) != 1:
                raise CheckpointError(
                    f"{where} is of {entry.dtype} in the shape {list(entry.shape)}, but a mask "
                    f"has a vector of I32"
                )
            found = np.frombuffer(read.read(entry.offset, entry.nbytes), "<i4").astype(np.int64)
            require_indices(found, prod(shapes[name]), where)
            indices[name] = found
    return shapes, indices


def require_indices(indices: np.ndarray, size: int, where: str) -> None:
    """Raise :class:`CheckpointError` unless int64 indices are sorted, unique and below ``size``."""
    wrong = np.flatnonzero((indices < 0) | (indices >= size))
    if len(wrong):
        raise CheckpointError(
            f"{where}: entry {wrong[0]} is the index {indices[wrong[0]]}, not one of 0..{size - 1}"
        )
    wrong = np.flatnonzero(np.diff(indices) <= 0)
    if len(wrong):
        at = int(wrong[0])
        raise CheckpointError(
            f"{where}: entry {at + 1} is the index {indices[at + 1]} after {indices[at]}, but "
            f"indices must increase"
        )


def _shapes(read: Checkpoint) -> dict[str, tuple[int, ...]]:
    if KEY not in read.metadata:
        raise CheckpointError(f"{read.path} was not written by 'seedbed sensitive'")
    try:
        document = json.loads(read.metadata[KEY])
    except (ValueError, RecursionError) as problem:
        raise CheckpointError(f"{read.path}: its metadata is not JSON") from problem
    version = document.get("version") if isinstance(document, dict) else None
    if type(version) is not int or version != VERSION:
        raise CheckpointError(
            f"{read.path} has version {version!r} of the mask format, but {VERSION} can be read"
        )
    shapes = document.get("shapes")
    if not isinstance(shapes, dict) or not all(
        isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
        for shape in shapes.values()
    ):
        raise CheckpointError(f"{read.path}: its metadata lacks the shapes of its tensors")
    return {name: tuple(shape) for name, shape in shapes.items()}
