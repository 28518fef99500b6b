"""Compensation of errors by later columns, compiled."""

import numpy as np

from seedbed.flow.compress.compiled import STRICT, compiled

__all__ = ["compensate"]


@compiled(**STRICT)
def _subtract(targets, wrong, changes):
    """Subtract wrong_c changes_c, c = 0, 1, .. from each row of ``targets``, in this order."""
    for row in range(len(targets)):
        for c in range(wrong.shape[1]):
            error = wrong[row, c]
            for f in range(targets.shape[1]):
                targets[row, f] -= error * changes[c, f]


def compensate(
    targets: np.ndarray, decoded: np.ndarray, kept: np.ndarray, changes: np.ndarray, first: int
) -> None:
    """Change the columns of ``targets`` after a block by the errors of the block, in place.

    ``decoded`` has the block's columns, the first of them is ``first`` of the rows. Weights where
    ``kept`` is true have no error: their difference to the block is stored. The rounding does not
    depend on the number of rows.
    """
    after = min(first + decoded.shape[1], targets.shape[1])
    block = slice(first, after)
    wrong = np.where(kept[:, block], 0.0, targets[:, block] - decoded[:, : after - first])
    _subtract(targets[:, after:], wrong, changes[block, after:])
