"""Testbench of the zeroth-order trainer's AXI ports, see :mod:`seedbed.sim.axi.axi_bench`.

Stimulus and expected response are the phases of :mod:`seedbed.sim.cases.zo_trainer`.
"""

from random import Random

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from seedbed.golden.zo_trainer import ZoTrainer
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.zeroth_order.zo_control import job_layout, status_layout
from seedbed.hw.zeroth_order.zo_schedule import entry_layout
from seedbed.hw.zeroth_order.zo_steps import class_layout, log_layout, phase_layout
from seedbed.sim.axi.axi_bench import AxiBench, fields
from seedbed.sim.case import Phase
from seedbed.sim.cases import zo_trainer
from seedbed.sim.cases.zo_trainer import (
    classified,
    drawn,
    job,
    read_out,
    sample_payloads,
    status,
    word_payloads,
)
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS, ZoTrainerConfig

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("trains_and_classifies", "refuses", "answers_faults", "recovers_from_reset")


class Bench(AxiBench):
    """Runs phases through the registers and streams."""

    def __init__(self, dut):
        super().__init__(dut, ZoTrainerConfig, registers=AXI_REGISTERS["zo_trainer"])
        self.parameters, self.samples = self.source("parameters"), self.source("samples")
        self.results, self.log = self.sink("results"), self.sink("log")
        self.weights = self.sink("parameters")

    def case(self) -> list[Phase]:
        """Return the phases of a new case, which begins with parameters."""
        return zo_trainer.case(self.config, Random(int(self.rng.integers(1 << 32)))).phases

    async def load(self, words: list[int]) -> None:
        """Send a packet of parameters."""
        beats = fields(words_layout(self.config.engine), words)
        self.send_beats(self.parameters, [(_octets(*b["word"]), 0, b["last"]) for b in beats])
        await self.sent(self.parameters)

    async def write_schedule(self, entries: list[int]) -> None:
        """Write a schedule, an entry after the other."""
        for entry in fields(entry_layout(self.config), entries):
            await self.write("schedule", self.entry(**entry))

    def entry(self, *, epoch: int, phase, last: int) -> int:
        """Return an entry of the schedule as its register has it."""
        word = epoch | last << 31
        for k, name in enumerate(phase_layout(self.config).members):
            word |= phase[name] << 16 + 4 * k
        return word

    async def start(self, command: int) -> None:
        """Write a command to the registers and start it."""
        [values] = fields(job_layout(self.config), [command])
        for name, value in values.items():
            await self.write(name, value % (1 << 32))
        await self.write("control", 1)

    def send_samples(self, payloads: list[int]) -> None:
        """Send packets of samples."""
        beats = fields(sample_layout(self.config), payloads)
        self.send_beats(self.samples, [(bytes(b["pixels"]), b["label"], b["last"]) for b in beats])

    async def run(self, phases: list[Phase]) -> None:
        """Run phases, and compare all outputs."""
        for phase in phases:
            if "i_parameters" in phase.inputs:
                await self.load(phase.inputs["i_parameters"])
            if "i_schedule" in phase.inputs:
                await self.write_schedule(phase.inputs["i_schedule"])
            if "i" in phase.inputs:
                await self.start(phase.inputs["i"][0])
                self.send_samples(phase.inputs.get("i_samples", []))
                await self.check(phase.outputs)
                await self.sent(self.samples)

    async def check(self, outputs: dict[str, list[int]]) -> None:
        """Receive what a command gives, and compare it."""
        config = self.config
        [end] = fields(status_layout(), outputs["o_status"])
        if "o_parameters" in outputs:
            words = fields(words_layout(config.engine), outputs["o_parameters"])
            frame = await self.receive(self.weights)
            assert bytes(frame.tdata) == b"".join(_octets(*b["word"]) for b in words)
        if end["kind"] == ZO_TRAINER_KINDS.index("train"):
            names = list(phase_layout(config).members)
            found = b"".join(
                b["seed"].to_bytes(4, "little")
                + _octets(b["sign"], *(b["phase"][n] for n in names), b.get("level", 0))[:4]
                for b in fields(log_layout(config), outputs.get("o_log", []))
            )
            frame = await self.receive(self.log)
            assert bytes(frame.tdata) == found + bytes(8)
        classes = fields(class_layout(config), outputs.get("o", []))
        frame = await self.receive(self.results)
        beats = [bytes((b["best"], b["error"], 0, 0)) for b in classes]
        assert bytes(frame.tdata) == b"".join([*beats, bytes((0, 0, end["status"], 0))])
        await self.check_done(end["status"])
        assert await self.read("steps") == end["steps"]
        assert self.results.empty()
        assert self.log.empty()
        assert self.weights.empty()

    async def fail(self, kind: str, name: str, sent: tuple[int, ...] = (), **values) -> None:
        """Run a command that ends with a status, and no result."""
        self.send_samples(list(sent))
        await self.start(job(self.config, kind, **values))
        await self.check({"o_status": [status(kind, name)]})

    def good(self, model: ZoTrainer) -> list[Phase]:
        """Return two commands that give what the model gives."""
        return [classified(model, self.rng, 2), read_out(model)]


def _octets(*numbers: int) -> bytes:
    return b"".join(int(n).to_bytes(1, "little", signed=n < 0) for n in numbers)


@cocotb.test()
async def trains_and_classifies(dut):
    """Commands of every kind, twice, with the log, and the steps."""
    bench = Bench(dut)
    await bench.reset()
    assert await bench.read("status") == 0
    for _ in range(2):
        await bench.run(bench.case())


@cocotb.test()
async def refuses(dut):
    """What no register holds, what is read only, and everything while a command runs."""
    bench = Bench(dut)
    await bench.reset()
    for name, field in job_layout(bench.config):
        shape = field.shape
        signed = getattr(shape, "signed", False)
        width = field.width - signed
        for value in (0, (1 << width) - 1, *([-1 << width, -1] if signed else [])):
            await bench.write(name, value % (1 << 32))
            assert await bench.read(name) == value % (1 << 32)
        before = await bench.read(name)
        wrong = [1 << width, 1 << 31] if width < 31 else []
        for value in (*wrong, *([(-1 << width) - 1] if signed else [])):
            await bench.write(name, value % (1 << 32), refused=True)
        assert await bench.read(name) == before
    # Bytes without a strobe are unchanged.
    await bench.write("samples", 0x01020304)
    await bench.control.write(bench.registers["samples"] + 1, b"\7")
    assert await bench.read("samples") == 0x01020704
    for name in ("status", "steps"):
        await bench.write(name, 0, refused=True)
    await bench.write("control", 2, refused=True)
    outside = 4 * len(bench.registers)
    for address in (bench.registers["control"], bench.registers["schedule"], outside):
        assert (await bench.control.read(address, 4)).resp == AxiResp.SLVERR
    done = await bench.control.write(outside, bytes(4))
    assert done.resp == AxiResp.SLVERR

    load, _, schedule, train = bench.case()[:4]
    await bench.run([load, schedule])
    # The schedule is as it was after entries that the register does not hold, and a part of one.
    for at in (19, *range(16 + 4 * len(phase_layout(bench.config).members), 31)):
        await bench.write("schedule", 1 << at | 1 << 31, refused=True)
    done = await bench.control.write(bench.registers["schedule"] + 3, b"\x80")
    assert done.resp == AxiResp.SLVERR
    await bench.start(train.inputs["i"][0])
    assert await bench.read("status") & 3 == 1
    for name in bench.registers:
        await bench.write(name, 1, refused=True)
    bench.send_samples(train.inputs["i_samples"])
    await bench.check(train.outputs)


@cocotb.test()
async def answers_faults(dut):
    """Wrong commands, images, packets and schedules; good commands after them."""
    bench = Bench(dut)
    await bench.reset()
    config, rng = bench.config, bench.rng
    model = drawn(config, rng)
    one = {"samples": 1, "epochs": 1, "batch": 1, "exponent": model.exponent}
    await bench.fail("infer", "parameters", **one)
    words = word_payloads(config, model.words())
    for wrong in ([*words[:-2], words[-1]], [words[0], *words]):
        await bench.load(wrong)
        await bench.fail("read", "parameters")
    await bench.load(words)
    await bench.fail("train", "schedule", **one)
    layout = entry_layout(config)
    phase = dict.fromkeys(phase_layout(config).members, 1)
    for entries in ([(1, phase)], [(0, phase), (0, phase)], [(0, dict.fromkeys(phase, 0))]):
        written = [{"epoch": epoch, "phase": p, "last": 0} for epoch, p in entries]
        written[-1]["last"] = 1
        await bench.write_schedule([layout.const(entry).as_bits() for entry in written])
        await bench.fail("train", "schedule", **one)
    # A schedule that is broken off is ended by an entry with last.
    for last in (0, 0, 1):
        await bench.write("schedule", bench.entry(epoch=0, phase=phase, last=last))
    await bench.fail("infer", "command", **one | {"samples": 0})
    # A kind that is none.
    [values] = fields(job_layout(config), [job(config, "read")])
    no_kind = job_layout(config).const(values | {"kind": len(ZO_TRAINER_KINDS)}).as_bits()
    await bench.start(no_kind)
    codes = {"kind": len(ZO_TRAINER_KINDS), "status": ZO_TRAINER_STATUS.index("command")}
    await bench.check({"o_status": [status_layout().const(codes).as_bits()]})
    await bench.run(bench.good(model))
    image = rng.integers(0, 256, config.layers[0].inputs)
    for beats in (config.image_beats - 1, config.image_beats + 2):
        sent = [n for b in (beats, 0) for n in sample_payloads(config, image, 0, rng, b)]
        await bench.fail("infer", "sample", tuple(sent), **one)
        await bench.run(bench.good(model))
    await bench.run(bench.case())


@cocotb.test()
async def recovers_from_reset(dut):
    """A reset in a training, in different batches."""
    bench = Bench(dut)
    for cycles in (40, 700, 1500):
        await bench.reset()
        load, _, schedule, train = bench.case()[:4]
        await bench.run([load, schedule])
        await bench.start(train.inputs["i"][0])
        bench.send_samples(train.inputs["i_samples"])
        await ClockCycles(dut.aclk, cycles)
        await bench.reset()
        assert await bench.read("status") == 0
        assert await bench.read("steps") == 0
        await bench.run(bench.case())
