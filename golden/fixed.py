"""Rounding, saturation and exact sums of products of fixed-point integers."""

import numpy as np

from seedbed.golden.exact import whole_product
from seedbed.spec.fixed import Fixed

__all__ = ["Saturations", "matmul", "rounded", "saturate", "shifted", "to_fixed"]


class Saturations:
    """Saturates numbers, and counts the overflows."""

    def __init__(self) -> None:
        self.count = 0

    def saturate(self, numbers: np.ndarray, form: Fixed) -> np.ndarray:
        """Return the integers, clipped to the format's range."""
        saturated = saturate(numbers, form)
        self.count += int(np.count_nonzero(saturated != numbers))
        return saturated

    def requantize(self, numbers: np.ndarray, shift: int, form: Fixed) -> np.ndarray:
        """Return the integers divided by 2^shift, rounded half up and saturated."""
        return self.saturate(rounded(numbers, shift), form)


def saturate(numbers: np.ndarray, form: Fixed) -> np.ndarray:
    """Return the integers, clipped to the format's range."""
    return np.clip(numbers, form.low, form.high)


def rounded(numbers: np.ndarray, shift: np.ndarray | int) -> np.ndarray:
    """Return floor(numbers / 2^shift + 1/2), int64."""
    numbers = np.asarray(numbers, np.int64)
    return (numbers + (1 << shift >> 1)) >> np.int64(shift)


def shifted(numbers: np.ndarray, shift: np.ndarray | int) -> np.ndarray:
    """Return numbers / 2^shift, rounded half up; a shift below 0 is to the left."""
    return rounded(numbers, np.maximum(shift, 0)) << np.maximum(-np.asarray(shift), 0)


def to_fixed(reals: np.ndarray, form: Fixed) -> np.ndarray:
    """Return real numbers as a format's integers, int64: rounded half up, saturated.

    Raises ``ValueError`` for NaN.
    """
    if np.isnan(reals).any():
        raise ValueError(f"numbers to round to {form} must be real numbers, not nan")
    scaled = np.floor(np.asarray(reals, np.float64) * form.one + 0.5)
    return np.clip(scaled, form.low, form.high).astype(np.int64)


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the matrix product of integers, int64, by :func:`~seedbed.golden.exact.whole_product`.

    Raises ``ValueError`` for sums that may be 2^63 or more.
    """
    return whole_product(x, y).astype(np.int64, copy=False)
