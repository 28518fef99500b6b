"""Sources of perturbations: shape, distribution, replay, and independence of steps."""

import numpy as np
import pytest

from seedbed.golden.elasticzo_sources import HARDWARE, SOURCES
from seedbed.golden.urng_array import UrngArray
from seedbed.spec import UrngConfig
from seedbed.spec.elasticzo import ElasticZoConfig, Phase

LENET = ElasticZoConfig()
PHASE = Phase(epoch=0, magnitude=15, zeros=80, update_bits=5)


def numbers(name, step=0, phase=PHASE, seed=0):
    source = SOURCES[name](seed, LENET)
    return np.concatenate([source(step, layer, phase).reshape(-1) for layer in LENET.layers])


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "rank1"])
@pytest.mark.parametrize(("magnitude", "zeros"), [(15, 80), (1, 128), (31, 224), (63, 0)])
def test_numbers_are_sparse_and_symmetric(name, magnitude, zeros):
    phase = Phase(epoch=0, magnitude=magnitude, zeros=zeros, update_bits=3)
    z = numbers(name, phase=phase)
    assert z.dtype == np.int8
    assert len(z) == sum(layer.outputs * layer.fan_in for layer in LENET.layers)
    assert np.abs(z).max() == magnitude
    # The magnitude is 0 in a share of its own: of 2 r + 1 numbers, or of 2^c.
    share = 1 / (magnitude + 1) if name in HARDWARE else 1 / (2 * magnitude + 1)
    assert (z == 0).mean() == pytest.approx(1 - (1 - zeros / 256) * (1 - share), abs=0.03)
    assert np.abs(z.mean()) < 0.03 * magnitude


@pytest.mark.parametrize("name", SOURCES)
def test_a_step_is_replayed_and_differs_from_others(name):
    assert (numbers(name, 5) == numbers(name, 5)).all()
    for step, seed in ((6, 0), (5, 1)):
        r = np.corrcoef(numbers(name, 5), numbers(name, step, seed=seed))[0, 1]
        assert abs(r) < 0.1


@pytest.mark.parametrize(("magnitude", "zeros"), [(15, 80), (1, 128), (63, 0)])
def test_numbers_of_rank_1_are_the_products_of_two(magnitude, zeros):
    source, shares = SOURCES["rank1"](3, LENET), []
    phase = Phase(epoch=0, magnitude=magnitude, zeros=zeros, update_bits=3)
    for layer in LENET.layers:
        z = source(1, layer, phase)
        assert z.shape == (layer.outputs, layer.fan_in)
        assert np.linalg.matrix_rank(z) == 1
        moved = np.abs(z[:, 0]) > 0
        assert (np.abs(z[moved]) == (magnitude + 1) // 2).all()
        shares.append(moved)
        half = source.half(layer.name)
        assert half.shape == (layer.fan_in,)
        assert 0 < half.mean() < 1
    assert np.concatenate(shares).mean() == pytest.approx(1 - zeros / 256, abs=0.1)


def test_rows_take_the_words_of_a_beat():
    array = UrngArray(UrngConfig(lanes=31, width=14, leap=3, tile=128, seeding="grown"))
    array.grow(int(np.random.default_rng([7, 3]).integers(1, 1 << 14)))
    source = SOURCES["urng"](7, LENET)
    for layer in LENET.layers:
        size = layer.outputs * layer.fan_in
        words = [int(w) for w in array.beats(-(-size // 128)).reshape(-1)[:size]]
        wanted = [0 if (w >> 9 & 15) < 5 else (w & 15) * (1 if w >> 13 else -1) for w in words]
        assert source(3, layer, PHASE).reshape(-1).tolist() == wanted


def test_rows_of_a_buffer_repeat():
    source = SOURCES["buffer"](0, LENET)
    *_, fc1, _, _ = LENET.layers
    z = source(0, fc1, PHASE).reshape(-1)
    assert (z[31 * 128 :] == z[: -31 * 128]).all()
    assert (z[128:256] != z[:128]).any()
    assert (source(1, fc1, PHASE).reshape(-1) != z).any()


@pytest.mark.parametrize(
    ("magnitude", "zeros", "words"),
    [(15, 84, "zeros must be a multiple of 16 .* not 84"), (5, 80, "magnitude must be 2.c - 1")],
)
def test_what_bits_cannot_give_is_refused(magnitude, zeros, words):
    phase = Phase(epoch=0, magnitude=magnitude, zeros=zeros, update_bits=3)
    with pytest.raises(ValueError, match=words):
        numbers("urng", phase=phase)
