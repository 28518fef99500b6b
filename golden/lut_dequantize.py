"""Golden model of the dequantizer with a row's table of levels."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.spec.lut_dequantize import LEVELS, LutDequantizeConfig

__all__ = ["dequantize"]


def dequantize(config: LutDequantizeConfig, codes: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the level of each code, int64 of the shape of ``codes``.

    Parameters
    ----------
    codes
        Integers 0..15, of shape (rows, columns).
    levels
        Integers of ``config.width`` bits, of shape (rows, 16): a table for each row.

    Raises ``ValueError`` for numbers out of range and for shapes that do not fit.
    """
    half = 1 << (config.width - 1)
    codes = require_integers("codes", codes, 0, LEVELS - 1)
    levels = require_integers("levels", levels, -half, half - 1)
    if codes.ndim != 2 or levels.shape != (len(codes), LEVELS):
        raise ValueError(
            f"codes must be of shape (rows, columns) and levels of shape (rows, {LEVELS}), not "
            f"{codes.shape} and {levels.shape}"
        )
    return levels[np.arange(len(codes))[:, None], codes]
