import numpy as np
import pytest

from seedbed.golden import seedlm
from seedbed.golden.gemv import Gemv
from seedbed.spec import GemvConfig

FOUR = GemvConfig()
THREE = GemvConfig(block=12, latent=4)
SMALL = GemvConfig(block=4, latent=2, width=8, beat_bits=48, columns=64, row_width=8)


def random_blocks(config, rows, blocks, seed=1):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << config.block_bits, (rows, blocks), np.uint64)


@pytest.mark.parametrize("config", [FOUR, THREE], ids=["4 bits", "3 bits"])
def test_is_the_product_of_the_decoded_weights(config):
    """Against the paper's real numbers: w = S 2^e / (2^(B - 1) - 1)."""
    columns = 10 * config.block - 3
    packed = random_blocks(config, 5, 10)
    x = np.random.default_rng(2).integers(-(2**15), 2**15, columns)
    weights = seedlm.decode(config, *seedlm.unpack(config, packed)).reshape(5, -1)[:, :columns]
    y = Gemv(config).packed_product(packed, x)
    np.testing.assert_allclose(y * 2.0**-8 / (config.half - 1), weights @ x, rtol=1e-9)


def test_plain_is_the_product():
    weights = np.array([[1, -2, 3], [32767, -32768, 0]])
    y = Gemv(FOUR).plain_product(weights, np.array([10, 100, 1000]))
    assert y.tolist() == [10 - 200 + 3000, 327670 - 3276800]


def test_nothing_overflows_at_4_bits():
    """All factors at their extremes, with the greatest number of columns: 3/4 of 2^63."""
    blocks = FOUR.columns // FOUR.block
    zeros, ends = np.zeros((1, blocks), int), np.full((1, blocks), 7)
    packed = seedlm.pack(FOUR, zeros, ends, np.full((1, blocks, 3), -8))
    y = Gemv(FOUR).packed_product(packed, np.full(FOUR.columns, -(2**15)))
    assert FOUR.mac.accumulator_width == 64
    assert y.tolist() == [-(3 << 61)]


def test_beats_hold_the_first_block_lowest():
    packed = random_blocks(THREE, 2, 15)
    beats = Gemv(THREE).packed_beats(packed)
    assert beats.shape == (2, 2, 64)
    for row in range(2):
        words = [int.from_bytes(beat.tobytes(), "little") for beat in beats[row]]
        found = [words[0] >> 36 * k & (1 << 36) - 1 for k in range(14)] + [words[1]]
        assert found == [int(block) for block in packed[row]]


def test_plain_beats_hold_16_bit_words():
    weights = np.random.default_rng(3).integers(-(2**15), 2**15, (3, 40))
    beats = Gemv(FOUR).plain_beats(weights)
    assert beats.shape == (3, 2, 64)
    words = np.ascontiguousarray(beats).view("<i2").reshape(3, 64)
    np.testing.assert_array_equal(words[:, :40], weights)
    assert not words[:, 40:].any()


@pytest.mark.parametrize("columns", [1, 3, 4, 5, 64])
def test_columns_that_do_not_fill_a_block_count_as_0(columns):
    model = Gemv(SMALL)
    blocks = -(-columns // SMALL.block)
    packed = random_blocks(SMALL, 4, blocks)
    x = np.random.default_rng(4).integers(-100, 100, blocks * SMALL.block)
    cut = np.where(np.arange(len(x)) < columns, x, 0)
    np.testing.assert_array_equal(
        model.packed_product(packed, x[:columns]), model.packed_product(packed, cut)
    )


@pytest.mark.parametrize(
    ("shape", "columns", "message"),
    [
        ((2, 3), 8, r"a matrix of 8 columns has 2 fields per row.*must not be \(2, 3\)"),
        ((2,), 8, r"has 2 fields per row, in two dimensions: its shape must not be \(2,\)"),
        ((2, 1), 0, r"columns must be in 1\.\.64, not 0"),
        ((2, 17), 65, r"columns must be in 1\.\.64, not 65"),
    ],
)
def test_refuses_mismatched_shapes(shape, columns, message):
    with pytest.raises(ValueError, match=message):
        Gemv(SMALL).packed_product(np.zeros(shape, np.uint64), np.zeros(columns, int))
