"""A memory's port with registers: four streams that stall at random, and no path through."""

from random import Random

import pytest
from amaranth.sim import Simulator

from seedbed.boards.port_registers import PortRegisters

#: Each stream: its input, its output, and its widest payload.
STREAMS = {
    "command": {"address": 11, "write": 1, "length": 8},
    "write": {"data": 16, "last": 1},
    "response": {"error": 1},
    "read": {"data": 16, "error": 1, "last": 1},
}


@pytest.mark.parametrize("stalls", [0.0, 0.3, 0.8])
def test_each_stream_is_that_of_the_other_side(stalls):
    dut, random = PortRegisters(11, 16), Random(int(10 * stalls))
    sent = {
        name: [
            {field: random.getrandbits(bits) for field, bits in fields.items()} for _ in range(200)
        ]
        for name, fields in STREAMS.items()
    }
    received = {name: [] for name in STREAMS}
    cycles = {}

    def add(name):
        given, taken = getattr(dut, f"i_{name}"), getattr(dut, f"o_{name}")

        async def give(ctx):
            for payload in sent[name]:
                while random.random() < stalls:
                    await ctx.tick()
                ctx.set(given.payload, payload)
                ctx.set(given.valid, 1)
                await ctx.tick().until(given.ready)
                ctx.set(given.valid, 0)

        async def take(ctx):
            count = 0
            while len(received[name]) < len(sent[name]):
                ctx.set(taken.ready, random.random() >= stalls)
                _, _, valid, ready, payload = await ctx.tick().sample(
                    taken.valid, taken.ready, taken.payload
                )
                count += 1
                if valid and ready:
                    received[name].append({field: payload[field] for field in STREAMS[name]})
            cycles[name] = count

        simulator.add_testbench(give)
        simulator.add_testbench(take)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    for name in STREAMS:
        add(name)
    simulator.run()
    assert received == sent
    if not stalls:
        # Each beat takes a cycle, and the first one comes a cycle late.
        assert cycles == dict.fromkeys(STREAMS, len(sent["read"]) + 1)


@pytest.mark.parametrize("name", STREAMS)
def test_no_output_depends_on_an_input_in_the_same_cycle(name):
    dut = PortRegisters(11, 16)
    given, taken = getattr(dut, f"i_{name}"), getattr(dut, f"o_{name}")
    full = {field: (1 << bits) - 1 for field, bits in STREAMS[name].items()}
    seen = []

    async def drive(ctx):
        for valid, ready in ((1, 0), (1, 0), (0, 1), (0, 1)):
            outputs = set()
            for at_once in ((valid, ready), (not valid, not ready), (valid, ready)):
                ctx.set(given.payload, full if at_once[0] else {})
                ctx.set(given.valid, at_once[0])
                ctx.set(taken.ready, at_once[1])
                await ctx.delay(1e-9)
                outputs.add(
                    (ctx.get(given.ready), ctx.get(taken.valid), ctx.get(taken.payload.as_value()))
                )
            assert len(outputs) == 1
            seen.append(outputs.pop()[:2])
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    assert seen == [(1, 0), (1, 1), (0, 1), (1, 1)]
