from random import Random

import pytest

from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.sim.cases.stream_engine import case
from seedbed.sim.cases.stream_programs import PROGRAMS
from seedbed.sim.harness import simulate, with_stalls
from seedbed.spec import StreamEngineConfig

SMALL = {
    "lanes": 2, "beat_bits": 128, "store": 512, "cache": 256, "records": 64, "block": 4,
    "context": 16, "columns": 64, "address_bits": 16, "burst": 8, "timeout_cycles": 400,
    "drain_cycles": 16,
}  # fmt: skip
CONFIGS = [
    StreamEngineConfig(**SMALL),
    StreamEngineConfig(**{**SMALL, "vectors": 2}),
    StreamEngineConfig(**{**SMALL, "lanes": 4, "beat_bits": 256, "vectors": 4}),
]


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls, kind):
    """Two blocks of a program, the second after the first, bit for bit; a third is too long."""
    simulate(StreamEngine(config), case(config, Random(4), kinds=[kind]), stalls=stalls, seed=4)
