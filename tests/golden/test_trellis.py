from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden import trellis
from seedbed.spec import TrellisConfig
from seedbed.spec.trellis import CODES, draw

#: Two fields of two bits of a state of four bits.
SMALL = ((0b0001, 0b0110), (0b1000, 0b0101))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"bits": 5}, ValueError, r"bits must be in 2..4, not 5"),
        ({"state_bits": 7}, ValueError, r"state_bits must be in 8..16, not 7"),
        ({"bits": 2, "state_bits": 17}, ValueError, r"state_bits must be in 4..16, not 17"),
        ({"state_bits": 9}, ValueError, r"one of 8, 10, 12, not 9, if no code is given: `seedbed"),
        ({"code": 7}, TypeError, r"in a tuple of tuples, not 7"),
        ({"code": ("ab",)}, TypeError, r"in a tuple of tuples, not \('ab',\)"),
        ({"code": ()}, ValueError, r"1..8 fields of the same number of masks, 1..8, not \[\]"),
        ({"code": ((1, 2), (3,))}, ValueError, r"not \[2, 1\] masks"),
        ({"code": ((0,),)}, ValueError, r"every mask of code must be in 1..4095, not 0"),
        ({"code": ((1 << 12,),)}, ValueError, r"every mask of code must be in 1..4095, not 4096"),
    ],
)
def test_refused(fields, error, message):
    with pytest.raises(error, match=message):
        TrellisConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"state_bits": 17}, r"state_bits must be in 4..16, not 17"),
        ({"fields": 9}, r"fields must be in 1..8, not 9"),
        ({"field_bits": 0}, r"field_bits must be in 1..8, not 0"),
        ({"taps": 13}, r"taps must be in 0..12, not 13"),
        ({"state_bits": 4}, r"15 different masks are needed, but 4 state bits have only 4 of 3"),
    ],
)
def test_a_draw_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        draw(**({"state_bits": 12, "seed": 1} | fields))


def test_derived_sizes():
    config = TrellisConfig()
    assert (config.peak, config.width, config.field_bits, config.history) == (93, 8, 5, 8)
    small = TrellisConfig(bits=2, state_bits=4, code=SMALL)
    assert (small.peak, small.width, small.field_bits, small.history) == (6, 4, 2, 2)


@pytest.mark.parametrize(("bits", "state_bits"), CODES)
def test_codes_of_the_table_have_values_in_the_range(bits, state_bits):
    config = TrellisConfig(bits=bits, state_bits=state_bits)
    found = trellis.table(config)
    assert np.abs(found).max() <= config.peak
    assert (found % 2).all()
    # Each bit of each field is 1 in half of the states.
    assert found.mean() == 0


def test_values_by_hand():
    config = TrellisConfig(bits=2, state_bits=4, code=SMALL)
    # State 1011: bits 0, 1, 3. First field: 1, and 1 ^ 0 = 1: 3. Second: 1, and 1 ^ 0 = 1: 3.
    assert trellis.values(config, np.array([0b1011])) == [6]
    # State 0110: first field: 0, and 1 ^ 1 = 0: 0. Second: 0, and 0 ^ 1 = 1: 2.
    assert trellis.values(config, np.array([0b0110])) == [-3 + 1]


def test_a_row_by_hand():
    config = TrellisConfig(bits=2, state_bits=4, code=SMALL)
    # The stream 10 01 11, the first bit lowest in the byte: symbols 1, 2 and 3.
    raw = np.array([[200, 253, 0b111001]], np.uint8)
    codes, mantissas, exponents = trellis.unpack(config, raw, 3)
    assert codes.tolist() == [[1, 2, 3]]
    assert (mantissas.tolist(), exponents.tolist()) == ([200], [-3])
    states = trellis.states(config, codes)
    assert states.tolist() == [[0b0001, 0b0110, 0b1011]]
    # State 0001: first field: 1, 0: 1. Second: 0, 1: 2. Then as above.
    assert trellis.decode(config, raw, 3).tolist() == [[0.0, -2 * 25.0, 6 * 25.0]]
    assert trellis.pack(config, codes, mantissas, exponents).tolist() == raw.tolist()


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 4), st.integers(8, 9), st.integers(1, 17), st.data())
def test_packed_rows_are_unpacked(bits, state_bits, columns, data):
    config = TrellisConfig(bits=bits, state_bits=state_bits, code=draw(state_bits, 3, fields=2))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = rng.integers(0, 1 << bits, (3, columns))
    raw = trellis.pack(config, codes, [0, 128, 255], [-128, 0, 127])
    assert raw.shape == (3, 2 + -(-columns * bits // 8))
    assert (trellis.unpack(config, raw, columns)[0] == codes).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 3), st.integers(0, 50), st.booleans())
def test_search_finds_the_least_error(bits, seed, weighted):
    rng = np.random.default_rng(seed)
    columns = 4
    code = draw(6, seed, fields=2, field_bits=2, taps=2)
    config = TrellisConfig(bits=bits, state_bits=6, code=code)
    targets = rng.normal(0, 3, (2, columns))
    weights = rng.exponential(1, columns) if weighted else np.ones(columns)
    starts = rng.integers(0, 64, 2)
    found = trellis.search(config, targets, weights if weighted else None, starts)
    every = np.array(list(product(range(1 << bits), repeat=columns)))
    for row, start, target in zip(found, starts, targets, strict=True):
        assert len(row) == columns

        def errors(codes, start=start, target=target):
            states = trellis.states(config, codes, start)
            return (weights * (trellis.values(config, states) - target) ** 2).sum(axis=-1)

        assert errors(row) == pytest.approx(errors(every).min(), rel=1e-12)


@pytest.mark.parametrize(("bits", "most"), [(4, 0.0755), (3, 0.142), (2, 0.275)])
def test_error_of_gaussian_weights(bits, most):
    """Shannon's limit is 2^-k; at 4 bits, 12 bits of state reach 0.072."""
    config = TrellisConfig(bits=bits)
    rows = np.random.default_rng(1).normal(size=(8, 512))
    scale = 1 / trellis.table(config).std()
    codes = trellis.search(config, rows / scale)
    found = trellis.values(config, trellis.states(config, codes)) * scale
    error = np.sqrt(((found - rows) ** 2).sum() / (rows**2).sum())
    assert 2.0**-bits < error < most
