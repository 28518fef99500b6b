from random import Random

import pytest

from seedbed.hw.generators.lfsr import Lfsr
from seedbed.sim.cases.lfsr import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import LfsrConfig

CONFIGS = [
    LfsrConfig(width=3, seed=4),
    LfsrConfig(),
    LfsrConfig(width=14, leap=14),
    LfsrConfig(width=24, leap=5),
]


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_matches_model(config, stalls):
    simulate(Lfsr(config), case(config, Random(7)), stalls=stalls, seed=7)


def test_latency_and_throughput():
    config = LfsrConfig()
    result = simulate(Lfsr(config), case(config, Random(7), beats=30))
    received = result.transfers["o"]
    first = result.transfers["i_seed"][0]
    assert received[:30] == list(range(30))
    assert first + Lfsr.latency in received
    assert received == list(range(received[-1] + 1))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"width": 1}, ValueError, "width must be in 2..24, not 1"),
        ({"width": 25}, ValueError, "width must be in 2..24, not 25"),
        ({"width": "8"}, TypeError, "width must be an integer in 2..24, not '8'"),
        ({"width": True}, TypeError, "width must be an integer in 2..24, not True"),
        ({"leap": 9}, ValueError, "leap must be in 1..8, not 9"),
        ({"seed": 0}, ValueError, "seed must be in 1..255, not 0"),
        ({"seed": 256}, ValueError, "seed must be in 1..255, not 256"),
        ({"taps": (0, 8)}, ValueError, "every one of taps must be in 0..7, not 8"),
        ({"taps": (0, 0)}, ValueError, r"taps must be distinct, not \(0, 0\)"),
        (
            {"taps": (0, 1)},
            ValueError,
            "taps must give a register of 8 bits its full period of 255",
        ),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        LfsrConfig(**params)
