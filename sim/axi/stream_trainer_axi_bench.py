"""Testbench of the AXI ports of the trainer of programs, see :mod:`seedbed.sim.axi.axi_bench`.

Stimulus and expected response are the phases of :mod:`seedbed.sim.cases.stream_trainer`.
"""

from dataclasses import replace

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.kept_weights import tuned
from seedbed.golden.stream_trainer import Work
from seedbed.golden.tuning_log import Step, deltas
from seedbed.hw.kept.stream_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.stream.stream_layouts import TOKEN_BITS
from seedbed.sim.axi.axi_bench import fields
from seedbed.sim.axi.program_bench import BASE, BYTES, ProgramBench
from seedbed.sim.case import Phase
from seedbed.sim.cases.stream_programs import PROGRAMS
from seedbed.sim.cases.stream_trainer import Trainings, drawn_samples, job, status
from seedbed.spec import STREAM_TRAINER_KINDS, STREAM_TRAINER_STATUS, StreamTrainerConfig

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("trains", "refuses", "answers_faults", "aborts", "recovers_from_reset")
#: Bits of ``control``.
START, ABORT = 1, 2
WORK = Work(batch=2, epochs=2, seed=77, eps=900, rate=900, decay=400, shift=11, most=3000)


class Bench(ProgramBench):
    """Runs phases of the trainer."""

    def __init__(self, dut):
        super().__init__(dut, StreamTrainerConfig, "stream_trainer", job_layout)
        self.log = self.sink("log")

    async def prepare(self, kind: str = "dense") -> Trainings:
        """Reset the core; return the commands of a new program, which is in memory with samples."""
        blocks = await self.begin(kind)
        sizes = (3, 3, 3) if self.config.inputs else (3, 1, 2)
        samples = drawn_samples(self.config, blocks.engine.program, self.rng, sizes)
        trainings = Trainings(self.config, blocks, samples)
        self.restore(trainings)
        return trainings

    def restore(self, of: Trainings) -> None:
        """Write the memory as it was at first."""
        self.memory.write(BASE, image_bytes(self.config, of.beats))

    def place(self, beat: int) -> int:
        """Return the address of a beat of the core's memory."""
        return BASE + beat * self.config.beat_bits // 8

    def words(self, of: Trainings) -> np.ndarray:
        """Return the kept weights in memory."""
        first, end = map(self.place, of.blocks.image.tuned)
        return np.frombuffer(bytes(self.memory.read(first, end - first)), "<u4")

    def check_memory(self, of: Trainings) -> None:
        """Check that program and kept weights are those of the model."""
        raw = bytes(of.blocks.passes.raw)[: len(of.blocks.image.beats) * self.config.beat_bits // 8]
        assert self.memory.read(BASE, len(raw)) == raw

    async def check(self, phase: Phase, *, cut_short: bool = False) -> None:
        """Receive the packets that end a command, and compare them, the status and the steps."""
        [end] = fields(status_layout(), phase.outputs["o_status"])
        if end["kind"] == STREAM_TRAINER_KINDS.index("train"):
            steps = fields(log_layout(self.config), phase.outputs.get("o_log", []))
            assert await self.logged() == [Step(each["seed"], each["change"]) for each in steps]
        await self.check_results(phase, end["status"], cut_short=cut_short)
        await self.check_done(end["status"])
        assert await self.read("steps") == end["steps"]
        assert self.results.empty()
        assert self.log.empty()

    async def logged(self) -> list[Step]:
        """Receive the packet of a training's steps."""
        frame = await self.receive(self.log)
        *steps, last = np.frombuffer(bytes(frame.tdata), "<i4").reshape(-1, 2).tolist()
        assert last == [0, 0]
        return [Step(seed, change) for seed, change in steps]

    async def ends(self, name: str) -> list[Step]:
        """Receive the packets of a training that ends early; return its steps."""
        code = STREAM_TRAINER_STATUS.index(name)
        steps = await self.logged()
        await self.check_results(Phase(), code, cut_short=True)
        await self.check_done(code)
        return steps

    async def run(self, *phases: Phase) -> None:
        """Run phases, and compare all outputs."""
        for phase in phases:
            await self.start(phase)
            await self.check(phase)

    async def fail(self, command: int, name: str) -> None:
        """Run a training that ends with an error before its first step."""
        await self.start(Phase(inputs={"i": [command]}))
        assert await self.ends(name) == []
        assert await self.read("steps") == 0


@cocotb.test()
async def trains(dut):
    """A program of every kind: commands of the engine, and trainings, between blocks."""
    bench = Bench(dut)
    for kind in ["dense"] if bench.config.inputs else PROGRAMS:
        of = await bench.prepare(kind)
        assert await bench.read("status") == 0
        # Each phase is of the model as the phases before it have trained it.
        for phase in (of.blocks.load(), of.blocks.run(bench.draw(3), start=True)):
            await bench.run(of.given(phase))
        await bench.run(of.train(WORK))
        bench.check_memory(of)
        await bench.run(of.given(of.blocks.run(bench.draw(2), start=True)))
        first, end = of.blocks.image.tuned
        await bench.run(of.given(of.blocks.tune(first, end, seed=0x5EED, delta=-7)))
        await bench.run(of.train(Work(batch=3, seed=5, eps=16384, rate=65535, shift=0, most=16383)))
        bench.check_memory(of)
        await bench.run(of.given(of.blocks.run(bench.draw(3), start=True)))


@cocotb.test()
async def refuses(dut):
    """What no register holds, what is read only, and everything while a command runs."""
    bench = Bench(dut)
    of = await bench.prepare()
    config = bench.config
    await bench.check_held()
    await bench.write("steps", 0, refused=True)
    await bench.write("control", 4, refused=True)
    await bench.fail(of.command(WORK), "missing")
    await bench.run(of.given(of.blocks.load()))
    wrong = [{"batch": config.batch + 1}, {"samples": 0}, {"delta": 0}, {"most": 32767}]
    for values in wrong:
        await bench.fail(of.command(WORK, **values), "command")
    await bench.fail(of.command(WORK, first=0), "damaged")
    bench.check_memory(of)
    # An abort without a training has no effect. It is a command, too.
    await bench.write("control", ABORT)
    await bench.run(
        Phase(inputs={"i": [job(config, "abort")]}, outputs={"o_status": [status("abort")]})
    )
    # A run waits for its tokens, and is not aborted.
    run = of.given(of.blocks.run(bench.draw(2), start=True))
    await bench.start(Phase(inputs={"i": run.inputs["i"]}))
    for name in bench.registers:
        await bench.write(name, START, refused=True)
    await bench.write("control", ABORT)
    await ClockCycles(dut.aclk, 50)
    assert await bench.read("status") & 3 == 1
    unknown = (1 << TOKEN_BITS) - 1
    bench.send_beats(bench.tokens, [(unknown.to_bytes(BYTES, "little"), 0, 1)])
    await bench.check(Phase(inputs={}, outputs={"o_status": [status("run", "tokens")]}))
    await bench.run(run)


@cocotb.test()
async def answers_faults(dut):
    """Errors of the memory while samples and weights are read or written; a training after each."""
    bench = Bench(dut)
    of = await bench.prepare()
    load, good = of.given(of.blocks.load()), of.train(WORK)
    first, end = of.blocks.image.tuned
    before = bench.words(of)
    await bench.run(load)

    async def recovers():
        """The training that would have been run, on the memory as it was at first."""
        bench.reads.bad = bench.writes.bad = None
        bench.restore(of)
        await bench.run(good)
        bench.check_memory(of)
        bench.restore(of)

    for at in (of.first, first):
        bench.reads.bad = bench.place(at)
        await bench.fail(of.command(WORK), "memory")
        # The perturbation is taken back.
        assert (bench.words(of) == before).all()
        await recovers()
    bench.writes.bad = bench.place(end - 1)
    await bench.fail(of.command(WORK), "memory")
    await recovers()
    # A step whose change fails is in the log, but does not count.
    await bench.start(Phase(inputs={"i": good.inputs["i"]}))
    await RisingEdge(dut.m_axis_log_tvalid)
    bench.writes.bad = bench.place(end - 1)
    assert len(await bench.ends("memory")) == 1
    assert await bench.read("steps") == 0
    await recovers()
    for extra in (-1, 1):
        bench.reads.extra = extra
        await bench.fail(of.command(WORK), "memory")
        await recovers()


@cocotb.test()
async def aborts(dut):
    """An abort takes the perturbation back: the kept weights are those of the steps in the log."""
    bench = Bench(dut)
    of = await bench.prepare()
    load, good = of.given(of.blocks.load()), of.train(WORK)
    before = bench.words(of)
    counts = []
    await bench.run(load)
    for cycles in (10, 900, 4000, 9000):
        await bench.start(Phase(inputs={"i": [of.command(replace(WORK, epochs=9))]}))
        await ClockCycles(dut.aclk, cycles)
        await bench.write("control", ABORT)
        steps = await bench.ends("aborted")
        assert await bench.read("steps") == len(steps)
        wanted = before
        for step in steps:
            for delta in deltas(WORK.eps, step.change):
                wanted = tuned(bench.config.engine, wanted, seed=step.seed, delta=delta)
        assert (bench.words(of) == wanted).all()
        counts.append(len(steps))
        bench.restore(of)
    assert counts[0] == 0 < counts[-1]
    await bench.run(good)
    bench.check_memory(of)


@cocotb.test()
async def recovers_from_reset(dut):
    """A reset in a training; the core then has no program."""
    bench = Bench(dut)
    of = await bench.prepare()
    load, good = of.given(of.blocks.load()), of.train(WORK)
    for cycles in (40, 900, 4000):
        await bench.run(load)
        await bench.start(Phase(inputs={"i": good.inputs["i"]}))
        await ClockCycles(dut.aclk, cycles)
        await bench.reset()
        for name in ("status", "steps", "base"):
            assert await bench.read(name) == 0
        bench.restore(of)
        await bench.write("base", BASE)
        await bench.fail(of.command(WORK), "missing")
        await bench.run(load, good)
        bench.check_memory(of)
        bench.restore(of)
