from random import Random

import pytest

from seedbed.hw.generators.scale_lut import ScaleLut
from seedbed.sim.cases.scale_lut import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import ScaleConfig

CONFIGS = {
    "constant": ScaleConfig(),
    "logic": ScaleConfig(rounding="value"),
    "memory": ScaleConfig(width=14),
    "three exponents": ScaleConfig(lanes=7, width=7),
    "least lanes": ScaleConfig(lanes=3, width=4),
}


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("name", CONFIGS)
def test_matches_model(name, stalls):
    config = CONFIGS[name]
    simulate(ScaleLut(config), case(config, Random(5)), stalls=stalls, seed=5)


def test_latency_and_throughput():
    config = CONFIGS["memory"]
    result = simulate(ScaleLut(config), case(config, Random(5), beats=50))
    sent, received = result.transfers["i"], result.transfers["o"]
    assert sent == list(range(sent[0], sent[0] + 50))
    assert received == [cycle + ScaleLut.latency for cycle in sent]


@pytest.mark.parametrize("style", ["constant", "logic", "memory"])
def test_style_is_what_the_contents_allow(style):
    assert CONFIGS[style].style == style


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"width": 17}, "width must be in 4..16, not 17"),
        ({"rounding": "up"}, "rounding must be one of value, ratio, not 'up'"),
        ({"lanes": 8}, r"lanes must be 2\^k - 1"),
    ],
)
def test_refuses(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        ScaleConfig(**params)
