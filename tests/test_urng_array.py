from random import Random

import pytest

from seedbed.hw.urng_array import UrngArray
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
]


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_matches_model(config, stalls):
    simulate(UrngArray(config), case(config, Random(7)), stalls=stalls, seed=7)
