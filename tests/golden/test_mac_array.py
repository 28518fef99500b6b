import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.mac_array import MacArray, wrap
from seedbed.spec import MacArrayConfig

SMALL = MacArrayConfig(
    lanes=6, blocks=3, weight_width=5, activation_width=4, exponent_width=2, beats=4
)


def test_by_hand():
    """(1*2 - 3*4) 2^(0+2) + (5*-1 + 0*7) 2^(-2+2) + (1*1 + 1*2) 2^(1+2); then a block is off."""
    weights = [[1, -3, 5, 0, 1, 1], [0, 0, 0, 0, 9, 9]]
    activations = [[2, 4, -1, 7, 1, 2], [0, 0, 0, 0, 3, 3]]
    exponents = [[0, -2, 1], [0, 0, 1]]
    on = [[1, 1, 1], [1, 1, 0]]
    found = MacArray(SMALL).sums(*map(np.array, (weights, activations, exponents, on)))
    assert found == -10 * 4 - 5 + 3 * 8


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_is_the_sum_of_python_integers(random, beats):
    def draw(width, count):
        return [[random.randrange(-(1 << width - 1), 1 << width - 1) for _ in range(count)]
                for _ in range(beats)]  # fmt: skip

    w, x, e = draw(5, 6), draw(4, 6), draw(2, 3)
    total = sum(
        w[t][lane] * x[t][lane] << e[t][lane // 2] + 2 for t in range(beats) for lane in range(6)
    )
    found = MacArray(SMALL).sums(np.array(w), np.array(x), np.array(e))
    assert found == total


def test_ways_are_separate_arrays():
    """Each way's sum is that of an array of one way, of several frames at once."""
    rng = np.random.default_rng(7)
    params = {"lanes": 6, "blocks": 3, "weight_width": 5, "activation_width": 4}
    one, three = (MacArrayConfig(ways=ways, exponent_width=0, **params) for ways in (1, 3))
    weights = rng.integers(-16, 16, (2, 4, 3, 6))
    activations = rng.integers(-8, 8, (2, 4, 6))
    on = rng.integers(0, 2, (2, 4, 3))
    found = MacArray(three).sums(weights, activations, on=on)
    for way in range(3):
        expected = MacArray(one).sums(weights[:, :, way], activations, on=on)
        assert (found[:, way] == expected).all()
    assert (MacArray(three).products(weights, activations)[1, 2, 0] ==
            weights[1, 2, 0] * activations[1, 2]).all()  # fmt: skip


def test_the_derived_width_is_just_enough():
    """The longest frame of extremes does not wrap, and would with one bit less."""
    shape = (SMALL.beats, SMALL.lanes)
    weights, activations = np.full(shape, -16), np.full(shape, -8)
    exponents = np.full((SMALL.beats, SMALL.blocks), 1)
    most = 4 * 6 * 128 << 3
    assert MacArray(SMALL).sums(weights, activations, exponents) == most
    assert wrap(np.int64(most), SMALL.accumulator_width - 1) == most - (
        1 << SMALL.accumulator_width - 1
    )


def test_wraps_past_64_bits():
    """An intermediate overflow of int64 leaves the result exact modulo its width."""
    config = MacArrayConfig(
        lanes=2, blocks=1, weight_width=32, activation_width=32, exponent_width=5, beats=2,
        accumulator_width=64,
    )  # fmt: skip
    weights, activations = (
        np.array([[-(2**31), 3], [12345, -7]]),
        np.array([[2**31 - 1, 5], [9, 9]]),
    )
    exponents = np.array([[15], [14]])
    exact = sum(
        int(weights[t] @ activations[t].astype(object)) << int(exponents[t, 0]) + 16 for t in (0, 1)
    )
    assert abs(exact) >= 2**64
    found = MacArray(config).sums(weights, activations, exponents)
    assert int(found) % 2**64 == exact % 2**64


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weights": 16}, r"every one of weights must be a whole number in -16\.\.15, not 16"),
        (
            {"activations": -9},
            r"every one of activations must be a whole number in -8\.\.7, not -9",
        ),
        ({"exponents": 2}, r"every one of exponents must be a whole number in -2\.\.1, not 2"),
    ],
)
def test_refuses_numbers_out_of_range(values, message):
    fields = {"weights": np.zeros((1, 6), int), "activations": np.zeros((1, 6), int),
              "exponents": np.zeros((1, 3), int)}  # fmt: skip
    for name, value in values.items():
        fields[name][0, 1] = value
    with pytest.raises(ValueError, match=message):
        MacArray(SMALL).sums(**fields)
