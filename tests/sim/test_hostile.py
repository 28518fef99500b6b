import os

import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.sim.jobs import hostile
from seedbed.sim.verilog import script

#: Frames of each core, which its configurations share: CI runs 10,000.
FRAMES = int(os.environ.get("SEEDBED_HOSTILE_FRAMES", "600"))
SCRIPTS = {
    "instantft": hostile.instantft_frames,
    "gemv": hostile.gemv_frames,
    "stream_engine": hostile.stream_engine_programs,
    "sparse_trainer": hostile.sparse_trainer_frames,
}
#: The script's memory gives a burst's first beat after up to 41 cycles: a core that has lost count
#: of the beats, as after a burst that was too long, must wait for longer until none can come.
SILENT = {"drain_cycles": 64}
#: Core, and what differs from its small configuration.
CONFIGS = [
    ("instantft", {}),
    ("gemv", {}),
    ("gemv", {"decode": "lut4", "level_load": 4}),
    ("gemv", {"decode": "trellis"}),
    ("gemv", {"decode": "plain", "vectors": 2}),
    ("stream_engine", SILENT),
    ("stream_engine", SILENT | {"vectors": 2}),
    ("stream_engine", SILENT | {"trellis": 4, "kept": 200, "vectors": 2, "choose": True}),
    ("stream_engine", SILENT | {"external": True}),
    ("sparse_trainer", SILENT),
    ("sparse_trainer", SILENT | {"decode": "trellis"}),
]


def bench(name, tmp_path, kept, more):
    core = CORES[name]
    params = core.small | more
    config = core.configure(params)
    path = write(core, params, tmp_path, kept=kept)
    signature = core.signature(config)
    return config, script.executable(path, name, signature, build=tmp_path)


@pytest.mark.parametrize(("name", "more"), CONFIGS, ids=str)
def test_good_jobs_follow_hostile_frames(name, more, tmp_path, kept):
    config, built = bench(name, tmp_path, kept, more)
    frames = -(-FRAMES // sum(name == other for other, _ in CONFIGS))
    assert script.run(built, SCRIPTS[name](config, frames=frames, seed=11), seed=11) > 10 * frames
