"""The FIFO between two clocks whose edges drift."""

from itertools import count
from random import Random

import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from seedbed.hw.parts.clock_crossing import ClockCrossing

#: Periods of input and output in picoseconds: related in no way, nearly equal, and in proportion.
PERIODS = [(16_667, 10_001), (10_001, 16_667), (10_000, 10_007), (10_000, 5_000), (3_001, 40_000)]


def run(periods, beats, *, depth=4, stalls=0.0, seed=1):
    """Send numbers; return those that come out, and the output's cycle by their count."""
    m = Module()
    m.domains.fast, m.domains.slow = ClockDomain("fast"), ClockDomain("slow")
    m.submodules.dut = dut = ClockCrossing(16, i_domain="fast", o_domain="slow", depth=depth)
    simulator = Simulator(m)
    random, times = Random(seed), {}
    for name, period in zip(("fast", "slow"), periods, strict=True):
        simulator.add_clock(1e-12 * period, phase=1e-12 * random.randrange(period), domain=name)
    received = []

    async def send(ctx):
        for number in range(beats):
            while random.random() < stalls:
                await ctx.tick("fast")
            ctx.set(dut.i.payload, number)
            ctx.set(dut.i.valid, 1)
            await ctx.tick("fast").until(dut.i.ready)
            ctx.set(dut.i.valid, 0)

    async def receive(ctx):
        for cycle in count():
            ready = random.random() >= stalls
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick("slow").sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                received.append(payload)
                times[len(received)] = cycle
            if len(received) == beats:
                return

    simulator.add_testbench(send)
    simulator.add_testbench(receive)
    simulator.run()
    return received, times


@pytest.mark.parametrize("periods", PERIODS)
@pytest.mark.parametrize("stalls", [0, 0.4])
def test_beats_are_output_once_and_in_order(periods, stalls):
    received, _ = run(periods, 400, stalls=stalls)
    assert received == list(range(400))


def test_throughput():
    """A beat per cycle of the slower clock with 16 beats, half of that with 4."""
    for periods in ((16_667, 10_001), (10_001, 16_667), (10_000, 10_007)):
        for depth, share in ((16, 1), (4, 0.5)):
            received, times = run(periods, 600, depth=depth)
            cycles = (times[600] - times[100]) * periods[1] / max(periods)
            assert received == list(range(600))
            assert 500 / cycles > 0.98 * share, (periods, depth, 500 / cycles)
