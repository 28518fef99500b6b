import numpy as np
import pytest

from seedbed.golden import trellis
from seedbed.golden.trellis_decompress import decompress
from seedbed.spec import TrellisDecompressConfig


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_agrees_with_decode(bits):
    """The beats of a packed row, with its scale, are its decoded weights."""
    config = TrellisDecompressConfig(bits=bits, lanes=5)
    symbols = np.random.default_rng(1).integers(0, 1 << bits, (1, 35))
    raw = trellis.pack(config, symbols, np.array([200]), np.array([-9]))
    weights = decompress(config, symbols.reshape(-1, 5)).reshape(-1)
    assert np.array_equal(weights * 200 / 512, trellis.decode(config, raw, 35)[0])


@pytest.mark.parametrize(
    ("symbols", "sentence"),
    [
        ([[16] * 16], r"symbols must be a whole number in 0\.\.15, not 16"),
        ([[0] * 15], r"beats of 16, of shape \(T, 16\), not \(1, 15\)"),
        ([0] * 16, r"beats of 16, of shape \(T, 16\), not \(16,\)"),
    ],
)
def test_refuses(symbols, sentence):
    with pytest.raises(ValueError, match=sentence):
        decompress(TrellisDecompressConfig(), np.array(symbols))
