"""Testbench of the matrix-vector product's AXI ports, see :mod:`seedbed.sim.axi.axi_bench`."""

import cocotb
import numpy as np
from cocotbext.axi import AxiResp, AxiStreamFrame

from seedbed.sim.axi.axi_bench import AxiBench
from seedbed.sim.cases.gemv import Job
from seedbed.spec import GemvConfig
from seedbed.spec.axi_registers import AXI_REGISTERS, STATUS_BIT
from seedbed.spec.gemv import GEMV_STATUS

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("computes", "refuses", "recovers_from_errors", "recovers_from_clear_and_reset")


class Bench(AxiBench):
    """Runs jobs through the registers and streams."""

    def __init__(self, dut):
        super().__init__(dut, GemvConfig, registers=AXI_REGISTERS["gemv"])
        self.sources = {name: self.source(name) for name in ("vector", "weights")}
        self.vector, self.weights = self.sources.values()
        if self.config.trellis:
            self.sources["scales"] = self.source("scales")
        self.result = self.sink("result")

    def draw(self, *, rows: int, columns: int, plain: bool) -> Job:
        """Return a random job."""
        return Job.random(self.config, self.rng, rows=rows, columns=columns, plain=plain)

    async def start(self, job: Job) -> None:
        """Write a job's shape to the registers, and start it."""
        await self.write("columns", job.columns)
        await self.write("rows", job.rows)
        if self.config.decode == "seedlm":
            await self.write("mode", int(job.plain))
        await self.write("control", 1)

    def send(self, job: Job, *, split: int = 0) -> None:
        """Send a job's vector and rows; with ``split``, the first row in two packets."""
        octets = -(-self.config.activation_width // 8)
        lanes = job.vector.reshape(-1).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :octets]
        self.vector.send_nowait(AxiStreamFrame(lanes.tobytes()))
        for row, beats in enumerate(job.weights):
            cut = split if split and row == 0 else len(beats)
            for packet in (beats[:cut], beats[cut:]):
                if len(packet):
                    self.weights.send_nowait(AxiStreamFrame(packet.tobytes()))

        if job.scales:
            octets = [n % 256 for scale in job.scales for n in scale.values()]
            self.sources["scales"].send_nowait(AxiStreamFrame(bytes(octets)))

    async def packet(self) -> tuple[list[int], list[int]]:
        """Return the sums and the status of every beat of the next packet of results."""
        frame = await self.receive(self.result, compact=False)
        octets = len(self.dut.m_axis_result_tdata) // 8
        words = [frame.tdata[k : k + octets] for k in range(0, len(frame.tdata), octets)]
        return [int.from_bytes(w, "little", signed=True) for w in words], frame.tuser[::octets]

    async def status(self) -> tuple[bool, bool, str]:
        """Return busy, done, and the last job's status."""
        word = await self.read("status")
        return bool(word & 1), bool(word & 2), GEMV_STATUS[word >> STATUS_BIT]

    async def check_results(self, job: Job) -> None:
        """Receive the results of ``job`` and compare them."""
        sums, status = await self.packet()
        assert sums == job.sums.tolist()
        assert status == [0] * job.rows
        assert await self.status() == (False, True, "ok")

    async def check_error(self, status: str, sums: list[int]) -> None:
        """Receive the results of a job with an error: its whole rows', and the extra one."""
        assert await self.packet() == ([*sums, 0], [0] * len(sums) + [GEMV_STATUS.index(status)])
        assert await self.status() == (False, True, status)

    async def run_jobs(self) -> None:
        """Run one more job with packed, and one with plain weights."""
        for plain in (False, True):
            job = self.draw(rows=2, columns=min(self.config.columns, 11), plain=plain)
            await self.start(job)
            self.send(job)
            await self.check_results(job)


@cocotb.test()
async def computes(dut):
    """Packed and plain jobs, with data before or after their start."""
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
            await bench.check_results(job)
            assert await bench.read("columns") == columns
            assert await bench.read("rows") == job.rows
            if config.decode == "seedlm":
                assert await bench.read("mode") == plain


@cocotb.test()
async def refuses(dut):
    """Values and addresses that no register has are refused, without an effect."""
    bench = Bench(dut)
    await bench.reset()
    assert await bench.status() == (False, False, "ok")
    await bench.write("columns", 5)
    await bench.write("columns", 1 << len(bin(bench.config.columns)) - 2, refused=True)
    await bench.write("mode", 2, refused=True)
    await bench.write("status", 0, refused=True)
    assert await bench.read("columns") == 5
    outside = 4 * len(bench.registers)
    for address in (outside, bench.registers["control"]):
        assert (await bench.control.read(address, 4)).resp == AxiResp.SLVERR
    assert (await bench.control.write(outside + 8, bytes(4))).resp == AxiResp.SLVERR
    # Bytes without a strobe are unchanged.
    await bench.write("rows", 0x12)
    await bench.control.write(bench.registers["columns"] + 1, b"\0")
    assert await bench.read("columns") == 5
    job = bench.draw(rows=2, columns=5, plain=False)
    await bench.start(job)
    await bench.write("control", 1, refused=True)
    bench.send(job)
    await bench.check_results(job)


@cocotb.test()
async def recovers_from_errors(dut):
    """A packet of the wrong length ends the job, and the rest of it is discarded."""
    bench = Bench(dut)
    await bench.reset()
    for columns, rows in ((0, 1), (1, 0)):
        await bench.write("columns", columns)
        await bench.write("rows", rows)
        await bench.write("control", 1)
        await bench.check_error("shape", [])
    for clears in (True, False):
        job = bench.draw(rows=3, columns=3 * bench.config.lanes, plain=False)
        await bench.start(job)
        bench.send(job, split=1)
        await bench.check_error("row", [])
        await bench.sent(*bench.sources.values())
        if clears:
            await bench.write("control", 2)
        await bench.run_jobs()
        await bench.start(job)
        bench.vector.send_nowait(AxiStreamFrame(bytes(len(dut.s_axis_vector_tdata) // 8)))
        await bench.check_error("vector", [])
        if clears:
            await bench.write("control", 2)
        await bench.run_jobs()


@cocotb.test()
async def recovers_from_clear_and_reset(dut):
    """A job whose data is missing can be aborted."""
    bench = Bench(dut)
    await bench.reset()
    for clears in (True, False, True):
        job = bench.draw(rows=2, columns=2 * bench.config.lanes, plain=False)
        await bench.start(job)
        part = bench.draw(rows=1, columns=2 * bench.config.lanes, plain=False)
        bench.send(part)
        await bench.sent(*bench.sources.values())
        assert (await bench.status())[:2] == (True, False)
        if clears:
            await bench.write("control", 2)
            await bench.check_error("cleared", part.sums.tolist())
        else:
            await bench.reset()
        await bench.run_jobs()
