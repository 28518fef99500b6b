"""Testbench of the fine-tuning core's AXI ports, see :mod:`seedbed.sim.axi.axi_bench`.

A :class:`~seedbed.sim.cases.instantft.Session` has the stimulus and the expected response.
"""

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from seedbed.hw.adapters.instantft import command_layout, result_layout, sample_layout
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.sim.axi.axi_bench import AxiBench, fields
from seedbed.sim.cases.instantft import Fault, Session
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("trains_and_classifies", "refuses", "answers_faults", "recovers_from_reset")
BASE = 0x0003_5000
RATE = 80000


class Bench(AxiBench):
    """Runs the script of a session, with a memory at ``BASE``."""

    def __init__(self, dut):
        super().__init__(dut, InstantFtConfig, registers=AXI_REGISTERS["instantft"], memory=True)
        self.script = Session(config=self.config, rng=self.rng)
        self.parameters, self.samples = self.source("parameters"), self.source("samples")
        self.results, self.adapters = self.sink("results"), self.sink("adapters")

    async def reset(self) -> None:
        """Reset the core; the cache is empty afterwards."""
        self.script.known.clear()
        self.script.memory.entries.clear()
        await super().reset()

    async def begin(self) -> None:
        """Reset the core, and load network and adapters."""
        await self.reset()
        await self.write("base", BASE)
        for trainable in (False, True):
            self.script.load(trainable=trainable)
        await self.plays()

    async def start(self, command: int) -> None:
        """Write a command to the registers and start it."""
        [values] = fields(command_layout(self.config), [command])
        for name, value in values.items():
            await self.write(name, value)
        await self.write("control", 1)

    def send(self, phase) -> None:
        """Send the samples of a phase."""
        self.send_beats(
            self.samples,
            [
                (bytes(b["pixels"]), b["label"] | b["index"] << 16, b["last"])
                for b in fields(sample_layout(self.config), phase.inputs["i_samples"])
            ],
        )

    async def plays(self) -> None:
        """Play all that was asked of the script, and compare all that comes."""
        config, runs = self.config, False
        for phase in self.script.phases():
            beats = fields(packet_layout(config.engine), phase.inputs["i_parameters"])
            self.send_beats(
                self.parameters, [(_word(b["word"]), b["trainable"], b["last"]) for b in beats]
            )
            await self.sent(self.parameters)
            commands = list(phase.inputs["i"])
            results = fields(result_layout(config), phase.outputs["o"])
            read = fields(words_layout(config.engine), phase.outputs["o_parameters"])
            # One may have begun in the phase before, and ends in this one.
            if commands and not runs:
                await self.start(commands.pop(0))
                runs = True
            self.send(phase)
            packet: list[dict] = []
            for beat in results:
                packet.append(beat)
                if beat["last"]:
                    await self.ends(packet)
                    packet, runs = [], bool(commands)
                    if commands:
                        await self.start(commands.pop(0))
            octets = b""
            for beat in read:
                octets += _word(beat["word"])
                if beat["last"]:
                    frame = await self.receive(self.adapters)
                    assert bytes(frame.tdata) == octets
                    octets = b""
        assert self.results.empty()
        assert self.adapters.empty()
        for index, entry in self.script.memory.entries.items():
            size = config.forward_cache.entry_bytes
            assert self.memory.read(BASE + index * size, size) == entry.tobytes()

    async def ends(self, beats: list[dict]) -> None:
        """Take a command's packet of results and compare it, then the status."""
        frame = await self.receive(self.results, compact=False)
        size = len(self.dut.m_axis_results_tdata) // 8
        words = [frame.tdata[k : k + size] for k in range(0, len(frame.tdata), size)]
        losses = [int.from_bytes(word, "little", signed=True) for word in words]
        assert losses == [beat["loss"] for beat in beats]
        users = [b["best"] | b["hit"] << 8 | b["status"] << 9 for b in beats]
        assert frame.tuser[::size] == users
        await self.check_done(beats[-1]["status"])


def _word(word) -> bytes:
    return b"".join(int(part).to_bytes(2, "little", signed=True) for part in word)


@cocotb.test()
async def trains_and_classifies(dut):
    """Jobs of every kind, with what is in memory, and the counters."""
    bench = Bench(dut)
    await bench.begin()
    script = bench.script
    before = script.model.saturations.count
    script.train([[0, 3, 1], [1, 0, 3]], batch=2, rate=RATE)
    saturated = script.model.saturations.count - before
    await bench.plays()
    counted = {"samples": 6, "hits": 3, "misses": 3, "batches": 4, "saturations": saturated}
    for name, value in counted.items():
        assert await bench.read(f"counted_{name}") == value, name
    assert await bench.read("counted_cycles") > 500
    script.order("read")
    script.infer([2, 0])
    script.order("clear")
    script.order("forget")
    script.train([[0]], batch=1, rate=RATE)
    script.order("read")
    await bench.plays()


@cocotb.test()
async def refuses(dut):
    """What no register holds, what is read only, and everything while a command runs."""
    bench = Bench(dut)
    await bench.begin()
    for name, field in command_layout(bench.config):
        await bench.write(name, (1 << field.width) - 1)
        await bench.write(name, 1 << field.width, refused=True)
        assert await bench.read(name) == (1 << field.width) - 1
    await bench.write("base", BASE + 4, refused=True)
    assert await bench.read("base") == BASE
    for register in AXI_REGISTERS["instantft"]:
        if register.access == "read":
            await bench.write(register.name, 0, refused=True)
    answer = await bench.control.read(bench.registers["control"], 4)
    assert answer.resp == AxiResp.SLVERR
    bench.script.train([[0, 1]], batch=2, rate=RATE)
    [phase] = bench.script.phases()
    await bench.start(phase.inputs["i"][0])
    assert await bench.read("status") & 3 == 1
    for name in ("control", "kind", "batch", "base"):
        await bench.write(name, 1 << 12 if name == "base" else 1, refused=True)
    bench.send(phase)
    await bench.ends(fields(result_layout(bench.config), phase.outputs["o"]))
    bench.script.order("read")
    await bench.plays()


@cocotb.test()
async def answers_faults(dut):
    """Wrong images, indices, packets and commands; good jobs after them."""
    bench = Bench(dut)
    await bench.begin()
    script = bench.script
    for fault in (Fault(1, "short"), Fault(0, "long"), Fault(1, "index")):
        script.train([[1, 2]], batch=2, rate=RATE, fault=fault)
        script.train([[0, 1]], batch=2, rate=RATE)
        await bench.plays()
    for trainable in (False, True):
        for more in (-1, 1):
            script.load(trainable=trainable, more=more)
            script.order("read", "parameters")
    script.load(trainable=False)
    script.order("train", "command", samples=1, epochs=1, batch=300)
    script.order("read")
    await bench.plays()
    size = bench.config.forward_cache.entry_bytes
    bench.writes.bad = BASE + 3 * size
    script.train([[0, 3]], batch=2, rate=RATE, fault=Fault(1, "store", 1))
    await bench.plays()
    bench.writes.bad = None
    bench.reads.bad = BASE + size + 16
    script.train([[0, 1]], batch=1, rate=RATE, fault=Fault(1, "fetch"))
    await bench.plays()
    bench.reads.bad = None
    for extra in (-1, 1):
        script.order("forget")
        script.train([[0, 1]], batch=2, rate=RATE)
        await bench.plays()
        bench.reads.extra = extra
        script.train([[1, 0]], batch=1, rate=RATE, fault=Fault(0, "burst", extra))
        await bench.plays()
    script.train([[1, 3]], batch=2, rate=RATE)
    script.order("read")
    await bench.plays()


@cocotb.test()
async def recovers_from_reset(dut):
    """A reset in the first batch: network and adapters are as they were."""
    bench = Bench(dut)
    await bench.begin()
    script = bench.script
    for cycles in (40, 400, 700):
        bench.samples.clear()
        before = list(script.model.lora.a), list(script.model.lora.b)
        script.train([[0, 1, 2, 3]], batch=4, rate=RATE)
        [phase] = script.phases()
        script.model.lora.a, script.model.lora.b = before
        await bench.start(phase.inputs["i"][0])
        bench.send(phase)
        await ClockCycles(dut.aclk, cycles)
        await bench.reset()
        await bench.write("base", BASE)
        script.order("read")
        script.train([[1]], batch=1, rate=RATE)
        script.order("read")
        await bench.plays()
