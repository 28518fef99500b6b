"""Programs of the streamed engine on the emitted Verilog, with a modelled memory."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.golden.engine_image import engine_image
from seedbed.golden.kept_weights import trainable
from seedbed.golden.stream_engine import StreamEngine
from seedbed.golden.tuning_log import Step, deltas, replayed, tuning_log
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Memory
from seedbed.sim.jobs import stream_job
from seedbed.sim.jobs.stream_job import RtlProgram
from seedbed.sim.verilog.cosim import Cosim
from seedbed.spec.stream_engine import Matrix

CORE = CORES["stream_engine"]
ROOT = Path(__file__).parents[2]


def built(params, tmp_path, kept):
    config = CORE.configure(params)
    path = write(CORE, params, tmp_path, kept=kept)
    of = stream_job.bench(CORE.name, config)
    return config, of, of.executable(path, CORE.name, build=tmp_path)


def run(core, engine, image, blocks, fault=None, **options):
    """Return what blocks took in a core, which is what :func:`built` returns."""
    config, of, path = core
    memory, block = Memory(fault=fault), max(map(len, blocks))
    with Cosim(path, of, **options) as cosim:
        program = RtlProgram(cosim, config, engine, image, memory=memory, block=block)
        for tokens in blocks:
            program.run(tokens)
    return program.blocks


def drawn(config, kind, size, layers, sizes, seed=1):
    rng = np.random.default_rng(seed)
    engine = drawn_program(
        kind, rng, size=size, layers=layers, trellis=config.trellis, seedlm=config.seedlm,
        keeps=config.kept > 0,
    )  # fmt: skip
    image = engine_image(
        config, engine.program, engine.parameters, block=max(sizes), context=config.context
    )
    return engine, image, [rng.integers(0, WORDS, count) for count in sizes]


@pytest.mark.parametrize(
    "weights",
    [{}, {"trellis": 4, "kept": 200}, {"seedlm": True}, {"external": True}],
    ids=str,
)
def test_programs_on_the_emitted_verilog(weights, tmp_path, kept):
    """Two layers, blocks one after another, with pauses; a difference to the model is found."""
    core = built(CORE.small | {"records": 128, "vectors": 2} | weights, tmp_path, kept)
    for kind in PROGRAMS:
        engine, image, blocks = drawn(core[0], kind, 8, 2, (4, 1, 4, 3))
        for pauses in (0, 6):
            found = run(core, engine, image, blocks, seed=3, pauses=pauses)
            assert [each.tokens for each in found] == [4, 1, 4, 3]
            for each in found:
                # The cycles before the first record and after the last one have no kind.
                assert 0 < each.cycles - sum(each.kinds.values()) < 40 + 40 * pauses
                # Beside matrices, whole operations can be done.
                wanted = ("Embed", "Matrix") if core[0].ahead else each.kinds
                assert all(each.kinds[name] for name in wanted)
    name = next(op.weights for op in engine.program.operations if isinstance(op, Matrix))
    first = engine.parameters[name]
    other = {**engine.parameters, name: replace(first, multipliers=first.multipliers ^ 0x4000)}
    wrong = StreamEngine(engine.program, other)
    with pytest.raises(Mismatch, match=r"beat \d+ of the result is not the model's"):
        run(core, wrong, image, blocks)
    with pytest.raises(Mismatch, match="the command to load ended with the status memory"):
        run(core, engine, image, blocks, 12)


def test_kept_weights_are_tuned_on_the_emitted_verilog(tmp_path, kept):
    """Steps with two passes each, with pauses; their log gives the weights that are in memory."""
    options = {"records": 128, "vectors": 2, "trellis": 4, "kept": 200, "tune": 4}
    config, of, path = built(CORE.small | options, tmp_path, kept)
    rng = np.random.default_rng(1)
    engine = drawn_program("encoder", rng, size=8, layers=2, trellis=4, keeps=True)
    engine = StreamEngine(engine.program, trainable(engine.parameters, 4))
    image = engine_image(config, engine.program, engine.parameters, block=4, context=4)
    tokens, vectors, steps = rng.integers(0, WORDS, 3), [], []
    with Cosim(path, of, seed=3, pauses=6) as cosim:
        core = RtlProgram(cosim, config, engine, image, memory=Memory(), block=4)
        first = core.tuner.words
        for change in (5, -300, 0):
            steps.append(Step(int(rng.integers(1, 1 << 24)), change))
            for delta in deltas(40, change):
                core.tune(seed=steps[-1].seed, delta=delta)
                core.start()
                vectors.append(core.run(tokens))
    assert len({each.tobytes() for each in vectors}) > 6
    final = core.tuner.words
    text = tuning_log(config, 40, first, steps, final)
    assert (replayed(config, first, text) == final).all()
    other = text.replace("-300]", "-299]")
    with pytest.raises(ValueError, match="the steps of the log do not give its final weights"):
        replayed(config, first, other)
    with pytest.raises(ValueError, match="begins with other kept weights"):
        replayed(config, final, text)
    with pytest.raises(ValueError, match="no tuning log, or it is damaged"):
        replayed(config, first, text[:-9])


@pytest.mark.long
@pytest.mark.parametrize(
    "params",
    [
        {"trellis": 4},
        {"trellis": 4, "vectors": 2, "keys": 2},
        {"vectors": 4, "external": True},
        {"trellis": 4, "kept": 200, "keys": 2, "external": True},
    ],
    ids=str,
)
def test_random_programs(params, tmp_path, kept):
    """Any operations in any order, with and without pauses."""
    core = built(CORE.small | {"records": 128} | params, tmp_path, kept)
    for seed in range(60):
        engine, image, blocks = drawn(core[0], "mixed", 8, 2, (3, 1, 4), seed=seed)
        run(core, engine, image, blocks, seed=seed, pauses=seed % 3 * 4)


@pytest.mark.long
def test_cycles_of_the_page(tmp_path, kept):
    """A token after 128 others, which come in blocks of eight."""
    params = {"store": 4096, "cache": 65536, "records": 256, "block": 8, "context": 132}
    core = built(params, tmp_path, kept)
    engine, image, blocks = drawn(core[0], "decoder", 512, 2, [8] * 16 + [1])
    *_, token = run(core, engine, image, blocks)
    page = (ROOT / "docs/cores/stream_engine.md").read_text()
    found = {
        name: (int(count.replace(",", "")), share)
        for name, count, share in re.findall(r"^\| ([\w ]+) \| ([\d,]+) \| ([\d.]*)", page, re.M)
    }
    for name, cycles in token.kinds.items():
        assert found[name] == (cycles, f"{100 * cycles / token.cycles:.1f}")
    assert found["all"] == (token.cycles, "")
    assert found["beats of memory"] == (token.beats, "")
    assert f"takes {token.cycles / token.beats:.2f} cycles for each beat" in page
