from itertools import pairwise
from random import Random

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal, Value
from amaranth.sim import Simulator

from seedbed.hw.lora import Lora
from seedbed.sim.case import Case
from seedbed.sim.cases.lora import INPUTS, OUTPUTS, Session, case, half
from seedbed.sim.harness import Stalls, simulate
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


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_matches_model(config, stalls):
    simulate(Lora(config), case(config, Random(5), samples=2), stalls=stalls, seed=5)


def session(config, seed=1):
    return Session(config=config, rng=np.random.default_rng(seed))


class Bench:
    """Plays phases, with a reset when it is asked for; ``dut`` is there to be looked at."""

    def __init__(self, config):
        self.dut, self.reset = Lora(config), Signal()

    def run(self, process):
        async def bench(ctx):
            await process(self, ctx)

        simulator = Simulator(ResetInserter({"sync": self.reset})(self.dut))
        simulator.add_clock(1e-8)
        simulator.add_testbench(bench)
        simulator.run()

    async def play(self, ctx, phase, cycles=5000):
        """Send what ``phase`` has; return what came until all has, or for so many cycles."""
        send = {name: list(phase.inputs[name]) for name in INPUTS}
        came = {name: [] for name in OUTPUTS}
        ports = [getattr(self.dut, name) for name in (*INPUTS, *OUTPUTS)]
        for name in OUTPUTS:
            ctx.set(getattr(self.dut, name).ready, 1)
        for _ in range(cycles):
            for name, left in send.items():
                port = getattr(self.dut, name)
                ctx.set(port.valid, bool(left))
                if left:
                    ctx.set(Value.cast(port.payload), left[0])
            sampled = [Value.cast(s) for p in ports for s in (p.payload, p.valid & p.ready)]
            _, _, *seen = await ctx.tick().sample(*sampled)
            for name, payload, moved in zip((*send, *came), seen[::2], seen[1::2], strict=True):
                if moved and name in send:
                    send[name].pop(0)
                elif moved:
                    came[name].append(payload)
            if not any(send.values()) and all(
                len(came[name]) == len(phase.outputs[name]) for name in OUTPUTS
            ):
                break
        return came

    async def again(self, ctx):
        for name in INPUTS:
            ctx.set(getattr(self.dut, name).valid, 0)
        ctx.set(self.reset, 1)
        await ctx.tick()
        ctx.set(self.reset, 0)


@pytest.mark.parametrize("config", [SMALL, NARROW, CONFIGS[2]], ids=["few", "many", "wide"])
def test_saturations_are_counted(config):
    script = session(config)

    async def process(bench, ctx):
        script.load()
        await bench.play(ctx, script.phase())
        for samples in (3, 1, 0, 2):
            for _ in range(samples):
                script.sample(train=True)
            script.sample(train=False)
            script.update(half(config))
            phase = script.phase()
            assert await bench.play(ctx, phase) == phase.outputs
            assert ctx.get(bench.dut.saturations) == script.model.saturations.count
        script.sample(train=True, gradients=1)
        script.sample(train=True)
        script.update(half(config))
        await bench.play(ctx, script.phase())
        assert ctx.get(bench.dut.saturations) == script.model.saturations.count
        assert config is not NARROW or script.model.saturations.count > 20

    Bench(config).run(process)


@pytest.mark.parametrize("cycles", [10, 60, 110, 170, 230, 300, 345, 355, 362])
def test_reset_in_the_middle(cycles):
    """Adapters are those of before; the batch that was broken off leaves nothing."""
    script = session(SMALL)
    rate = half(SMALL)

    async def process(bench, ctx):
        script.load()
        script.sample(train=True)
        script.update(rate)
        script.read()
        phase = script.phase()
        assert await bench.play(ctx, phase) == phase.outputs
        broken = session(SMALL, seed=2)
        for _ in range(3):
            broken.sample(train=True)
        broken.update(rate)
        came = await bench.play(ctx, broken.phase(), cycles)
        # The last answer is there when the update has been done.
        assert len(came["o"]) < 3 * 3 + 1
        await bench.again(ctx)
        script.read()
        script.sample(train=True)
        script.update(rate)
        script.read()
        phase = script.phase()
        assert await bench.play(ctx, phase) == phase.outputs

    Bench(SMALL).run(process)


def test_reset_in_the_middle_of_parameters():
    """They are the old ones until the last word of the new ones has come."""
    script = session(SMALL)

    async def process(bench, ctx):
        script.load()
        await bench.play(ctx, script.phase())
        other = session(SMALL, seed=2)
        other.load()
        await bench.play(ctx, other.phase(), 100)
        await bench.again(ctx)
        script.read()
        script.sample(train=False)
        phase = script.phase()
        assert await bench.play(ctx, phase) == phase.outputs

    Bench(SMALL).run(process)


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
