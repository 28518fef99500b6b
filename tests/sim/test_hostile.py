import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.sim.hostile import HOSTILE
from seedbed.sim.verilog import script

#: Frames of each core, which its configurations share; `seedbed measure --kind hostile` has 10,000
#: for each configuration.
FRAMES = 600


def bench(hostile, tmp_path, kept):
    core = CORES[hostile.core]
    params = core.small | hostile.more
    config = core.configure(params)
    path = write(core, params, tmp_path, kept=kept)
    signature = core.signature(config)
    return config, script.executable(path, core.name, signature, build=tmp_path)


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda found: f"{found.core}, {found.config}")
def test_good_jobs_follow_hostile_frames(hostile, tmp_path, kept):
    config, built = bench(hostile, tmp_path, kept)
    frames = FRAMES // sum(hostile.core == other.core for other in HOSTILE)
    steps = hostile.steps(config, frames=frames, seed=11)
    assert script.run(built, steps, seed=11) > 10 * frames
