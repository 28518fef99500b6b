import numpy as np
import pytest

from seedbed.golden.seedlm import decode, pack, unpack
from seedbed.golden.seedlm_decompress import decompress
from seedbed.spec import SeedlmDecompressConfig


def test_worked_example():
    """V(4) of K = 3, C = 4, P = 2 is [[2, 5], [6, 7], [3, 1], [4, 2]] (SeedLM, section 3.1)."""
    config = SeedlmDecompressConfig(block=4, latent=2, width=3, blocks=2)
    one = pack(config, np.array(4), np.array(-3), np.array([1, 0]))
    two = pack(config, np.array(4), np.array(7), np.array([7, -8]))
    weights, exponents = decompress(config, np.array([[one, two], [two, one]]))
    first, second = [-2, 2, -1, 0], [-22, -10, 17, 16]
    assert weights.tolist() == [first + second, second + first]
    assert exponents.tolist() == [[-3, 7], [7, -3]]


@pytest.mark.parametrize("word_bits", [0, 8])
@pytest.mark.parametrize("blocks", [1, 3])
def test_agrees_with_decode(blocks, word_bits):
    """Integer, exponent and the words' constant give the same weight as decode."""
    config = SeedlmDecompressConfig(blocks=blocks, word_bits=word_bits)
    packed = np.random.default_rng(1).integers(0, 1 << 32, (50, blocks), np.uint64)
    weights, exponents = decompress(config, packed)
    scale = np.exp2(exponents.astype(float)) / (config.half - 1)
    found = weights.reshape(50, blocks, config.block) * scale[..., None]
    assert np.array_equal(found, decode(config, *unpack(config, packed)))


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 2, 2), ()])
def test_refuses_other_shapes(shape):
    config = SeedlmDecompressConfig(blocks=2)
    with pytest.raises(ValueError, match=r"packed must be beats of 2 blocks, of shape \(T, 2\)"):
        decompress(config, np.zeros(shape, np.uint64))
