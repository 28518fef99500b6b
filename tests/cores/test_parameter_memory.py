from random import Random

import pytest
from amaranth.sim import Simulator

from seedbed.hw.engine.parameter_memory import ACCUMULATORS, BLOCK, ParameterMemory
from seedbed.spec import InstantFtConfig

PAGES = range(ACCUMULATORS + 1)


def ends(count):
    return [0, 1, count // 2, count - 2, count - 1]


async def fill(ctx, dut, row, number, **where):
    """Load two numbers of a row: the word comes ``load_latency`` cycles later."""
    for name, value in where.items():
        ctx.set(getattr(dut, name), value)
    ctx.set(dut.load, 1)
    ctx.set(dut.load_row, row)
    await ctx.tick()
    ctx.set(dut.load, 0)
    await ctx.tick().repeat(dut.load_latency - 1)
    ctx.set(dut.values[0], number)
    await ctx.tick()


async def read(ctx, dut, row, trainable, page):
    ctx.set(dut.trainable, trainable)
    ctx.set(dut.page, page)
    ctx.set(dut.row, row)
    await ctx.tick().repeat(dut.latency)
    return ctx.get(dut.o[0])


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_network_and_pages_are_apart(lanes):
    """The first and last rows of each hold what was written to them, and no block RAM is lost."""
    config = InstantFtConfig(lanes=lanes).engine
    plan, dut = config.plan, ParameterMemory(config)
    least = plan.frozen_rows + len(PAGES) * plan.trainable_rows
    assert -(-dut.depth // BLOCK) == -(-least // BLOCK)
    rows = [(0, 0, row) for row in ends(plan.frozen_rows)]
    rows += [(1, page, row) for page in PAGES for row in ends(plan.trainable_rows)]
    Random(2).shuffle(rows)

    async def bench(ctx):
        for number, (trainable, page, row) in enumerate(rows):
            await fill(ctx, dut, row, number, load_trainable=trainable, load_page=page)
        found = [await read(ctx, dut, row, trainable, page) for trainable, page, row in rows]
        assert found == list(range(len(rows)))

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
