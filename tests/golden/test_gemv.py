import numpy as np
import pytest

from seedbed.golden import seedlm, trellis
from seedbed.golden.gemv import Gemv, base_weights, lut4_rows, trellis_base, trellis_rows
from seedbed.golden.packing import decode_lut4, encode_lut4
from seedbed.spec import GemvConfig
from seedbed.spec.packing import Lut4Config

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


LUT4 = GemvConfig(decode="lut4", beat_bits=64, level_width=14, columns=64, activation_width=8)


def test_tables_of_levels_by_hand():
    """Row 0 has the level 3 at its code 1 and the exponent -7: 2 (3 x 10 + 0 x 20)."""
    levels = np.zeros((2, 16), int)
    levels[0, 1], levels[1, 15] = 3, -5
    codes = np.array([[1, 0], [15, 15]])
    y = Gemv(LUT4).lut4_product(codes, levels, np.array([-7, -8]), np.array([10, 20]))
    assert y.tolist() == [60, -150]


def test_beats_of_tables_of_levels():
    """Four levels of 14 bits and the exponent a beat, 16 codes; a table is a row ahead."""
    levels = np.stack([np.arange(16) - 8, 100 + np.arange(16)])
    codes = np.stack([np.arange(17) % 16, np.full(17, 5)])
    beats = Gemv(LUT4).lut4_beats(codes, levels, np.array([-2, 3]))
    assert beats.shape == (2 * (4 + 2), 8)
    assert LUT4.row_beats(17, 2) == [4 + 4 + 2, 2]
    words = beats.view("<u8")[:, 0].tolist()
    for row, exponent in enumerate((14, 3)):
        for t, word in enumerate(words[4 * row : 4 * row + 4]):
            fields = [word >> 14 * j & 0x3FFF for j in range(4)]
            assert fields == (levels[row, 4 * t : 4 * t + 4] % (1 << 14)).tolist()
            assert word >> 60 == exponent
    assert words[8:] == [0xFEDCBA9876543210, 0, 0x5555555555555555, 5]


def test_rows_of_a_packed_file():
    """What the file says is what the engine multiplies, times a power of two."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(5, 40)) * 2.0 ** np.array([0, -3, 2, 0, -40])[:, None]
    levels = np.sort(rows[:, :16], axis=1)
    raw = encode_lut4(Lut4Config(), rows, levels)
    codes, tables, exponents, scale = lut4_rows(raw, 40)
    x = rng.integers(-128, 128, 40)
    y = Gemv(LUT4).lut4_product(codes, tables, exponents, x) * 2.0 ** (scale - 8)
    expected = decode_lut4(Lut4Config(), raw, 40) @ x
    assert (y[:4] == expected[:4]).all()
    # A row that is 2^42 times smaller than another is rounded.
    assert np.abs(y - expected)[4] <= 2.0 ** (scale - 9) * np.abs(x).sum()


@pytest.mark.parametrize("exponent", [-20, 0, 9])
def test_a_row_of_zeros_takes_no_precision_from_the_others(exponent):
    rng = np.random.default_rng(10)
    rows = rng.normal(size=(4, 40)) * 2.0 ** (exponent - np.array([0, 5, 9, 0]))[:, None]
    rows[3] = 0
    raw = encode_lut4(Lut4Config(), rows, np.sort(rows[:, :16], axis=1))
    codes, tables, exponents, scale = lut4_rows(raw, 40)
    *alone, alone_scale = lut4_rows(raw[:3], 40)
    assert scale == alone_scale
    for each, other in zip((codes, tables, exponents), alone, strict=True):
        assert each[:3].tolist() == other.tolist()
    x = rng.integers(-128, 128, 40)
    y = Gemv(LUT4).lut4_product(codes, tables, exponents, x) * 2.0 ** (scale - 8)
    assert y.tolist() == (decode_lut4(Lut4Config(), raw, 40) @ x).tolist()
    *_, exponents, _ = lut4_rows(raw[3:], 40)
    assert -8 <= exponents[0] <= 7


def test_several_vectors_are_as_many_products():
    rng = np.random.default_rng(2)
    config = GemvConfig(decode="plain", plain_width=8, columns=64, vectors=2)
    weights, x = rng.integers(-128, 128, (5, 33)), rng.integers(-99, 99, (2, 33))
    assert Gemv(config).plain_product(weights, x).tolist() == (weights @ x.T).tolist()


TRELLIS = GemvConfig(decode="trellis", beat_bits=64, columns=64, activation_width=8)


def test_a_row_of_a_trellis_by_hand():
    """Symbols 1, 0: the state is 1, then 16; a field's bits are the masks that hold that bit."""
    config = GemvConfig(
        decode="trellis", beat_bits=16, state_bits=8, columns=4, activation_width=8,
        code=((0x01, 0x10), (0x11, 0x02)),
    )  # fmt: skip
    # State 1: fields 1 and 1, 2 (1 + 1) - 6 = -2. State 16: fields 2 and 1, 0.
    product = Gemv(config).trellis_product
    symbols, x = np.array([[1, 0]]), np.array([3, 100])
    assert product(symbols, np.array([7]), np.array([-7]), x).tolist() == [2 * 7 * 3 * -2]
    beats = Gemv(config).trellis_beats(np.array([[1, 0, 5, 10, 15]]))
    assert beats.tolist() == [[[0x01, 0xA5], [0x0F, 0]]]


def test_rows_of_a_trellis_file():
    """Packed rows give the sums of their decoded weights; small rows are rounded."""
    assert TRELLIS.trellis
    rng = np.random.default_rng(5)
    symbols = rng.integers(0, 16, (4, 40))
    mantissas, exponents = np.array([200, 129, 0, 255]), np.array([-12, -27, 100, -20])
    raw = trellis.pack(TRELLIS.trellis, symbols, mantissas, exponents)
    *rows, scale = trellis_rows(TRELLIS.trellis, raw, 40)
    x = rng.integers(-128, 128, 40)
    y = Gemv(TRELLIS).trellis_product(*rows, x) * 2.0 ** (scale - 8)
    assert np.array_equal(y, trellis.decode(TRELLIS.trellis, raw, 40) @ x)
    # A row 16 times smaller than the least exponent keeps 4 of the 8 bits, rounded.
    raw = trellis.pack(TRELLIS.trellis, symbols[:2], mantissas[:2], np.array([0, -19]))
    _, mantissas, exponents, scale = trellis_rows(TRELLIS.trellis, raw, 40)
    assert (mantissas.tolist(), exponents.tolist(), scale) == ([200, 8], [7, -8], -7)


@pytest.mark.parametrize(
    ("exponents", "scale", "lowest"),
    [
        # Few fraction bits stay, of many 24, or as many as the lowest exponent of -8 leaves.
        ((-12, -14, 0, -10), -17, 3),
        ((3, -5, 0, -1), -4, -1),
        ((-20, -24, 0, -22), -19, -5),
        ((-30, -32, 0, -44), -36, -8),
    ],
)
def test_a_base_has_the_lowest_exponents_with_enough_fraction_bits(exponents, scale, lowest):
    assert TRELLIS.trellis
    rng = np.random.default_rng(5)
    symbols, mantissas = rng.integers(0, 16, (4, 40)), np.array([200, 129, 0, 255])
    raw = trellis.pack(TRELLIS.trellis, symbols, mantissas, np.array(exponents))
    base, found = trellis_base(TRELLIS.trellis, raw, 40, 3)
    used = base[mantissas > 0, 1].view(np.int8)
    assert (found, used.min()) == (scale + 3, lowest)
    weights = np.ldexp(base_weights(TRELLIS.trellis, base, 40), found - 8)
    assert np.array_equal(weights, 8 * trellis.decode(TRELLIS.trellis, raw, 40))


@pytest.mark.parametrize(
    ("symbols", "mantissas", "exponents", "sentence"),
    [
        ([[16]], [1], [0], r"symbols must be a whole number in 0\.\.15, not 16"),
        ([[0]], [256], [0], r"mantissas must be a whole number in 0\.\.255, not 256"),
        ([[0]], [1], [8], r"exponents must be a whole number in -8\.\.7, not 8"),
    ],
)
def test_a_trellis_refuses(symbols, mantissas, exponents, sentence):
    with pytest.raises(ValueError, match=sentence):
        Gemv(TRELLIS).trellis_product(*map(np.array, (symbols, mantissas, exponents)), np.ones(1))
