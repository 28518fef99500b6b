"""NITI's roundings by hand, and against their definition written literally."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.golden.niti import bit_width, pseudo_stochastic, round_nearest, rounded, shift_of

SUMS = st.integers(-(1 << 23), 1 << 23)
SHIFTS = st.integers(0, 20)


@pytest.mark.parametrize(
    ("peak", "bits"), [(0, 0), (1, 1), (2, 2), (127, 7), (128, 8), (255, 8), (12_644_656, 24),
     ((1 << 32) - 1, 32), (1 << 32, 33), ((1 << 54) - 1, 54), ((1 << 63) - 1, 63)],
)  # fmt: skip
def test_bit_width(peak, bits):
    assert bit_width(np.array(peak)) == bits


def literal(value, shift, limit):
    """The rounding in Python's integers."""
    sign, magnitude = (-1, -value) if value < 0 else (1, value)
    quotient, remainder = divmod(magnitude, 1 << shift)
    low = shift // 2
    probability, random = divmod(remainder, 1 << low)
    if shift % 2:
        random *= 2
    return sign * min(quotient + (probability > random), limit)


@given(SUMS, SHIFTS)
def test_pseudo_stochastic_is_its_definition(value, shift):
    found = pseudo_stochastic(np.array([value]), np.array([shift]))
    assert found.tolist() == [literal(value, shift, 127)]


def test_pseudo_stochastic_is_not_monotone():
    """Of remainders 0..15 at a shift of 4: where the upper two bits exceed the lower two."""
    found = pseudo_stochastic(np.arange(16), np.int64(4)).tolist()
    assert found == [0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0]


@given(SUMS, SHIFTS)
def test_nearest_is_half_away_from_zero(value, shift):
    magnitude = (2 * abs(value) + (1 << shift)) >> (shift + 1)
    wanted = min(magnitude, 127) * (-1 if value < 0 else 1)
    assert round_nearest(np.float32([value]), np.int32(shift)).tolist() == [wanted]


@pytest.mark.parametrize("rounding", ["nearest", "pseudo-stochastic"])
def test_each_sample_has_its_own_shift(rounding):
    sums = np.float32([[127, -3], [-128, 64], [0, 0], [40_000, -12_345]])
    shift = shift_of(sums)
    assert shift.tolist() == [0, 1, 0, 9]
    found = rounded(sums, shift, rounding)
    assert found[:3].tolist() == [[127, -3], [-64, 32], [0, 0]]
    assert np.abs(found[3] - sums[3] / 512).max() <= 1
    assert found.dtype == np.float32
