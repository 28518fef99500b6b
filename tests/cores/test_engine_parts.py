"""The parts that the engine is built of, each against a few lines of Python."""

from itertools import product
from random import Random

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator

from seedbed.hw.engine.pool import Pool
from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.parts.fixed_requantize import FixedRequantize
from seedbed.hw.parts.loop_nest import LoopNest, strided
from seedbed.hw.parts.read_arbiter import ReadArbiter
from seedbed.spec.fixed import Fixed


def simulate(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


def test_delay_line_with_clock_enable():
    m = Module()
    value = Signal(4)
    enable = Signal()
    taps = delay_line(m, value, 3, "value", enable=enable)
    assert [tap.name for tap in taps] == ["value", "value_d1", "value_d2", "value_d3"]

    async def bench(ctx):
        random, taken = Random(1), [0, 0, 0]
        for _ in range(50):
            number, enabled = random.randrange(16), random.randrange(2)
            ctx.set(value, number)
            ctx.set(enable, enabled)
            await ctx.tick()
            taken = [number, *taken[:2]] if enabled else taken
            assert [ctx.get(tap) for tap in taps[1:]] == taken

    simulate(m, bench)


@pytest.mark.parametrize("counts", [(3, 1, 2), (1, 1, 1), (2, 4, 3)])
def test_loop_nest_walks_as_nested_loops_do(counts):
    """Twice, the second time with fewer iterations, and with cycles between iterations."""
    m, random = Module(), Random(2)
    m.submodules.nest = nest = LoopNest(counts)
    strides = [random.randrange(-30, 30) for _ in counts]
    address = strided(m, nest, "address", 12, 100, strides)

    async def walk(ctx, counts):
        for k, count in enumerate(counts):
            ctx.set(nest.limits[f"loop_{k}"], count - 1)
        ctx.set(nest.load, 1)
        await ctx.tick()
        ctx.set(nest.load, 0)
        at = 100
        for place in product(*(range(count) for count in reversed(counts))):
            while random.random() < 0.3:
                await ctx.tick()
            place = place[::-1]
            ends = [here == count - 1 for here, count in zip(place, counts, strict=True)]
            level = ends.index(False) if False in ends else len(counts)
            assert ctx.get(nest.level) == level
            assert ctx.get(nest.first) == sum((not here) << k for k, here in enumerate(place))
            assert ctx.get(nest.last) == sum(end << k for k, end in enumerate(ends))
            assert ctx.get(address) == at % (1 << 12)
            at += strides[min(level, len(strides) - 1)]
            ctx.set(nest.advance, 1)
            await ctx.tick()
            ctx.set(nest.advance, 0)

    async def bench(ctx):
        await walk(ctx, counts)
        await walk(ctx, [max(1, count - 1) for count in counts])

    simulate(m, bench)


@pytest.mark.parametrize("shifts", [(3,), (0, 4)])
@pytest.mark.parametrize("forms", [(Fixed(5, 2),), (Fixed(6, 2), Fixed(4, 1))])
def test_fixed_requantize_rounds_half_up_and_saturates(shifts, forms):
    """All sums of nine bits, by every shift, to every format; of two sums, one counts."""
    dut = FixedRequantize(width=9, count=2, shifts=shifts, forms=forms)
    choices = list(product(range(len(shifts)), range(len(forms)), range(-256, 256)))

    async def bench(ctx):
        wanted = []
        for n, form, total in [*choices, *[(0, 0, 0)] * dut.latency]:
            if len(shifts) > 1:
                ctx.set(dut.shift, n)
            if len(forms) > 1:
                ctx.set(dut.form, form)
            ctx.set(dut.i[0], total)
            ctx.set(dut.i[1], -1 - total)
            ctx.set(dut.counted, 1)
            rounded = [(2 * x + (1 << shifts[n])) >> shifts[n] + 1 for x in (total, -1 - total)]
            low, high = forms[form].low, forms[form].high
            fit = [min(max(x, low), high) for x in rounded]
            wanted.append((*fit, fit[0] != rounded[0]))
            await ctx.tick()
            if len(wanted) >= dut.latency:
                found = ctx.get(dut.o[0]), ctx.get(dut.o[1]), ctx.get(dut.saturated)
                assert found == wanted[len(wanted) - dut.latency]

    simulate(dut, bench)


def test_pool_takes_maxima():
    dut = Pool(signed(5), 2)

    async def bench(ctx):
        random = Random(3)
        for relu, size in product((0, 1), (1, 2, 9)):
            squares = [[random.randrange(-16, 16) for _ in range(size)] for _ in range(2)]
            for k, numbers in enumerate(zip(*squares, strict=True)):
                if random.random() < 0.5:
                    # What is not valid does not count.
                    ctx.set(dut.valid, 0)
                    ctx.set(dut.i[0], 15)
                    await ctx.tick()
                ctx.set(dut.valid, 1)
                ctx.set(dut.relu, relu)
                ctx.set(dut.first, k == 0)
                for lane, number in zip(dut.i, numbers, strict=True):
                    ctx.set(lane, number)
                await ctx.tick().repeat(dut.latency)
            floor = 0 if relu else -16
            assert [ctx.get(lane) for lane in dut.o] == [max(*x, floor) for x in squares]

    simulate(dut, bench)


def test_read_arbiter_keeps_to_its_table():
    names = ("first", "second", "third")
    dut = ReadArbiter({"row": 4, "page": 2}, names)

    async def bench(ctx):
        for requests in product((0, 1), repeat=3):
            for k, (name, request) in enumerate(zip(names, requests, strict=True)):
                ctx.set(getattr(dut, name), {"request": request, "row": 5 + k, "page": k})
            granted = requests.index(1) if any(requests) else 2
            assert (ctx.get(dut.o.row), ctx.get(dut.o.page)) == (5 + granted, granted)
            assert ctx.get(dut.conflict) == (sum(requests) > 1)
            await ctx.delay(1e-8)

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()
