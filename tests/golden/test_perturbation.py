import numpy as np
import pytest

from seedbed.golden.perturbation import Perturbation as Model
from seedbed.spec import PerturbationConfig

CONFIGS = {
    "urng 31 x 14": PerturbationConfig(),
    "urng 31 x 8": PerturbationConfig(width=8),
    "urng 31 x 8, value": PerturbationConfig(width=8, rounding="value"),
    "urng 7 x 8, leap 8": PerturbationConfig(lanes=7, width=8, leap=8),
    "urng 3 x 5": PerturbationConfig(lanes=3, width=5, count_width=12, eps_width=3),
    "lutopt 31 x 14": PerturbationConfig(source="lutopt"),
    "lutopt 32 x 5": PerturbationConfig(source="lutopt", lanes=32, width=5),
    "pool 8 x 12": PerturbationConfig(source="pool"),
    "pool 5 x 9": PerturbationConfig(source="pool", lanes=5, width=9, size=13, banks=4),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_values_are_the_beats(name):
    """The d real numbers are those of the integers; the sign negates them, eps scales them."""
    config = CONFIGS[name]
    model = Model(config)
    d = 2 * config.lanes + 1
    beats = model.beats(seed=5, d=d)
    assert beats.counts.sum() == d
    expected = [
        lane * 2.0 ** (int(exponent) - config.fraction_bits)
        for lanes, count, exponent in zip(beats.lanes, beats.counts, beats.exponents, strict=True)
        for lane in lanes[:count]
    ]
    values = model.values(seed=5, d=d)
    assert values.tolist() == expected
    assert np.array_equal(model.values(seed=5, d=d, negative=True), -values)
    assert np.array_equal(model.values(seed=5, d=d, eps=-2), values / 4)


@pytest.mark.parametrize("name", ["pool 8 x 12", "pool 5 x 9"])
def test_next_seed_continues_the_pool(name):
    model = Model(CONFIGS[name])
    whole = model.values(seed=7, d=60)
    rest = model.values(seed=model.next_seed(7, 23), d=37)
    assert np.array_equal(whole[23:], rest)


def test_next_seed_continues_the_array():
    """Generator 0 continues its sequence; only the rotation restarts."""
    config = CONFIGS["urng 31 x 14"]
    model = Model(config)
    whole = model.beats(seed=9, d=31 * 40).lanes
    rest = model.beats(seed=model.next_seed(9, 31 * 31), d=31 * 9).lanes
    assert np.array_equal(whole[31:], rest)


def test_norm_is_a_gaussians():
    values = Model(CONFIGS["urng 31 x 14"]).values(seed=1, d=31 * 16383)
    assert abs(np.sqrt((values**2).mean()) - 1) < 0.2
    lutopt = Model(CONFIGS["lutopt 31 x 14"]).values(seed=1, d=31 * 4000)
    assert abs(np.sqrt((lutopt**2).mean()) - 2 / 3**0.5) < 0.01
    assert abs(lutopt.mean()) < 0.02
    pool = Model(CONFIGS["pool 8 x 12"]).values(seed=0, d=4095)
    assert abs(np.sqrt((pool**2).mean()) - 1) < 0.001


def test_lutopt_has_no_next_seed():
    with pytest.raises(ValueError, match="lutopt has no seed that continues it"):
        Model(CONFIGS["lutopt 31 x 14"]).next_seed(1, 5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ({"seed": 0, "d": 5}, "seed must be a whole number in 1..16383, not 0"),
        ({"seed": 1, "d": 0}, "d must be a whole number in 1..1048575, not 0"),
    ],
)
def test_model_refuses(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        Model(PerturbationConfig()).values(**call)


@pytest.mark.parametrize(
    ("source", "part"),
    [("pool", "array"), ("lutopt", "scale"), ("urng", "lutopt"), ("urng", "pool")],
)
def test_a_source_has_its_own_parts_alone(source, part):
    sentence = rf"only the source '\w+' has [a-z ]+, not '{source}'"
    with pytest.raises(ValueError, match=sentence):
        getattr(PerturbationConfig(source=source), part)
