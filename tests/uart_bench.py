"""Testbench of a line that returns what it receives, with the UART models of cocotbext-uart."""

import os
from json import loads
from pathlib import Path
from random import Random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, SimTimeoutError, Timer, with_timeout
from cocotbext.uart import UartSink, UartSource

NANOSECONDS = 10


class Line:
    """Source and sink at a baud rate, ``percent`` of that of the core."""

    def __init__(self, dut):
        setup = loads(Path(os.environ["SEEDBED_RUN"]).read_text())
        bit = NANOSECONDS * setup["divisor"]
        self.dut, self.random, self.byte_ns = dut, Random(setup["seed"]), 10 * bit
        self.count = setup["count"]
        Clock(dut.clk, NANOSECONDS, unit="ns").start()
        self.source = UartSource(dut.i_line, baud=1e11 / bit / setup["percent"])
        self.sink = UartSink(dut.o_line, baud=1e9 / bit)

    async def reset(self) -> None:
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 2)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes; fail if the line is silent for ten bytes' time."""
        data = b""
        while len(data) < count:
            try:
                data += await with_timeout(self.sink.read(1), 10 * self.byte_ns, "ns")
            except SimTimeoutError:
                raise AssertionError(f"{len(data)} bytes of {count}, then none") from None
        return data


@cocotb.test()
async def returns_every_byte(dut):
    line = Line(dut)
    await line.reset()
    sent = bytes(line.random.sample(range(256), line.count))
    for gap in (0, 1, 7):
        # With pauses at any phase of the clock, or with none.
        parts = [sent[k : k + gap] for k in range(0, line.count, gap)] if gap else [sent]
        received = b""
        for part in parts:
            line.source.write_nowait(part)
            received += await line.read(len(part))
            await Timer(line.random.randrange(1, line.byte_ns), "ns")
        assert received == sent, gap


@cocotb.test()
async def recovers_from_reset(dut):
    line = Line(dut)
    await line.reset()
    line.source.write_nowait(b"\x5a")
    await Timer(line.byte_ns * 2 // 5, "ns")
    await line.reset()
    # The rest of the byte may look like another one.
    await Timer(4 * line.byte_ns, "ns")
    line.sink.clear()
    line.source.write_nowait(b"\xa5\x00\xff")
    assert await line.read(3) == b"\xa5\x00\xff"
