"""Compensation of errors by later columns, compiled."""

import numpy as np

from seedbed.flow.compress.compiled import STRICT, compiled

__all__ = ["compensate"]


@compiled(**STRICT)
def _subtract(targets, wrong, changes):
    """Subtract wrong_c changes_c, c = 0, 1, .. from each row of ``targets``, in this order."""
    whole = wrong.shape[1] // 4 * 4
    for row in range(len(targets)):
        # Four at a time: a target stays in a register for as long.
        for c in range(0, whole, 4):
            e0, e1, e2, e3 = wrong[row, c], wrong[row, c + 1], wrong[row, c + 2], wrong[row, c + 3]
            for f in range(targets.shape[1]):
                target = targets[row, f] - e0 * changes[c, f]
                target -= e1 * changes[c + 1, f]
                target -= e2 * changes[c + 2, f]
                targets[row, f] = target - e3 * changes[c + 3, f]
        for c in range(whole, wrong.shape[1]):
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
