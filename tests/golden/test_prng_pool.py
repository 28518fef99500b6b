import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.prng_pool import PrngPool, Request
from seedbed.spec import PoolConfig

FULL = PoolConfig()
SMALL = PoolConfig(size=13, lanes=5, contents=tuple(range(-6, 7)))


def expected_norm(n):
    """E||N(0, I_n)|| by the series of the gamma functions' ratio, not by log-gamma."""
    return math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (32 * n**2) + 5 / (128 * n**3))


@pytest.mark.parametrize(("size", "width"), [(4095, 12), (255, 12), (65535, 16), (1000, 12)])
def test_modulus_of_the_pool_is_a_gaussians(size, width):
    config = PoolConfig(size=size, width=width)
    values = np.array(config.contents) / 2**config.fraction_bits
    # Each rounding is off by at most half a step: so much can the modulus be off, and no more.
    off = abs(np.linalg.norm(values) - expected_norm(size))
    assert off <= 0.5 * 2**-config.fraction_bits * math.sqrt(size)
    # In fact the errors cancel.
    assert off <= 1e-4 * expected_norm(size)
    assert np.abs(values).max() < 2


@pytest.mark.parametrize("size", [255, 4095])
def test_contents_are_symmetric_and_uniform(size):
    config = PoolConfig(size=size, width=12)
    ordered = np.sort(config.contents)
    np.testing.assert_array_equal(ordered, -ordered[::-1])
    # Every state once, evenly spaced: the k-th number is never off by more than a rounding.
    step = np.linalg.norm(ordered) / np.linalg.norm(np.arange(size) - size // 2)
    assert np.abs(ordered - step * (np.arange(size) - size // 2)).max() <= 0.51
    values = ordered / 2**config.fraction_bits
    # The square root of 3 is the limit for a large pool; a small one lacks the least of the states.
    assert values.max() <= math.sqrt(3) * (1 + 1 / size)


def test_neighbours_do_not_correlate():
    x = np.array(FULL.contents, float)
    for lag in range(1, 9):
        assert abs(np.dot(x, np.roll(x, lag)) / np.dot(x, x)) < 0.05, lag


def test_contents_are_always_the_same():
    """A pool of another order is another core: its numbers stay from version to version."""
    assert FULL.contents[:4] == (1621, 1581, -774, -1337)
    assert sorted(FULL.contents) == sorted(-number for number in FULL.contents)


def test_every_size_fits():
    """No scale throws a pool off its format, however few of an LFSR's states it has."""
    for size in [*range(3, 600), 1025, 2049, 4097, 32769]:
        if size & (size - 1):
            config = PoolConfig(size=size, lanes=1)
            values = np.array(config.contents) / 2**config.fraction_bits
            assert np.linalg.norm(values) == pytest.approx(expected_norm(size), rel=2e-3), size


starts = st.integers(0, SMALL.size - 1)


@settings(deadline=None)
@given(starts, st.integers(0, 60), st.integers(0, 60))
def test_two_perturbations_are_one_walk(start, first, second):
    model = PrngPool(SMALL)
    both = np.concatenate(
        [model.take(start, first), model.take(model.next_start(start, first), second)]
    )
    np.testing.assert_array_equal(both, model.take(start, first + second))
    # Defined once more, number by number.
    walk = [SMALL.contents[(start + k) % SMALL.size] for k in range(first + second)]
    assert both.tolist() == walk


@settings(deadline=None)
@given(starts, st.integers(1, 60), st.integers(1, 60))
def test_requests_walk_on_by_what_they_use(start, first, second):
    model = PrngPool(SMALL)
    asked = [*model.requests(first, start), *model.requests(second)]
    lanes = model.beats(asked)
    used = np.concatenate([row[: request.count] for row, request in zip(lanes, asked, strict=True)])
    np.testing.assert_array_equal(used, model.take(start, first + second))
    assert model.position == model.next_start(start, first + second)
    assert sum(request.last for request in asked) == 2


@settings(deadline=None)
@given(st.lists(st.integers(-2048, 2047), max_size=SMALL.size))
def test_load_replaces_the_first_numbers(numbers):
    model = PrngPool(SMALL)
    model.load(numbers)
    expected = numbers + list(SMALL.contents[len(numbers) :])
    assert model.contents.tolist() == expected
    assert model.take(0, 2 * SMALL.size).tolist() == expected * 2


def test_count_zero_stays():
    model = PrngPool(SMALL)
    first, second = model.beats([Request(0, seek=True, start=11), Request(0)])
    assert first.tolist() == second.tolist() == [5, 6, -6, -5, -4]


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([0] * 14, "the pool holds 13 numbers, not 14"),
        ([0, 2048], r"numbers must be a whole number in -2048\.\.2047, not 2048"),
        ([0, -2049], r"numbers must be a whole number in -2048\.\.2047, not -2049"),
    ],
)
def test_load_refuses(numbers, sentence):
    with pytest.raises(ValueError, match=sentence):
        PrngPool(SMALL).load(numbers)
