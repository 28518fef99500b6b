from itertools import pairwise
from random import Random

import numpy as np
import pytest

from seedbed.hw.adapters.lora import Lora
from seedbed.sim.case import Case
from seedbed.sim.cases.lora import Session, case, half
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec import LoraConfig
from seedbed.spec.fixed import Q8_16, Fixed

CONFIGS = [
    LoraConfig(widths=(6, 9), classes=5, rank=4, lanes=8, ways=2),
    # Everything saturates; gradients are wider than values; one adapter.
    LoraConfig(
        widths=(11,), classes=3, rank=2, lanes=8, ways=1, values=Fixed(9, 6),
        parameters=Fixed(8, 5), gradients=Fixed(12, 9), accumulators=Fixed(8, 6),
        rate_width=6, rate_fraction=7,
    ),
    # Longer than a row of lanes; ways that are not full; other formats.
    LoraConfig(
        widths=(20, 3), classes=5, rank=4, lanes=16, ways=2, values=Q8_16, accumulators=Q8_16
    ),
    LoraConfig(widths=(5, 2), classes=9, rank=4, lanes=8, ways=4),
]  # fmt: skip
SMALL, NARROW = CONFIGS[:2]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS))
def test_matches_model(config, stalls):
    simulate(Lora(config), case(config, Random(5), samples=2), stalls=stalls, seed=5)


def session(config, seed=1):
    return Session(config=config, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("config", [SMALL, NARROW, CONFIGS[2]], ids=["few", "many", "wide"])
def test_saturations_are_counted(config):
    script = session(config)

    async def process(ctx):
        script.load()
        await bench.run_phase(ctx, script.phase())
        for samples in (3, 1, 0, 2):
            for _ in range(samples):
                script.sample(train=True)
            script.sample(train=False)
            script.update(half(config))
            phase = script.phase()
            assert await bench.run_phase(ctx, phase) == phase.outputs
            assert ctx.get(bench.dut.saturations) == script.model.saturations.count
        script.sample(train=True, gradients=1)
        script.sample(train=True)
        script.update(half(config))
        await bench.run_phase(ctx, script.phase())
        assert ctx.get(bench.dut.saturations) == script.model.saturations.count
        assert config is not NARROW or script.model.saturations.count > 20

    bench = ResetBench(Lora(config))
    bench.run(process)


def test_reset_in_the_middle():
    """Adapters are those of before; the batch that was broken off leaves nothing."""
    script = session(SMALL)
    rate = half(SMALL)

    async def learns(ctx):
        script.sample(train=True)
        script.update(rate)
        script.read()
        phase = script.phase()
        assert await bench.run_phase(ctx, phase) == phase.outputs

    async def process(ctx):
        script.load()
        await learns(ctx)
        for cycles in (10, 110, 230, 345, 362):
            broken = session(SMALL, seed=2)
            for _ in range(3):
                broken.sample(train=True)
            broken.update(rate)
            came = await bench.run_phase(ctx, broken.phase(), cycles=cycles)
            # The last answer is there when the update has been done.
            assert len(came["o"]) < 3 * 3 + 1
            await bench.reset(ctx)
            script.read()
            await learns(ctx)

    bench = ResetBench(Lora(SMALL))
    bench.run(process)


def test_reset_in_the_middle_of_parameters():
    """They are the old ones until the last word of the new ones has come."""
    script = session(SMALL)

    async def process(ctx):
        script.load()
        await bench.run_phase(ctx, script.phase())
        other = session(SMALL, seed=2)
        other.load()
        await bench.run_phase(ctx, other.phase(), cycles=100)
        await bench.reset(ctx)
        script.read()
        script.sample(train=False)
        phase = script.phase()
        assert await bench.run_phase(ctx, phase) == phase.outputs

    bench = ResetBench(Lora(SMALL))
    bench.run(process)


@pytest.mark.parametrize("config", [SMALL, CONFIGS[2]], ids=["small", "wide"])
def test_latency(config):
    script, dut = session(config), Lora(config)
    script.load()
    phases = [script.phase()]
    script.sample(train=False)
    phases.append(script.phase())
    moved = simulate(dut, Case(phases=phases, quiet=True)).transfers
    assert moved["i_parameters"] == list(range(config.parameter_beats))
    assert len(moved["i_x"]) == config.sample_beats
    assert moved["i_x"][-1] - moved["i_x"][0] == config.sample_beats - 1
    assert moved["o"][-1] == moved["i_x"][-1] + dut.latency


@pytest.mark.parametrize("config", [SMALL, CONFIGS[2]], ids=["small", "wide"])
def test_throughput(config):
    """Of training, with gradients that are there at once, and vectors taken meanwhile."""
    script, dut = session(config), Lora(config)
    script.load()
    phases = [script.phase()]
    for _ in range(4):
        script.sample(train=True)
    phases.append(script.phase())
    moved = simulate(dut, Case(phases=phases, quiet=True)).transfers
    each = -(-config.classes // config.ways)
    ends = moved["o"][each - 1 :: each]
    assert {after - before for before, after in pairwise(ends[1:])} == {dut.interval}


def test_of_lenet5_in_cycles():
    config = LoraConfig()
    dut = Lora(config)
    assert (config.sample_beats, config.parameter_beats) == (644, 5952)
    assert (dut.latency, dut.interval) == (139, 645)
    simulate(dut, Case(phases=[]))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 4}, ValueError, r"lanes must be in 8\.\.64, not 4"),
        ({"lanes": 33}, ValueError, r"lanes must be a power of two, not 33"),
        ({"ways": 3, "rank": 3}, ValueError, r"ways must be a power of two, not 3"),
        ({"ways": 2, "rank": 3}, ValueError, r"ways must divide the rank, 3, not 2"),
        ({"ways": "4"}, TypeError, r"ways must be an integer in 1\.\.16, not '4'"),
        ({"values": Fixed(18, 17)}, ValueError, r"values must have room for 1, which Q1\.17"),
        ({"accumulators": Fixed(33, 12)}, ValueError, r"weight_width must be in 2\.\.32, not 33"),
    ],
)
def test_the_engine_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        _ = LoraConfig(**params).engine
