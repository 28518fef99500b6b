"""Testbench of the AXI ports of the trainer of kept weights, see :mod:`seedbed.sim.axi.axi_bench`.

Stimulus and expected response are the phases of :mod:`seedbed.sim.cases.sparse_trainer`.
"""

from collections.abc import Callable
from functools import partial
from itertools import chain, repeat

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from seedbed.golden.sparse_trainer import LogEntry, SparseTrainer
from seedbed.hw.axi.sparse_trainer_axi import ENTRY_FIELDS, LAYER_BITS, LAYER_FIELDS
from seedbed.hw.kept.layer_table import row_layout
from seedbed.hw.kept.sample_banks import sample_layout
from seedbed.hw.kept.sparse_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.kept.trainer_passes import class_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.axi.axi_bench import AxiBench, fields
from seedbed.sim.case import Phase
from seedbed.sim.cases.sparse_trainer import (
    classified,
    drawn,
    job,
    load,
    read_out,
    row_payloads,
    sample_payloads,
    status,
    training,
)
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS, SPARSE_TRAINER_STATUS

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("trains_and_classifies", "refuses", "answers_faults", "aborts", "recovers_from_reset")
BASE = 0x0003_5000
SIZES = (18, 14, 5)
ABORTED = SPARSE_TRAINER_STATUS.index("aborted")
ONE = {"samples": 1, "epochs": 1, "batch": 1}


class Bench(AxiBench):
    """Runs phases through the registers and streams, with a memory at ``BASE``."""

    def __init__(self, dut):
        super().__init__(
            dut, SparseTrainerConfig, registers=AXI_REGISTERS["sparse_trainer"], memory=True
        )
        self.layers, self.entries = self.source("layers"), self.source("entries")
        self.samples = self.source("samples")
        self.results, self.log = self.sink("results"), self.sink("log")
        self.read_entries = self.sink("entries")

    async def begin(self) -> SparseTrainer:
        """Reset the core; return a new model, whose network is in memory."""
        await self.reset()
        await self.write("base", BASE)
        model = drawn(self.config, self.rng, SIZES)
        size = self.config.beat_bytes
        for address, beat in model.beats().items():
            self.memory.write(BASE + address * size, beat.to_bytes(size, "little"))
        return model

    async def start(self, command: int) -> None:
        """Write a command to the registers and start it."""
        [values] = fields(job_layout(self.config), [command])
        for name, value in values.items():
            await self.write(name, value)
        await self.write("control", 1)

    async def send_layers(self, payloads: list[int]) -> None:
        """Send a table of layers."""
        beats = fields(row_layout(self.config), payloads)
        self.send_beats(
            self.layers,
            [(_word(LAYER_FIELDS, beat, LAYER_BITS), 0, beat["last"]) for beat in beats],
        )
        await self.sent(self.layers)

    def send_entries(self, payloads: list[int]) -> None:
        """Send entries as a packet."""
        beats = fields(entry_layout(self.config.sparse), payloads)
        words = [_word(ENTRY_FIELDS, beat) for beat in beats]
        self.send_beats(self.entries, [(w, 0, k == len(words) - 1) for k, w in enumerate(words)])

    def send_samples(self, payloads: list[int]) -> None:
        """Send packets of samples."""
        size = -(-self.config.activation_width // 8)
        self.send_beats(
            self.samples,
            [
                (
                    b"".join(int(n).to_bytes(size, "little", signed=True) for n in b["lanes"]),
                    b["label"],
                    b["last"],
                )
                for b in fields(sample_layout(self.config), payloads)
            ],
        )

    async def run(self, phases: list[Phase]) -> None:
        """Run phases, and compare all outputs."""
        for phase in phases:
            if "i_layers" in phase.inputs:
                await self.send_layers(phase.inputs["i_layers"])
            if "i" in phase.inputs:
                await self.start(phase.inputs["i"][0])
                self.send_entries(phase.inputs.get("i_entries", []))
                self.send_samples(phase.inputs.get("i_samples", []))
                await self.check(phase.outputs)
                await self.sent(self.samples)

    async def check(self, outputs: dict[str, list[int]]) -> None:
        """Receive what a command gives, and compare it."""
        config = self.config
        [end] = fields(status_layout(), outputs["o_status"])
        layout = entry_layout(config.sparse, last=1)
        octets = b""
        for beat in fields(layout, outputs.get("o_entries", [])):
            octets += _word(ENTRY_FIELDS, beat)
            if beat["last"]:
                frame = await self.receive(self.read_entries)
                assert bytes(frame.tdata) == octets
                octets = b""
        if end["kind"] == SPARSE_TRAINER_KINDS.index("train"):
            steps = fields(log_layout(config), outputs.get("o_log", []))
            found = b"".join(_word({"seed": 32, "gain": 32}, step) for step in steps)
            frame = await self.receive(self.log)
            assert bytes(frame.tdata) == found + bytes(8)
        results = fields(class_layout(config), outputs.get("o", []))
        frame = await self.receive(self.results)
        beats = [_word({"loss": 32, "best": 8, "error": 24}, beat) for beat in results]
        assert bytes(frame.tdata) == b"".join([*beats, bytes((*[0] * 6, end["status"], 0))])
        await self.check_done(end["status"])
        assert await self.read("steps") == end["steps"]
        assert await self.read("saturated") == end["saturated"]
        assert self.results.empty()
        assert self.log.empty()
        assert self.read_entries.empty()

    async def fail(
        self, kind: str, name: str, send: Callable[[], None] = lambda: None, **values: int
    ) -> None:
        """Run a command that ends with a status, and no result; ``send`` sends what it takes."""
        await self.start(job(self.config, kind, **values))
        send()
        await self.check({"o_status": [status(kind, name)]})


def _word(widths: dict[str, int], beat: dict, bits: int = 0) -> bytes:
    """Return the fields of a beat, each in its bits, the first one lowest."""
    word, at = 0, 0
    for name, width in widths.items():
        word |= (int(beat[name]) & (1 << width) - 1) << at
        at += width
    return word.to_bytes((bits or at) // 8, "little")


@cocotb.test()
async def trains_and_classifies(dut):
    """Commands of every kind, twice."""
    bench = Bench(dut)
    for _ in range(2):
        model = await bench.begin()
        assert await bench.read("status") == 0
        rng = bench.rng
        await bench.run(load(model))
        # Each phase is of the model as the phases before it have trained it.
        await bench.run([classified(model, rng, 2)])
        await bench.run([training(model, rng, samples=3, batch=2, epochs=2, rate=2000, decay=700)])
        await bench.run([read_out(model)])
        await bench.run([training(model, rng, samples=1, batch=1, rate=60000, shift=1)])
        await bench.run([read_out(model)])


@cocotb.test()
async def refuses(dut):
    """What no register holds, what is read only, and everything while a command runs."""
    bench = Bench(dut)
    model = await bench.begin()
    for name, field in job_layout(bench.config):
        await bench.write(name, (1 << field.width) - 1)
        assert await bench.read(name) == (1 << field.width) - 1
        for wrong in (1 << field.width, 1 << 31) if field.width < 32 else ():
            await bench.write(name, wrong, refused=True)
        assert await bench.read(name) == (1 << field.width) - 1
    await bench.write("base", BASE + 4, refused=True)
    assert await bench.read("base") == BASE
    for name in ("status", "steps", "saturated"):
        await bench.write(name, 0, refused=True)
    await bench.write("control", 4, refused=True)
    for address in (bench.registers["control"], 4 * len(bench.registers)):
        assert (await bench.control.read(address, 4)).resp == AxiResp.SLVERR
    done = await bench.control.write(4 * len(bench.registers), bytes(4))
    assert done.resp == AxiResp.SLVERR
    # An abort without a command has no effect.
    await bench.write("control", 2)
    await bench.run(load(model))
    train = training(model, bench.rng, samples=2, batch=2)
    await bench.start(train.inputs["i"][0])
    assert await bench.read("status") & 3 == 1
    for name in bench.registers:
        await bench.write(name, 1, refused=True)
    bench.send_samples(train.inputs["i_samples"])
    await bench.check(train.outputs)


@cocotb.test()
async def answers_faults(dut):
    """Wrong tables, entries, samples and memory; good commands after them."""
    bench = Bench(dut)
    model = await bench.begin()
    rng, config = bench.rng, bench.config
    table, entries = load(model)
    await bench.fail("load", "layers")
    rows = row_payloads(config, model.layers)
    # A number of 16 bits that the core would cut off.
    [beat, *_] = fields(row_layout(config), rows)
    bench.send_beats(
        bench.layers, [(_word(LAYER_FIELDS, beat | {"rows": 1 << 15 | 14}, LAYER_BITS), 0, 1)]
    )
    await bench.sent(bench.layers)
    await bench.fail("load", "layers")
    await bench.run([table])
    await bench.fail("infer", "entries", **ONE)
    beats = fields(entry_layout(config.sparse), entries.inputs["i_entries"])
    for wrong in ({"column": 1 << 15}, {"row": 1 << 15}, {"value": 1 << 30}):
        word = [(_word(ENTRY_FIELDS, beats[0] | wrong), 0, 1)]
        await bench.fail("load", "range", partial(bench.send_beats, bench.entries, word))
    await bench.run([entries])
    await bench.fail("train", "command", **ONE | {"samples": 0})
    x = rng.integers(-9, 9, model.layers[0].columns)
    for count in (1, -(-len(x) // config.gemv.group) + 4):
        wrong = sample_payloads(config, x, 0, beats=count)
        await bench.fail("train", "sample", partial(bench.send_samples, wrong), **ONE)
        await bench.sent(bench.samples)
    size = config.beat_bytes
    send = partial(bench.send_samples, sample_payloads(config, x, 0))
    for layer in model.layers:
        bench.reads.bad = BASE + (layer.address + 3) * size
        await bench.fail("train", "memory", send, **ONE)
        bench.reads.bad = None
        await bench.run([training(model, rng, samples=1, batch=1), read_out(model)])
    for extra in (-1, 1):
        bench.reads.extra = extra
        await bench.fail("infer", "memory", send, **ONE)
        await bench.run([classified(model, rng, 1)])
    await bench.run([read_out(model)])


@cocotb.test()
async def aborts(dut):
    """An abort ends a training; the log has the steps that the values have seen."""
    bench = Bench(dut)
    model = await bench.begin()
    await bench.run(load(model))
    values = [model.entries(k)[:, 2].copy() for k in range(len(model.layers))]
    for cycles in (20, 300, 900, 1500):
        train = training(model, bench.rng, samples=6, batch=2, rate=2000)
        model.values = values
        await bench.start(train.inputs["i"][0])
        bench.send_samples(train.inputs["i_samples"])
        await ClockCycles(dut.aclk, cycles)
        await bench.write("control", 2)
        frame = await bench.receive(bench.log)
        words = np.frombuffer(bytes(frame.tdata), "<i4").reshape(-1, 2)[:-1]
        for seed, gain in words.tolist():
            model.replay(LogEntry(seed % (1 << 32), gain))
        await bench.receive(bench.results)
        await bench.check_done(ABORTED)
        assert await bench.read("steps") == len(words)
        await bench.sent(bench.samples)
        await bench.run([read_out(model)])
        values = [model.entries(k)[:, 2].copy() for k in range(len(model.layers))]
    # A command waits for the end of a table, which does not come: an abort drops both.
    rows = fields(row_layout(bench.config), row_payloads(bench.config, model.layers))
    for kind in ("load", "train"):
        bench.send_beats(
            bench.layers, [(_word(LAYER_FIELDS, row, LAYER_BITS), 0, row["last"]) for row in rows]
        )
        bench.layers.set_pause_generator(chain([False], repeat(True)))
        await bench.start(job(bench.config, kind, **ONE))
        await ClockCycles(dut.aclk, 300)
        assert await bench.read("status") & 3 == 1
        await bench.write("control", 2)
        frame = await bench.receive(bench.results)
        assert bytes(frame.tdata) == bytes((*[0] * 6, ABORTED, 0))
        await bench.check_done(ABORTED)
        bench.layers.clear_pause_generator()
        bench.layers.pause = False
        await bench.sent(bench.layers)
        await bench.run([*load(model), read_out(model)])


@cocotb.test()
async def recovers_from_reset(dut):
    """A reset in a training; the table and the entries are loaded again."""
    bench = Bench(dut)
    for cycles in (40, 700, 1500):
        model = await bench.begin()
        await bench.run(load(model))
        train = training(model, bench.rng, samples=3, batch=2)
        await bench.start(train.inputs["i"][0])
        bench.send_samples(train.inputs["i_samples"])
        await ClockCycles(dut.aclk, cycles)
        model = await bench.begin()
        assert await bench.read("status") == 0
        await bench.run([*load(model), training(model, bench.rng, samples=2, batch=1)])
        await bench.run([read_out(model)])
