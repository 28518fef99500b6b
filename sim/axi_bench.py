"""The bench of the matrix-vector product's AXI ports, with the models of cocotbext-axi.

It runs inside the simulator: :func:`seedbed.sim.verilate.play` starts it, and ``SEEDBED_RUN`` names
the file that says which parameters the Verilog has and the seed. Every channel pauses at random.
"""

import os
from collections.abc import Iterator
from json import loads
from pathlib import Path
from random import Random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from seedbed.hw.seedlm_gemv_axi import REGISTERS
from seedbed.sim.cases.seedlm_gemv import Job
from seedbed.spec import SeedlmGemvConfig
from seedbed.spec.seedlm_gemv import GEMV_STATUS

__all__ = ["TESTS", "Bench"]

#: What to run, in this order or any other.
TESTS = ("computes", "refuses", "recovers_from_faults", "recovers_from_clear_and_reset")


class Bench:
    """Models on every port of ``dut``, each with pauses of its own."""

    def __init__(self, dut):
        setup = loads(Path(os.environ["SEEDBED_RUN"]).read_text())
        self.dut, self.seed = dut, setup["seed"]
        self.config = SeedlmGemvConfig(**setup["params"])
        self.rng = np.random.default_rng(self.seed)
        ports = {"reset": dut.aresetn, "reset_active_level": False, "clock": dut.aclk}
        self.control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi_control"), **ports)
        self.vector = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_vector"), **ports)
        self.weights = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_weights"), **ports)
        self.result = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_result"), **ports)
        write, read = self.control.write_if, self.control.read_if
        channels = [write.aw_channel, write.w_channel, write.b_channel]
        channels += [read.ar_channel, read.r_channel, self.vector, self.weights, self.result]
        for k, channel in enumerate(channels):
            channel.set_pause_generator(self._pauses(Random(f"{self.seed} {k}")))
            channel.log.setLevel("WARNING")
        Clock(dut.aclk, 10, unit="ns").start()

    @staticmethod
    def _pauses(random: Random) -> Iterator[bool]:
        while True:
            yield random.random() < 0.5

    async def reset(self) -> None:
        """Reset the core and whatever the models had under way."""
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 3)
        for model in (self.vector, self.weights, self.result):
            model.clear()
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 2)

    async def write(self, name: str, value: int, *, refused: bool = False) -> None:
        """Write a register and check the answer."""
        done = await with_timeout(
            self.control.write(REGISTERS[name], value.to_bytes(4, "little")), 100, "us"
        )
        assert done.resp == (AxiResp.SLVERR if refused else AxiResp.OKAY), f"{name} = {value}"

    async def read(self, name: str) -> int:
        """Return what a register holds."""
        return await with_timeout(self.control.read_dword(REGISTERS[name]), 100, "us")

    def draw(self, *, rows: int, columns: int, plain: bool) -> Job:
        """Return a random job."""
        return Job.random(self.config, self.rng, rows=rows, columns=columns, plain=plain)

    async def start(self, job: Job) -> None:
        """Write a job's shape and start it."""
        await self.write("columns", job.columns)
        await self.write("rows", job.rows)
        await self.write("mode", int(job.plain))
        await self.write("control", 1)

    def send(self, job: Job, *, split: int = 0) -> None:
        """Send a job's vector and rows; the first row in two packets if ``split`` is given."""
        octets = -(-self.config.activation_width // 8)
        lanes = job.vector.reshape(-1).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :octets]
        self.vector.send_nowait(AxiStreamFrame(lanes.tobytes()))
        for row, beats in enumerate(job.weights):
            cut = split if split and row == 0 else len(beats)
            for packet in (beats[:cut], beats[cut:]):
                if len(packet):
                    self.weights.send_nowait(AxiStreamFrame(packet.tobytes()))

    async def packet(self) -> tuple[list[int], list[int]]:
        """Return the sums and the status of every beat of the next packet of results."""
        frame = await with_timeout(self.result.recv(compact=False), 1000, "us")
        octets = len(self.dut.m_axis_result_tdata) // 8
        words = [frame.tdata[k : k + octets] for k in range(0, len(frame.tdata), octets)]
        return [int.from_bytes(w, "little", signed=True) for w in words], frame.tuser[::octets]

    async def status(self) -> tuple[bool, bool, str]:
        """Return busy, done, and how the last job ended."""
        word = await self.read("status")
        return bool(word & 1), bool(word & 2), GEMV_STATUS[word >> 4]

    async def ends_well(self, job: Job) -> None:
        """Take the results of ``job`` and compare them."""
        sums, status = await self.packet()
        assert sums == job.sums.tolist()
        assert status == [0] * job.rows
        assert await self.status() == (False, True, "ok")

    async def ends(self, status: str, sums: list[int]) -> None:
        """Take the results of a job that fails: those of its whole rows, and the last one."""
        assert await self.packet() == ([*sums, 0], [0] * len(sums) + [GEMV_STATUS.index(status)])
        assert await self.status() == (False, True, status)

    async def dropped(self) -> None:
        """Wait until what was sent of a job has been dropped."""
        await with_timeout(self.vector.wait(), 1000, "us")
        await with_timeout(self.weights.wait(), 1000, "us")

    async def works(self) -> None:
        """Run one more job of each sort."""
        for plain in (False, True):
            job = self.draw(rows=2, columns=min(self.config.columns, 11), plain=plain)
            await self.start(job)
            self.send(job)
            await self.ends_well(job)


@cocotb.test()
async def computes(dut):
    """Jobs of both sorts, with data that comes before or behind their start."""
    bench = Bench(dut)
    await bench.reset()
    config = bench.config
    sizes = [1, config.block, config.lanes, config.lanes + 1, 3 * config.lanes - 1]
    for k, columns in enumerate(c for c in sizes if c <= config.columns):
        for plain in (False, True):
            job = bench.draw(rows=1 + 3 * k, columns=columns, plain=plain)
            if k % 2:
                bench.send(job)
            await bench.start(job)
            if not k % 2:
                assert await bench.status() == (True, False, "ok")
                bench.send(job)
            await bench.ends_well(job)
            assert await bench.read("columns") == columns
            assert await bench.read("rows") == job.rows
            assert await bench.read("mode") == plain


@cocotb.test()
async def refuses(dut):
    """What no register holds is answered with an error and changes nothing."""
    bench = Bench(dut)
    await bench.reset()
    assert await bench.status() == (False, False, "ok")
    await bench.write("columns", 5)
    await bench.write("columns", 1 << len(bin(bench.config.columns)) - 2, refused=True)
    await bench.write("mode", 2, refused=True)
    await bench.write("status", 0, refused=True)
    assert await bench.read("columns") == 5
    for done in (await bench.control.read(0x14, 4), await bench.control.read(0x00, 4)):
        assert done.resp == AxiResp.SLVERR
    assert (await bench.control.write(0x1C, bytes(4))).resp == AxiResp.SLVERR
    # Bytes that are not written stay.
    await bench.write("rows", 0x12)
    await bench.control.write(REGISTERS["columns"] + 1, b"\0")
    assert await bench.read("columns") == 5
    job = bench.draw(rows=2, columns=5, plain=False)
    await bench.start(job)
    await bench.write("control", 1, refused=True)
    bench.send(job)
    await bench.ends_well(job)


@cocotb.test()
async def recovers_from_faults(dut):
    """A packet of the wrong length ends the job, and the rest of it is dropped."""
    bench = Bench(dut)
    await bench.reset()
    for columns, rows in ((0, 1), (1, 0)):
        await bench.write("columns", columns)
        await bench.write("rows", rows)
        await bench.write("control", 1)
        await bench.ends("shape", [])
    for clears in (True, False):
        job = bench.draw(rows=3, columns=3 * bench.config.lanes, plain=False)
        await bench.start(job)
        bench.send(job, split=1)
        await bench.ends("row", [])
        await bench.dropped()
        if clears:
            await bench.write("control", 2)
        await bench.works()
        await bench.start(job)
        bench.vector.send_nowait(AxiStreamFrame(bytes(len(dut.s_axis_vector_tdata) // 8)))
        await bench.ends("vector", [])
        if clears:
            await bench.write("control", 2)
        await bench.works()


@cocotb.test()
async def recovers_from_clear_and_reset(dut):
    """A job whose data does not come can be cut short."""
    bench = Bench(dut)
    await bench.reset()
    for clears in (True, False, True):
        job = bench.draw(rows=2, columns=2 * bench.config.lanes, plain=False)
        await bench.start(job)
        part = bench.draw(rows=1, columns=2 * bench.config.lanes, plain=False)
        bench.send(part)
        await bench.dropped()
        assert (await bench.status())[:2] == (True, False)
        if clears:
            await bench.write("control", 2)
            await bench.ends("cleared", part.sums.tolist())
        else:
            await bench.reset()
        await bench.works()
