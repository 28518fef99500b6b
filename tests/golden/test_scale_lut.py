import math

import numpy as np
import pytest

from seedbed.golden.scale_lut import ScaleLut, scales
from seedbed.golden.urng_array import UrngArray
from seedbed.spec import ScaleConfig
from seedbed.spec.scale_lut import expected_norm


def test_expected_norm_is_the_gamma_formula():
    """Eq. 4 as printed, where the gamma function does not overflow."""
    for d in (1, 2, 31, 255):
        direct = math.sqrt(2) * math.gamma((d + 1) / 2) / math.gamma(d / 2) if d < 300 else 0
        assert math.isclose(expected_norm(d), direct, rel_tol=1e-12)


def test_expected_norm_is_a_gaussians():
    rng = np.random.default_rng(1)
    mean = np.linalg.norm(rng.standard_normal((200_000, 31)), axis=1).mean()
    assert abs(mean - expected_norm(31)) < 0.01


@pytest.mark.parametrize(
    ("lanes", "width", "leap"), [(3, 10, 1), (7, 10, 1), (31, 10, 1), (15, 8, 3), (15, 4, 2)]
)
@pytest.mark.parametrize("rounding", ["ratio", "value"])
def test_table_of_the_spec_is_the_models(lanes, width, leap, rounding):
    """Two ways to one table: sums of shifted squares, and the norms of the array's beats.

    The default phases of the last two sizes are those of their leap alone.
    """
    config = ScaleConfig(lanes=lanes, width=width, leap=leap, rounding=rounding)
    assert list(config.exponents[1:]) == ScaleLut(config).table[1:].tolist()


def test_scaled_modulus_is_within_the_rounding():
    """A scale off by at most a factor of sqrt(2) leaves the modulus that far from a Gaussian's."""
    config = ScaleConfig(lanes=7, width=9)
    model, array = ScaleLut(config), UrngArray(config.array)
    exponents = model.lookup(array.first(511))
    ratio = 2.0**exponents / scales(array.beats(511), config.width)
    assert ratio.max() <= math.sqrt(2)
    assert ratio.min() >= 1 / math.sqrt(2)
    assert len(set(exponents.tolist())) > 1


def test_paper_width_uses_two_exponents():
    """31 lanes of 14 bits: exponents 0 and 1 alone, over 99 % of them 1."""
    exponents = np.array(ScaleConfig(width=14).exponents[1:])
    assert set(exponents.tolist()) == {0, 1}
    assert (exponents == 1).mean() > 0.99
