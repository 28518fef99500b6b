import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.sim.hostile import HOSTILE
from seedbed.sim.verilog import script

#: Frames of a configuration of each core; rows of `seedbed measure --kind hostile` have 10,000 of
#: each configuration.
FRAMES = 200
SAMPLE = {hostile.core: hostile for hostile in reversed(HOSTILE)}


def bench(hostile, tmp_path, kept):
    core = CORES[hostile.core]
    params = core.small | hostile.more
    config = core.configure(params)
    path = write(core, params, tmp_path, kept=kept)
    signature = core.signature(config)
    return config, script.executable(path, core.name, signature, build=tmp_path)


@pytest.mark.parametrize("hostile", SAMPLE.values(), ids=SAMPLE)
def test_good_jobs_follow_hostile_frames(hostile, tmp_path, kept):
    config, built = bench(hostile, tmp_path, kept)
    steps = hostile.steps(config, frames=FRAMES, seed=11)
    assert script.run(built, steps, seed=11) > 10 * FRAMES
