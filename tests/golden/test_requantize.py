"""Requantization: by hand, and as the trainer's model of ElasticZO has it."""

import numpy as np
import pytest

from seedbed.golden.elasticzo import ElasticZo, init
from seedbed.golden.elasticzo_sources import drawn
from seedbed.golden.requantize import Requantize
from seedbed.spec.elasticzo import ElasticZoConfig
from seedbed.spec.requantize import RequantizeConfig

STOCHASTIC = "pseudo-stochastic"


def run(sums, *, every=1, relu=False, entries=392, rounding="nearest", counts=None, width=25):
    sums = np.array(sums)
    beats = len(sums)
    config = RequantizeConfig(ways=sums.shape[1], entries=entries, rounding=rounding, width=width)
    counts = np.full(beats, sums.shape[1]) if counts is None else np.array(counts)
    ends = (np.arange(beats) + 1) % every == 0
    return Requantize(config).run(sums, counts, ends, np.full(beats, relu))


def test_a_worked_layer():
    """The peak is 300, of 9 bits: shift 2. 299 / 4 is 74.75, 6 / 4 rounds away from zero."""
    result = run([[299, -6], [6, -300]])
    assert result.shift == 2
    assert result.values.tolist() == [[75, -2], [2, -75]]
    assert result.counts.tolist() == [2, 2]
    assert not result.length_error


def test_the_peak_is_that_before_relu_and_pooling():
    assert run([[5], [-300]], every=2, relu=True).shift == 2
    assert run([[5], [-300]], every=2, relu=True, rounding=STOCHASTIC).shift == 0
    assert run([[-300]], relu=True, rounding=STOCHASTIC).shift == 2


def test_roundings_of_a_remainder():
    """At a shift of 2, remainders 1 and 3 of 4: probability 0 and 1, random 1 and 1."""
    sums = [[256, 257, 258, 259, -258]]
    assert run(sums).values.tolist() == [[64, 64, 65, 65, -65]]
    assert run(sums, rounding=STOCHASTIC).values.tolist() == [[64, 64, 65, 64, -65]]


@pytest.mark.parametrize("rounding", ["nearest", STOCHASTIC])
@pytest.mark.parametrize("width", [9, 25, 32])
def test_values_stay_in_their_range(width, rounding):
    low = -(1 << width - 1)
    result = run([[low, -1 - low, 0]], width=width, rounding=rounding)
    assert result.shift == width - 7
    # All ones in the remainder: at an even shift, probability and random number are equal.
    up = rounding == "nearest" or (width - 7) % 2
    assert result.values.tolist() == [[-64, 64 if up else 63, 0]]
    result = run([[-1 - low, 1 + low]], width=width, rounding="nearest")
    assert result.values.tolist() == [[127, -127]]


def test_sums_from_count_on_are_0():
    result = run([[3, 1 << 20], [4, 5]], counts=[1, 2])
    assert result.shift == 0
    assert result.values.tolist() == [[3, 0], [4, 5]]


def test_squares_without_an_entry_count_for_the_shift_only():
    result = run([[1000], [2000], [4000]], entries=2)
    assert result.length_error
    assert result.shift == 5
    assert result.values.tolist() == [[31], [63]]


@pytest.mark.parametrize("rounding", ["nearest", STOCHASTIC])
def test_layers_of_elasticzo_are_the_same(rounding):
    """Nearest as the paper, which rounds first; pseudo-stochastic as the model that pools first."""
    elasticzo = ElasticZoConfig(rounding=rounding, pool_first=rounding == STOCHASTIC)
    rng = np.random.default_rng(2)
    model = ElasticZo(elasticzo, init(elasticzo, rng), drawn(0))
    for layer in elasticzo.layers:
        channels, height, width = layer.convolved
        for deviation in (20, 1000, 100_000):
            sums = np.rint(rng.normal(0, deviation, (1, height * width, channels)))
            maps = np.float32(sums).reshape(1, height, width, channels).transpose(0, 3, 1, 2)
            _, x, shift = model._requantized(layer, maps, kept=False)
            # Square by square: its positions, for four channels, then for the next four.
            side = layer.pool
            y = np.pad(sums, ((0, 0), (0, 0), (0, -channels % 4)))
            y = y.reshape(height // side, side, width // side, side, -1, 4)
            beats = y.transpose(0, 2, 4, 1, 3, 5).reshape(-1, 4).astype(int)
            found = run(beats, every=side * side, relu=layer.relu, rounding=rounding)
            assert found.shift == shift[0]
            assert not found.length_error
            values = found.values.reshape(*y.shape[0:3:2], -1)[..., :channels]
            np.testing.assert_array_equal(values.transpose(2, 0, 1), x[0])
