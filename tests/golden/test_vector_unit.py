"""The vector unit's model against float64, over the ranges that its formats have."""

import numpy as np
import pytest

from seedbed.golden.fixed import saturate, shifted
from seedbed.golden.vector_unit import VectorUnit, token_shifts
from seedbed.spec.fixed import Fixed
from seedbed.spec.vector_unit import ACTIVATIONS, VectorUnitConfig

CONFIG = VectorUnitConfig()
UNIT = VectorUnit(CONFIG)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_a_shift_rounds_half_up_and_one_below_0_is_to_the_left():
    found = shifted(np.array([5, 6, 7, -5, -6, -7, 3]), np.array([2, 2, 2, 2, 2, 2, -3]))
    assert found.tolist() == [1, 2, 2, -1, -1, -2, 24]


@pytest.mark.parametrize(
    ("peaks", "shift"), [((0, -1), 0), ((32767, -32768), 0), ((32768, 0), 1), ((0, -(2**20)), 5)]
)
def test_a_tokens_shift_is_the_least_that_fits(peaks, shift):
    vector = np.array([peaks])
    assert token_shifts(vector, 16).tolist() == [shift]
    kept = vector >> shift
    assert (kept == saturate(kept, Fixed(16, 0))).all()


def test_reciprocals_are_within_five_units_of_sixteen_bits(rng):
    numbers = np.unique(np.exp2(rng.uniform(0, 60, 10_000)).astype(np.int64))
    r, p = UNIT.reciprocal(numbers)
    assert abs(np.ldexp(r / 2**15, -p) * numbers - 1).max() < 5 / 2**16
    r, p = UNIT.reciprocal_root(numbers)
    assert abs(np.ldexp(r / 2**15, -p) * np.sqrt(numbers) - 1).max() < 5 / 2**16


def test_a_power_of_two_has_an_exact_reciprocal():
    r, p = UNIT.reciprocal(1 << np.arange(60))
    assert (r == 1 << 15).all()
    assert (p == np.arange(60)).all()


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("count", "amplitude"), [(576, 2**21), (384, 40_000), (64, 400), (1, 9)])
def test_a_norm_is_within_two_units(rng, centred, count, amplitude):
    """Gains of 1/4 to 2, and a result with 10 fraction bits: a unit is 2^-10."""
    residual = CONFIG.residual
    x = saturate(np.rint(rng.standard_normal((50, count)) * amplitude).astype(np.int64), residual)
    x[0] = 0
    x[1, 0] = residual.low
    gains = np.rint(rng.uniform(0.25, 2, count) * np.sqrt(count) * 64).astype(np.int64)
    biases = rng.integers(-1000, 1000, count)
    found = UNIT.norm(x, gains=gains, shift=13, epsilon=16, biases=biases, centred=centred)
    if centred:
        mean = x.mean(axis=-1, keepdims=True)
        # The mean is rounded to the residual's unit.
        x = x - np.floor(mean + 0.5)
        assert amplitude < 1000 or abs(x.mean()) < 1
    root = np.sqrt((x * x).sum(axis=-1, keepdims=True) + 16)
    wanted = x / root * gains * 2.0**4 + biases
    limit = CONFIG.vector
    assert abs(found - np.clip(wanted, limit.low, limit.high)).max() < 2


def test_a_rotation_is_within_two_units_at_any_position(rng):
    x = rng.integers(-23_000, 23_000, (40, 3, 64))
    position = rng.integers(0, 1 << 20, 40)
    turns = 1e5 ** (-np.arange(32) / 32) / (2 * np.pi)
    steps = np.rint(turns * 2**32).astype(np.int64)
    found = UNIT.rotate(x, position=position, steps=steps)
    angles = position[:, None] * (steps / 2**32) * 2 * np.pi
    wanted = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
    assert abs(found[..., 0::2] - wanted.real).max() < 2
    assert abs(found[..., 1::2] - wanted.imag).max() < 2


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("fraction", [5, 8, 11, 13])
def test_an_activation_is_within_two_units_everywhere(name, fraction):
    x = np.arange(-(1 << 15), 1 << 15)
    found = UNIT.activate(x, name=name, fraction=fraction)
    wanted = np.array([ACTIVATIONS[name](each) for each in np.maximum(x / 2**fraction, -700)])
    assert abs(found - wanted * 2**fraction).max() < 2
    assert (found[x >= 16 << fraction] == x[x >= 16 << fraction]).all()


def reference(query, keys, values, seen):
    scores = np.where(seen, query @ keys.T / np.sqrt(query.shape[-1]), -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True) @ values


@pytest.mark.parametrize("sharpness", [0.01, 1, 12])
def test_attention_is_within_three_units_of_softmax(rng, sharpness):
    """Of the integers that are kept: a unit is 2^-12 of a value."""
    query = np.rint(rng.standard_normal((5, 64)) * sharpness * 2**10).astype(np.int64)
    raw = [np.rint(rng.standard_normal((128, 64)) * 2**f).astype(np.int64) for f in (10, 12)]
    (keys, key_shifts), (values, value_shifts) = map(UNIT.cached, raw)
    seen = np.arange(128) <= np.array([0, 3, 20, 64, 127])[:, None]
    found = UNIT.attend(
        query, keys, key_shifts, values, value_shifts,
        seen=seen, scale=CONFIG.score_scale(64, 20),
    )  # fmt: skip
    keys, values = keys << key_shifts[:, None], values << value_shifts[:, None]
    wanted = reference(query / 2**10, keys / 2**10, values, seen)
    assert abs(found - wanted).max() < 3
    # The first token has only itself to attend to.
    assert abs(found[0] - values[0]).max() <= 1


def test_keys_and_values_are_the_nearest_of_eight_bits(rng):
    x = rng.integers(-(1 << 15), 1 << 15, (200, 64)) >> rng.integers(0, 12, (200, 1))
    found, shifts = UNIT.cached(x)
    assert abs(found).max() <= 128
    assert (abs((found << shifts[:, None]) - x) <= 1 << shifts[:, None]).all()
    assert (shifts > 0).any()


def test_a_mean_is_within_a_unit(rng):
    for count in (1, 2, 3, 7, 32, 100):
        x = rng.integers(-(1 << 15), 1 << 15, (count, 50))
        assert abs(UNIT.mean(x, shift=0) - x.mean(axis=0)).max() < 1 + count / 2**16 * 5


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"lanes": 3}, "lanes must be a power of two in 2..8, not 3"),
        ({"lanes": 16}, "lanes must be a power of two in 2..8, not 16"),
        ({"width": 7}, "width must be in 8..16, not 7"),
        ({"width": 17}, "width must be in 8..16, not 17"),
    ],
)
def test_a_wrong_configuration_is_refused(given, problem):
    with pytest.raises(ValueError, match=problem):
        VectorUnitConfig(**given)
