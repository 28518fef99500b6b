"""Matrices in the memory's model: stored, read in bursts, and stopped."""

from random import Random

import pytest
from amaranth.sim import Simulator

from seedbed.boards.matrix_store import BURST, MatrixStore
from seedbed.sim.memory import Memory
from seedbed.spec import SdramConfig

CELLS = {address: address * 37 + 5 for address in range(900)}


def simulate(testbench):
    """Run a testbench of a context and a store, in a memory with random latencies."""
    store = MatrixStore(SdramConfig(beat_bits=64))
    memory = Memory(store, page=1 << 22, random=Random(1))
    memory.cells |= CELLS

    async def run(ctx):
        await testbench(ctx, store)

    simulator = Simulator(store)
    simulator.add_clock(1e-8)
    simulator.add_testbench(memory.run, background=True)
    simulator.add_testbench(run)
    simulator.run()
    return memory


async def read(ctx, store, address, rows, row_beats):
    """Read a matrix; return its beats and their ``last``."""
    fields = {"address": address, "beats": rows * row_beats, "row_beats": row_beats}
    ctx.set(store.i.payload, fields)
    ctx.set(store.i.valid, 1)
    await ctx.tick().until(store.i.ready)
    ctx.set(store.i.valid, 0)
    random, found = Random(2), []
    while len(found) < rows * row_beats:
        ctx.set(store.o.ready, random.random() < 0.8)
        *_, valid, ready, out = await ctx.tick().sample(
            store.o.valid, store.o.ready, store.o.payload
        )
        if valid and ready:
            found.append((out.data, out.last))
    ctx.set(store.o.ready, 0)
    return found


def rows_of(address, rows, row_beats):
    return [(CELLS[address + k], k % row_beats == row_beats - 1) for k in range(rows * row_beats)]


async def put(ctx, store, beats, tag, *, whole=True):
    """Store a packet, or without ``whole`` its first beats."""
    for k, value in enumerate(beats):
        last = whole and k == len(beats) - 1
        ctx.set(store.i_store.payload, {"data": value, "tag": tag, "last": last})
        ctx.set(store.i_store.valid, 1)
        await ctx.tick().until(store.i_store.ready)
        ctx.set(store.i_store.valid, 0)


def test_matrices_are_read_row_by_row():
    async def run(ctx, store):
        for shape in ((0, 3, 1), (17, 30, BURST // 10), (100, 1, BURST + 1), (1, 2, BURST)):
            assert await read(ctx, store, *shape) == rows_of(*shape)

    simulate(run)


def test_packets_are_stored_and_one_that_is_stopped_is_ended():
    async def run(ctx, store):
        await put(ctx, store, [1, 2, 3], 1000)
        await put(ctx, store, [4, 5], 2000, whole=False)
        ctx.set(store.stop, 1)
        while ctx.get(store.busy):
            await ctx.tick()
        await ctx.tick()
        ctx.set(store.stop, 0)
        await put(ctx, store, [6, 7], 3000)
        await put(ctx, store, [8], 4000)
        while ctx.get(store.busy):
            await ctx.tick()

    cells = simulate(run).cells
    found = {address: value for address, value in cells.items() if address not in CELLS}
    assert found == {
        1000: 1, 1001: 2, 1002: 3, 2000: 4, 2001: 5, 3000: 6, 3001: 7, 4000: 8,
    }  # fmt: skip


@pytest.mark.parametrize("cycles", [0, 1, 2, 9, 30, 77, 400])
def test_a_read_that_is_stopped_leaves_nothing_to_the_next(cycles):
    """Before, between and after the commands of its three bursts."""

    async def run(ctx, store):
        ctx.set(store.i.payload, {"address": 3, "beats": 650, "row_beats": 13})
        ctx.set(store.i.valid, 1)
        await ctx.tick().until(store.i.ready)
        ctx.set(store.i.valid, 0)
        ctx.set(store.o.ready, 1)
        for _ in range(cycles):
            await ctx.tick()
        ctx.set(store.stop, 1)
        while ctx.get(store.busy):
            assert not ctx.get(store.o.valid)
            await ctx.tick()
        ctx.set(store.stop, 0)
        assert await read(ctx, store, 200, 2, 20) == rows_of(200, 2, 20)

    simulate(run)
