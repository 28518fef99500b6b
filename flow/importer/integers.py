"""Real numbers as integers in units of a power of two."""

from math import frexp

import numpy as np

__all__ = ["integer_weights"]


def integer_weights(numbers: np.ndarray, width: int) -> tuple[np.ndarray, int]:
    """Return numbers as integers of ``width`` bits, int64, and the exponent of their unit.

    The unit is the least power of two with which all fit, rounded to nearest.
    """
    half = 1 << (width - 1)
    peak = float(np.abs(numbers).max(initial=0))
    exponent = frexp(peak)[1] - (width - 1) if peak else 0
    found = np.rint(np.ldexp(numbers, -exponent))
    if found.max(initial=0) >= half:
        exponent += 1
        found = np.rint(np.ldexp(numbers, -exponent))
    return found.astype(np.int64), exponent
