from random import Random

import pytest

from seedbed.hw.lfsr import Lfsr
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
