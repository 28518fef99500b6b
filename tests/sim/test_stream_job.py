"""Programs of the streamed engine on the emitted Verilog, with a modelled memory."""

from dataclasses import replace

import numpy as np
import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.golden.engine_image import engine_image
from seedbed.golden.stream_engine import StreamEngine
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Memory
from seedbed.sim.jobs import stream_job
from seedbed.sim.jobs.stream_job import RtlProgram
from seedbed.sim.verilog.cosim import Cosim

CORE = CORES["stream_engine"]


def built(params, tmp_path, kept):
    config = CORE.configure(params)
    path = write(CORE, params, tmp_path, kept=kept)
    of = stream_job.bench(CORE.name, config)
    return config, of, of.executable(path, CORE.name, build=tmp_path)


def drawn(config, kind, size, layers, sizes):
    rng = np.random.default_rng(1)
    engine = drawn_program(kind, rng, size=size, layers=layers)
    image = engine_image(
        config, engine.program, engine.parameters, block=max(sizes), context=config.context
    )
    return engine, image, [rng.integers(0, WORDS, count) for count in sizes]


def test_programs_on_the_emitted_verilog(tmp_path, kept):
    """Two layers, blocks one after another, with pauses; a difference to the model is found."""
    config, of, path = built(CORE.small | {"records": 128, "vectors": 2}, tmp_path, kept)

    def run(engine, image, blocks, fault=None, **options):
        memory = Memory(fault=fault)
        with Cosim(path, of, **options) as cosim:
            core = RtlProgram(cosim, config, engine, image, memory=memory, block=4)
            for tokens in blocks:
                core.run(tokens)
        return core.blocks

    for kind in PROGRAMS:
        engine, image, blocks = drawn(config, kind, 8, 2, (4, 1, 4, 3))
        for pauses in (0, 6):
            found = run(engine, image, blocks, seed=3, pauses=pauses)
            assert [each.tokens for each in found] == [4, 1, 4, 3]
            for each in found:
                # The cycles before the first record and after the last one have no kind.
                assert 0 < each.cycles - sum(each.kinds.values()) < 40 + 40 * pauses
                assert all(each.kinds.values())
    first = engine.parameters["w4"]
    other = {**engine.parameters, "w4": replace(first, multipliers=first.multipliers ^ 0x4000)}
    wrong = StreamEngine(engine.program, other)
    with pytest.raises(Mismatch, match=r"beat \d+ of the result is not the model's"):
        run(wrong, image, blocks)
    with pytest.raises(Mismatch, match="the command to load ended with the status memory"):
        run(engine, image, blocks, 12)
