import numpy as np
import pytest

from seedbed.golden.lut_dequantize import dequantize
from seedbed.golden.nf4 import Nf4
from seedbed.spec import LutDequantizeConfig, Nf4Config


def test_nf4_is_one_of_the_tables():
    """With the rounded levels of its block's peak as a row's table, a row is a block of NF4."""
    nf4 = Nf4(Nf4Config(block=32))
    codes = np.random.default_rng(1).integers(0, 16, (5, 32))
    peaks = np.array([0, 1, 700, 30000, 65535])
    levels = nf4.dequantise(np.tile(np.arange(16), (5, 2)), peaks[:, None])[:, :16]
    config = LutDequantizeConfig(width=nf4.config.values.width)
    assert np.array_equal(dequantize(config, codes, levels), nf4.dequantise(codes, peaks[:, None]))


@pytest.mark.parametrize(
    ("codes", "levels", "sentence"),
    [
        ([[16]], [[0] * 16], r"codes must be a whole number in 0\.\.15, not 16"),
        ([[0]], [[8192] + [0] * 15], r"levels must be a whole number in -8192\.\.8191, not 8192"),
        ([[0]], [[0] * 15], r"levels of shape \(rows, 16\), not \(1, 1\) and \(1, 15\)"),
        ([[0], [0]], [[0] * 16], r"not \(2, 1\) and \(1, 16\)"),
    ],
)
def test_refuses(codes, levels, sentence):
    with pytest.raises(ValueError, match=sentence):
        dequantize(LutDequantizeConfig(), np.array(codes), np.array(levels))
