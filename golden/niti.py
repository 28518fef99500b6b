"""Golden model of NITI's integers: sums of int32 to int8 with an exponent, and both roundings.

Source: Wang et al., "NITI: Training Integer Neural Networks Using Integer-Only Arithmetic" (IEEE
TPDS 2022); ElasticZO, section 4.2, for the bit width.
"""

from typing import TypeAlias

import numpy as np

from seedbed.spec.elasticzo import LIMIT

__all__ = ["bit_width", "pseudo_stochastic", "round_nearest", "rounded", "shift_of"]

#: A shift by so many bits, or several that broadcast.
Shift: TypeAlias = np.ndarray | np.integer | int


def bit_width(peak: np.ndarray) -> np.ndarray:
    """Return floor(log2(peak)) + 1 of whole numbers from 0 to 2^63 - 1, and 0 of 0."""
    # A float64 has 53 bits: each half of 32 bits is exact.
    high, low = np.divmod(np.asarray(peak).astype(np.int64), 1 << 32)
    part = np.where(high, high, low).astype(np.float64)
    return np.frexp(part)[1].astype(np.int64) + 32 * (high > 0)


def round_nearest(sums: np.ndarray, shift: Shift) -> np.ndarray:
    """Return whole floats sums / 2^shift, rounded half away from zero, and clamped to +-127.

    ``shift`` broadcasts. Exact for float32 below 2^24 and float64 below 2^53: the scale is a power
    of two.
    """
    found = sums * np.ldexp(np.float32(1), -np.asarray(shift))
    magnitude = np.abs(found)
    magnitude += np.float32(0.5)
    np.floor(magnitude, out=magnitude)
    np.minimum(magnitude, LIMIT, out=magnitude)
    return np.copysign(magnitude, found, out=magnitude)


def pseudo_stochastic(sums: np.ndarray, shift: Shift, limit: int = LIMIT) -> np.ndarray:
    """Return integers sums / 2^shift, rounded by their own low bits, and clamped to +-limit.

    The remainder's magnitude is split: its low floor(shift / 2) bits are the random number, doubled
    where shift is odd; the bits above them are the probability. The quotient is rounded away from
    zero where the probability is greater.
    """
    shift = np.asarray(shift)
    magnitude = np.abs(sums)
    quotient = magnitude >> shift
    remainder = magnitude - (quotient << shift)
    low = shift // 2
    probability = remainder >> low
    random = (remainder - (probability << low)) << (shift % 2)
    magnitude = np.minimum(quotient + (probability > random), limit)
    return np.where(sums < 0, -magnitude, magnitude)


def shift_of(sums: np.ndarray) -> np.ndarray:
    """Return by how many bits each sample's sums are shifted: to a magnitude of 7 bits.

    A sample is an entry of the first axis.
    """
    flat = sums.reshape(len(sums), -1)
    peak = np.maximum(flat.max(axis=1), -flat.min(axis=1))
    return np.maximum(bit_width(peak) - 7, 0)


def rounded(sums: np.ndarray, shift: np.ndarray, rounding: str) -> np.ndarray:
    """Return sums, whole numbers that their type holds exactly, rounded to int8 values as float32.

    ``shift`` has one number a sample, or is one for all.
    """
    each = np.asarray(shift, np.int32)
    each = each.reshape(-1, *(1 for _ in sums.shape[1:])) if each.ndim else each
    if rounding == "nearest":
        return round_nearest(sums, each).astype(np.float32, copy=False)
    whole = np.int32 if sums.dtype == np.float32 else np.int64
    return pseudo_stochastic(sums.astype(whole), each).astype(np.float32)
