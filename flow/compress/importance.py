"""Importance of input channels: how much errors of a matrix's columns matter.

With a symmetric H, the cost of a row's errors e is e H e'. If the errors e_b of a block b of
columns are known, and all columns after it are still free, then the least cost is reached by
changing these, the columns f. With H = R R', R upper triangular::

    change of w_f = -e_b M_b,    M_b = R_bb (R^-1)_bf,    cost of e_b = |e_b R_bb|^2

The search minimizes the diagonal of this cost. This is GPTQ's feedback of errors (Frantar et al.,
arXiv:2210.17323) with SeedLM's blocks, or parts of the path of a trellis code, in place of rounded
columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError
from seedbed.flow.compress.packed import Config, Weights
from seedbed.spec import SeedlmConfig, TrellisConfig

__all__ = ["Importance", "columns_at_once", "feedback", "read_importance"]

#: Columns of a trellis code that are decided before their errors change later ones.
TRELLIS_BLOCK = 16


@dataclass(frozen=True)
class Importance:
    """Weights of the errors of columns, and M of the change of later columns, or ``None``.

    ``changes`` has the shape (columns, columns): rows of a block, columns after it; float32.
    """

    weights: np.ndarray
    changes: np.ndarray | None = None


def columns_at_once(config: Config) -> int:
    """Return the columns that are decided before their errors change later ones."""
    return TRELLIS_BLOCK if isinstance(config, TrellisConfig) else config.block


def feedback(second_moments: np.ndarray, block: int) -> Importance:
    """Return the importance of H, (columns, columns), for blocks of ``block`` columns.

    Raises ``ValueError`` if H is not positive definite.
    """
    try:
        # The Cholesky decomposition from the last column on.
        r = np.linalg.cholesky(second_moments[::-1, ::-1])[::-1, ::-1]
    except np.linalg.LinAlgError as problem:
        raise ValueError("not positive definite") from problem
    inverse = np.linalg.inv(r)
    weights, changes = np.empty(len(r)), np.zeros(r.shape, np.float32)
    for first in range(0, len(r), block):
        inside, after = slice(first, first + block), slice(first + block, None)
        weights[inside] = (r[inside, inside] ** 2).sum(axis=1)
        changes[inside, after] = r[inside, inside] @ inverse[inside, after]
    return Importance(weights, changes)


def read_importance(
    path: Path, config: Config, tensors: Mapping[str, Weights], source: Path
) -> tuple[dict[str, Importance], str]:
    """Return the importance of the columns of some of the ``tensors``, and a hash of all.

    The file has a vector by the name of a tensor, with a number for each column of its matrix: of a
    kernel, of each input and place. Or it has a symmetric matrix, with a number for each two
    columns; tables of 16 levels use only its diagonal. Other tensors of the file are ignored.

    Raises :class:`CheckpointError` for another size or type, for numbers that are not finite,
    negative in a vector, or all 0, for a matrix that is not symmetric and positive definite, and if
    no name is that of a tensor of ``source``.
    """
    found, digest = {}, sha256()
    with Checkpoint(path) as read:
        for name in sorted(read.tensors.keys() & tensors.keys()):
            entry, columns = read.tensors[name], tensors[name].columns
            where = f"{path}: tensor {name!r}"
            if entry.dtype not in FLOATS or entry.shape not in ((columns,), (columns, columns)):
                raise CheckpointError(
                    f"{where} is of {entry.dtype} in the shape {list(entry.shape)}, but the "
                    f"importance of its columns is of {', '.join(FLOATS)} in {[columns]} or "
                    f"{[columns, columns]}"
                )
            raw = read.read(entry.offset, entry.nbytes)
            values = np.frombuffer(raw, FLOATS[entry.dtype]).astype(np.float64)
            digest.update(repr((name, entry.dtype, entry.shape)).encode() + raw)
            if len(entry.shape) == 2:
                found[name] = _of_matrix(values.reshape(entry.shape), config, where)
                continue
            wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
            if len(wrong):
                raise CheckpointError(
                    f"{where}: the importance of column {wrong[0]} is {values[wrong[0]]}, but it "
                    f"must be finite, and 0 or more"
                )
            if not values.any():
                raise CheckpointError(f"{where}: the importance of all columns is 0")
            found[name] = Importance(values)
    if not found:
        raise CheckpointError(
            f"{path} has the importance of none of the compressed tensors of {source}"
        )
    return found, digest.hexdigest()


def _of_matrix(values: np.ndarray, config: Config, where: str) -> Importance:
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise CheckpointError(
            f"{where}: the importance of columns {row} and {column} is {values[row, column]}, but "
            "it must be finite"
        )
    if (values != values.T).any():
        row, column = np.argwhere(values != values.T)[0]
        raise CheckpointError(
            f"{where}: the importance of columns {row} and {column} is not that of {column} and "
            f"{row}: the matrix must be symmetric"
        )
    try:
        # Also if the format uses only the diagonal: a file is good for all formats or for none.
        found = feedback(values, columns_at_once(config))
    except ValueError:
        raise CheckpointError(
            f"{where}: the matrix must be positive definite: add a hundredth of the mean of its "
            "diagonal to its diagonal"
        ) from None
    uses = isinstance(config, SeedlmConfig | TrellisConfig)
    return found if uses else Importance(values.diagonal())
