"""Testbench of the AXI ports of the engine of programs, see :mod:`seedbed.sim.axi.axi_bench`.

Stimulus and expected response are the phases of :mod:`seedbed.sim.cases.stream_engine`.
"""

import cocotb
from cocotb.triggers import ClockCycles

from seedbed.golden.engine_parameters import image_bytes
from seedbed.hw.memory.memory_port import command_layout
from seedbed.hw.stream.stream_layouts import TOKEN_BITS, job_layout, status_layout
from seedbed.sim.axi.axi_bench import fields
from seedbed.sim.axi.program_bench import BASE, BYTES, ProgramBench
from seedbed.sim.case import Phase
from seedbed.sim.cases.stream_engine import job, status, token_payloads
from seedbed.sim.cases.stream_programs import PROGRAMS
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import RECORD_BITS

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("runs_programs", "tunes", "refuses", "answers_faults", "recovers_from_reset")


class Bench(ProgramBench):
    """Runs phases of the engine."""

    def __init__(self, dut):
        super().__init__(dut, StreamEngineConfig, "stream_engine", job_layout)

    async def check(self, phase: Phase, *, cut_short: bool = False) -> None:
        """Receive the packet that ends a command, and compare it, and the status.

        With ``cut_short``, the packet has as many beats of the result as it has.
        """
        [end] = fields(status_layout(self.config), phase.outputs["o_status"])
        await self.check_results(phase, end["status"], cut_short=cut_short)
        await self.check_done(end["status"])
        assert self.results.empty()

    def ended(self, kind: str, name: str, inputs: Phase) -> Phase:
        """Return a phase with the inputs of another one, which ends with a status."""
        return Phase(inputs=inputs.inputs, outputs={"o_status": [status(self.config, kind, name)]})

    async def run(self, *phases: Phase) -> None:
        """Run phases, and compare all outputs."""
        for phase in phases:
            await self.start(phase)
            await self.check(phase)


@cocotb.test()
async def runs_programs(dut):
    """A program of every kind, twice: blocks one after another, and one that is too long."""
    bench = Bench(dut)
    for kind in [*PROGRAMS, *PROGRAMS]:
        blocks = await bench.begin(kind)
        assert await bench.read("status") == 0
        await bench.run(blocks.load())
        await bench.run(blocks.run(bench.draw(3), start=True), blocks.run(bench.draw(2)))
        await bench.run(blocks.run(bench.draw(3)))
        await bench.run(blocks.run(bench.draw(1), start=True))


@cocotb.test()
async def tunes(dut):
    """Kept weights are tuned there and back, with a block after each command; errors; a reset."""
    bench = Bench(dut)
    if not bench.config.tune:
        await bench.begin()
        await bench.write("kind", 2, refused=True)
        return
    for kind in PROGRAMS:
        blocks = await bench.begin(kind)
        (first, end), size = blocks.image.tuned, bench.config.beat_bits // 8
        image = image_bytes(bench.config, blocks.image.beats)

        def changed(*limits, delta, blocks=blocks):
            return blocks.tune(*limits, seed=0x5EED, delta=delta)

        async def check_memory(wanted, image=image):
            assert bench.memory.read(BASE, len(image)) == bytes(wanted[: len(image)])

        await bench.run(changed(first, end, delta=5))
        load, run = blocks.load(), blocks.run(bench.draw(3), start=True)
        await bench.run(load, run)
        for delta in (9, -18, 9):
            await bench.run(changed(first, end, delta=delta), blocks.run(bench.draw(3), start=True))
            await check_memory(blocks.passes.raw)
        await check_memory(image)
        await bench.run(changed(first - 1, end, delta=1))
        # The last beat is not written, and what has been written stays.
        tune, undo = changed(first, end, delta=3), changed(first, end, delta=-3)
        bench.writes.bad = BASE + (end - 1) * size
        await bench.run(bench.ended("tune", "memory", tune))
        bench.writes.bad = None
        bench.memory.write(BASE, image)
        await bench.run(load, tune, undo, run)
        await bench.start(tune)
        await ClockCycles(dut.aclk, 60)
        await bench.reset()
        bench.memory.write(BASE, image)
        await bench.write("base", BASE)
        await bench.run(bench.ended("tune", "missing", tune), load, tune, undo, run)
        await check_memory(image)


@cocotb.test()
async def refuses(dut):
    """What no register holds, what is read only, and everything while a command runs."""
    bench = Bench(dut)
    blocks = await bench.begin()
    await bench.check_held()
    await bench.write("control", 2, refused=True)
    # No program: the tokens of the block are taken.
    tokens = token_payloads(bench.config, [1, 2])
    lost = Phase(inputs={"i": [job(bench.config, "run")], "i_tokens": tokens})
    await bench.run(bench.ended("run", "missing", lost))
    load, run = blocks.load(), blocks.run(bench.draw(2), start=True)
    await bench.run(load)
    # A run waits for its tokens.
    await bench.start(Phase(inputs={"i": run.inputs["i"]}))
    assert await bench.read("status") & 3 == 1
    for name in bench.registers:
        await bench.write(name, 1, refused=True)
    # Its token has a number that the core would cut off.
    unknown = (1 << TOKEN_BITS) - (bench.config.classes > 0)
    bench.send_beats(bench.tokens, [(unknown.to_bytes(BYTES, "little"), 0, 1)])
    await bench.check(bench.ended("run", "tokens", run))
    await bench.run(run)


@cocotb.test()
async def answers_faults(dut):
    """A damaged program, errors of the memory while loading and running; good commands after."""
    bench = Bench(dut)
    blocks = await bench.begin()
    size = bench.config.beat_bits // 8
    load, run = blocks.load(), blocks.run(bench.draw(3), start=True)
    more = blocks.run(bench.draw(2))
    old = bench.memory.read(BASE + 3 * size, 1)
    bench.memory.write(BASE + 3 * size, bytes([old[0] ^ 4]))
    await bench.run(bench.ended("load", "damaged", load), bench.ended("run", "missing", run))
    bench.memory.write(BASE + 3 * size, old)
    bench.reads.bad = BASE + 2 * size
    await bench.run(bench.ended("load", "memory", load), bench.ended("run", "missing", run))
    bench.reads.bad = None
    await bench.run(load)
    bursts = fields(command_layout(bench.config.address_bits), run.outputs["o_command"])
    for at in (0, len(bursts) // 2, -1):
        bench.reads.bad = BASE + bursts[at]["address"] * size
        await bench.start(run)
        await bench.check(bench.ended("run", "memory", run), cut_short=True)
        bench.reads.bad = None
        await bench.run(run, more)
    # A burst of a beat cannot be shorter.
    for extra in (1,) if bench.config.beat_bits >= RECORD_BITS else (-1, 1):
        bench.reads.extra = extra
        await bench.run(bench.ended("load", "memory", load), load)
        bench.reads.extra = 1
        await bench.start(run)
        await bench.check(bench.ended("run", "memory", run), cut_short=True)
        await bench.run(run)


@cocotb.test()
async def recovers_from_reset(dut):
    """A reset in a load or a block; the core then has no program."""
    bench = Bench(dut)
    for cycles in (60, 700, 1500, 4000):
        blocks = await bench.begin()
        load, run = blocks.load(), blocks.run(bench.draw(3), start=True)
        await bench.start(load)
        if cycles > 60:
            await bench.check(load)
            await bench.start(run)
        await ClockCycles(dut.aclk, cycles)
        await bench.reset()
        assert await bench.read("status") == 0
        assert await bench.read("base") == 0
        await bench.write("base", BASE)
        await bench.run(bench.ended("run", "missing", run), load, run)
