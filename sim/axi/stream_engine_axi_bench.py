"""Testbench of the AXI ports of the engine of programs, see :mod:`seedbed.sim.axi.axi_bench`.

Stimulus and expected response are the phases of :mod:`seedbed.sim.cases.stream_engine`.
"""

import cocotb
import numpy as np
from amaranth.hdl import Shape
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from seedbed.golden.engine_image import engine_image
from seedbed.golden.engine_parameters import image_bytes
from seedbed.hw.axi.program_axi import ELEMENT_BITS
from seedbed.hw.memory.memory_port import command_layout
from seedbed.hw.stream.stream_layouts import (
    TOKEN_BITS,
    input_layout,
    job_layout,
    result_layout,
    status_layout,
    token_layout,
)
from seedbed.sim.axi.axi_bench import AxiBench, fields
from seedbed.sim.case import Phase
from seedbed.sim.cases.stream_engine import (
    Blocks,
    drawn,
    input_payloads,
    job,
    status,
    token_payloads,
)
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS
from seedbed.spec import StreamEngineConfig
from seedbed.spec.axi_registers import AXI_REGISTERS, held
from seedbed.spec.engine_records import RECORD_BITS
from seedbed.spec.registers import addresses
from seedbed.spec.stream_engine import STREAM_ENGINE_KINDS

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("runs_programs", "tunes", "refuses", "answers_faults", "recovers_from_reset")
BASE = 0x8765_4000
BYTES = ELEMENT_BITS // 8


class Bench(AxiBench):
    """Runs phases through the registers and streams, with a memory at ``BASE``."""

    def __init__(self, dut):
        super().__init__(
            dut, StreamEngineConfig, registers=AXI_REGISTERS["stream_engine"], memory=True
        )
        self.registers = addresses(held("stream_engine", self.config), 4)
        self.tokens, self.results = self.source("tokens"), self.sink("results")
        self.vectors = self.source("vectors") if self.config.inputs else None

    async def begin(self, kind: str = "decoder") -> Blocks:
        """Reset the core; return the commands of a new program, which is in memory."""
        await self.reset()
        await self.write("base", BASE)
        config = self.config
        engine = drawn(config, kind, self.rng)
        image = engine_image(config, engine.program, engine.parameters, block=3, context=6)
        self.memory.write(BASE, image_bytes(config, image.beats))
        return Blocks(config, image, engine)

    def draw(self, count: int) -> np.ndarray:
        """Return random tokens."""
        return self.rng.integers(0, WORDS, count)

    async def start(self, phase: Phase) -> None:
        """Write the command of a phase to the registers, start it, and send its tokens."""
        [values] = fields(job_layout(self.config), phase.inputs["i"])
        for name, value in values.items():
            await self.write(name, value & 0xFFFF_FFFF)
        await self.write("control", 1)
        tokens = fields(token_layout(self.config), phase.inputs.get("i_tokens", []))
        self.send_beats(
            self.tokens,
            [
                ((t["token"] | t.get("label", 0) << TOKEN_BITS).to_bytes(BYTES, "little"), 0, last)
                for t in tokens
                for last in [t["last"]]
            ],
        )
        if self.vectors and values["kind"] == STREAM_ENGINE_KINDS.index("run"):
            self._send_vectors(phase)

    def _send_vectors(self, phase: Phase) -> None:
        """Send the vectors of a block: a packet of one beat, if the phase has none."""
        config = self.config
        none = input_payloads(config, np.zeros((1, config.lanes), np.int64))
        size = input_layout(config)["values"].width // 8
        beats = [
            ((beat & (1 << 8 * size) - 1).to_bytes(size, "little"), 0, beat >> 8 * size)
            for beat in phase.inputs.get("i_vectors", none)
        ]
        self.send_beats(self.vectors, beats)

    async def check(self, phase: Phase, *, cut_short: bool = False) -> None:
        """Receive the packet that ends a command, and compare it, and the status.

        With ``cut_short``, the packet has as many beats of the result as it has.
        """
        [end] = fields(status_layout(self.config), phase.outputs["o_status"])
        lanes = self.config.lanes
        beats = fields(result_layout(self.config), phase.outputs.get("o", []))
        elements = [int(each) for beat in beats for each in beat["values"]]
        elements += [end["status"], *[0] * (lanes - 1)]
        frame = await self.receive(self.results)
        found = np.frombuffer(bytes(frame.tdata), "<i4").tolist()
        assert (found[-lanes:] if cut_short else found) == (
            elements[-lanes:] if cut_short else elements
        )
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
    for name, field in job_layout(bench.config):
        # A signed register holds words that are sign-extended.
        signed = Shape.cast(field.shape).signed
        most = (1 << field.width - signed) - 1
        for held_word in (most, most ^ 0xFFFF_FFFF) if signed else (most,):
            await bench.write(name, held_word)
            for wrong in (most + 1, 1 << 31):
                await bench.write(name, wrong, refused=True)
            assert await bench.read(name) == held_word
    await bench.write("base", BASE + 64, refused=True)
    assert await bench.read("base") == BASE
    await bench.write("status", 0, refused=True)
    await bench.write("control", 2, refused=True)
    assert (await bench.control.read(bench.registers["control"], 4)).resp == AxiResp.SLVERR
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
