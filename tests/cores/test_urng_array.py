from random import Random

import pytest

from seedbed.hw.generators.urng_array import UrngArray
from seedbed.sim.cases.urng_array import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import UrngConfig

CONFIGS = [
    UrngConfig(),
    UrngConfig(width=14),
    UrngConfig(lanes=7, width=8, leap=8),
    UrngConfig(lanes=3, width=4, repair=True),
    UrngConfig(lanes=7, width=5, tile=16, repair=True),
    UrngConfig(seeding="grown"),
    UrngConfig(width=14, seeding="grown", repair=True),
    UrngConfig(lanes=15, width=8, leap=3, seeding="grown"),
    UrngConfig(lanes=15, width=4, leap=2, seeding="grown"),
]


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_matches_model(config, stalls):
    simulate(UrngArray(config), case(config, Random(7)), stalls=stalls, seed=7)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_latency_and_throughput(config):
    """Beats in a row without stalls, and the first one ``latency`` cycles after the seed's end."""
    rtl = UrngArray(config)
    stimulus = case(config, Random(7), beats=40)
    result = simulate(rtl, stimulus)
    seeds, received = result.transfers["i_seeds"], result.transfers["o"]
    frame = len(stimulus.phases[1].inputs["i_seeds"])
    for k in range(3):
        end = seeds[(k + 1) * frame - 1]
        after = [cycle for cycle in received if cycle > end][:40]
        assert after == list(range(end + rtl.latency, end + rtl.latency + 40))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 32}, ValueError, r"lanes must be 2\^k - 1 \(3, 7, 15, .. 1023\)"),
        ({"lanes": 2047}, ValueError, "lanes must be in 3..1023, not 2047"),
        ({"lanes": 31.0}, TypeError, "lanes must be an integer in 3..1023, not 31.0"),
        ({"width": 3}, ValueError, "width must be in 4..24, not 3"),
        ({"width": 25}, ValueError, "width must be in 4..24, not 25"),
        ({"leap": 0}, ValueError, "leap must be in 1..8, not 0"),
        ({"width": 4}, ValueError, "31 lanes need as many distinct non-zero states"),
        ({"tile": 30}, ValueError, "tile must be in 31..65536, not 30"),
        ({"seeding": "parallel"}, ValueError, "seeding must be one of serial, grown"),
        ({"repair": 1}, TypeError, "repair must be True or False, not 1"),
        ({"taps": (0, 1)}, ValueError, "taps must give a register of 8 bits its full period"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        UrngConfig(**params)


def test_grow_refuses_zero():
    with pytest.raises(ValueError, match=r"seed must be in 1..255, not 0"):
        UrngConfig().grow(0)
