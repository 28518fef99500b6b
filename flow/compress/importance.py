"""Importance of input channels: a weight for the error of each column of a matrix."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError
from seedbed.flow.compress.packed import Weights

__all__ = ["read_importance"]


def read_importance(
    path: Path, tensors: Mapping[str, Weights], source: Path
) -> tuple[dict[str, np.ndarray], str]:
    """Return the importance of the columns of some of the ``tensors``, and a hash of all.

    The file has a vector by the name of a tensor, with a number for each column of its matrix: of a
    kernel, of each input and place. Other tensors of the file are ignored.

    Raises :class:`CheckpointError` for a vector of another size or type, for numbers that are not
    finite, negative, or all 0, and if no name is that of a tensor of ``source``.
    """
    found, digest = {}, sha256()
    with Checkpoint(path) as read:
        for name in sorted(read.tensors.keys() & tensors.keys()):
            entry, columns = read.tensors[name], tensors[name].columns
            where = f"{path}: tensor {name!r}"
            if entry.dtype not in FLOATS or entry.shape != (columns,):
                raise CheckpointError(
                    f"{where} is of {entry.dtype} in the shape {list(entry.shape)}, but the "
                    f"importance of its columns is of {', '.join(FLOATS)} in {[columns]}"
                )
            raw = read.read(entry.offset, entry.nbytes)
            values = np.frombuffer(raw, FLOATS[entry.dtype]).astype(np.float64)
            wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
            if len(wrong):
                raise CheckpointError(
                    f"{where}: the importance of column {wrong[0]} is {values[wrong[0]]}, but it "
                    f"must be finite, and 0 or more"
                )
            if not values.any():
                raise CheckpointError(f"{where}: the importance of all columns is 0")
            digest.update(repr((name, entry.dtype)).encode() + raw)
            found[name] = values
    if not found:
        raise CheckpointError(
            f"{path} has the importance of none of the compressed tensors of {source}"
        )
    return found, digest.hexdigest()
