import numpy as np
import pytest

from seedbed.golden.weight_perturb import WeightPerturb
from seedbed.spec import WeightPerturbConfig


@pytest.mark.parametrize("zeros", [0, 5, 8, 15])
@pytest.mark.parametrize("magnitude", [1, 7, 15])
def test_numbers_are_uniform_and_uncorrelated(zeros, magnitude):
    """Each has its share of zeros; the sum of products of neighbours is that of chance."""
    config = WeightPerturbConfig()
    z = (
        WeightPerturb(config)
        .perturbation(1, 2000, magnitude=magnitude, zeros=zeros)
        .reshape(2000, -1)
    )
    counts = np.bincount(z.ravel() + magnitude, minlength=2 * magnitude + 1) / z.size
    kept = 1 - zeros / 16
    each = np.full(2 * magnitude + 1, kept / 2 / (magnitude + 1))
    each[magnitude] = 1 - kept + kept / (magnitude + 1)
    assert np.abs(counts - each).max() < 0.004
    flat = z / z.std()
    for lane in (1, 2, 3, 5, 40):
        assert abs((flat * np.roll(flat, lane, axis=1)).mean()) < 0.01
        assert abs((flat[lane:] * flat[:-lane]).mean()) < 0.01


def test_unused_lanes_have_no_number():
    config = WeightPerturbConfig(lanes=8, ways=2, rows=16, used=(5, 8, 3))
    z = WeightPerturb(config).perturbation(5, 4, magnitude=15, zeros=0)
    for row, used in enumerate(config.used):
        assert not z[row, :, used:].any()
        assert z[row, :, :used].any()


@pytest.mark.parametrize("magnitude", [1, 3, 7, 15])
def test_an_update_is_the_sign_or_nothing(magnitude):
    """The probability is that of the magnitude by its range's half, as close as the bits allow."""
    model = WeightPerturb(WeightPerturbConfig(lanes=8, ways=2))
    z = model.perturbation(3, 500, magnitude=magnitude, zeros=0)
    weights = np.full(z.shape, 127)
    down = model.updated(weights, np.abs(z), 1, magnitude) - weights
    assert set(np.unique(down)) == {-1, 0}
    assert np.array_equal(model.updated(weights, np.abs(z), -1, magnitude), weights)
    assert not down[z == 0].any()
    assert (down[np.abs(z) > magnitude // 2] == -1).all()
