from random import Random

import pytest

from seedbed.hw.vectors.vector_unit import VectorUnit
from seedbed.sim.cases.vector_unit import case
from seedbed.sim.harness import simulate, with_stalls
from seedbed.spec import VectorUnitConfig

CONFIGS = [
    VectorUnitConfig(lanes=2),
    VectorUnitConfig(lanes=4),
    VectorUnitConfig(),
    VectorUnitConfig(lanes=2, width=8),
    VectorUnitConfig(lanes=2, width=13),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(VectorUnit(config), case(config, Random(4)), stalls=stalls, seed=4)
