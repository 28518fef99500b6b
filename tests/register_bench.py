"""Testbench of a register map, read from its SystemRDL: resets, accesses and self-clearing bits."""

import os
from json import loads
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

#: Clock cycles in which a command that was not started would begin, or a bit clear itself.
SOON = 8


class Bench:
    """The AXI4-Lite port; each stream input is idle, each output is never taken."""

    def __init__(self, dut):
        self.dut = dut
        setup = loads(Path(os.environ["SEEDBED_RUN"]).read_text())
        self.map, self.outputs = setup["registers"], setup["outputs"]
        self.control = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, "s_axi_control"),
            dut.aclk,
            dut.aresetn,
            reset_active_level=False,
        )
        for interface in (self.control.write_if, self.control.read_if):
            interface.log.setLevel("ERROR")
        Clock(dut.aclk, 10, unit="ns").start()

    async def reset(self):
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 3)
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 2)

    async def read(self, offset):
        """Return the word, or ``None`` for SLVERR."""
        got = await self.control.read(offset, 4)
        assert got.resp in (AxiResp.OKAY, AxiResp.SLVERR)
        return int.from_bytes(got.data, "little") if got.resp == AxiResp.OKAY else None

    async def write(self, offset, word):
        """Return whether the response is OKAY."""
        done = await self.control.write(offset, word.to_bytes(4, "little"))
        return done.resp == AxiResp.OKAY

    async def check_resets(self):
        """Read all registers twice, as a read has no effect; those for writes only are refused."""
        for _ in range(2):
            for name, register in self.map.items():
                want = register["reset"] if register["readable"] else None
                assert await self.read(register["offset"]) == want, name
        after = max(register["offset"] for register in self.map.values()) + 4
        # A map may fill its addresses.
        if after < 1 << len(self.dut.s_axi_control_araddr):
            assert await self.read(after) is None
            assert not await self.write(after, 0)


@cocotb.test()
async def reset_values(dut):
    """After power-up, and after a reset of registers that were written."""
    bench = Bench(dut)
    dut.aresetn.value = 1
    await bench.check_resets()
    for register in bench.map.values():
        if register["readable"] and register["writable"]:
            assert await bench.write(register["offset"], register["mask"])
    await bench.reset()
    await bench.check_resets()


@cocotb.test()
async def accesses(dut):
    """Every bit of a field is held; every other bit is refused and changes nothing."""
    bench = Bench(dut)
    await bench.reset()
    for name, register in bench.map.items():
        offset, mask = register["offset"], register["mask"]
        if not register["writable"]:
            assert not await bench.write(offset, 0), name
        elif register["readable"]:
            for bit in range(32):
                assert await bench.write(offset, mask), name
                held = bool(register["alone"] >> bit & 1)
                assert await bench.write(offset, 1 << bit) == held, (name, bit)
                assert await bench.read(offset) == (1 << bit if held else mask), (name, bit)


@cocotb.test()
async def self_clearing(dut):
    """A start acts once, and is not seen again when the command has ended."""
    bench = Bench(dut)
    await bench.reset()
    control, status = bench.map["control"], bench.map["status"]
    start = control["fields"]["start"]
    assert start["pulse"]
    busy, done = (1 << status["fields"][field]["low"] for field in ("busy", "done"))
    # A write of 0 starts nothing.
    assert await bench.write(control["offset"], 0)
    await ClockCycles(dut.aclk, SOON)
    assert await bench.read(status["offset"]) == 0
    assert await bench.write(control["offset"], 1 << start["low"])
    assert await bench.read(status["offset"]) & (busy | done)
    # With the registers at their reset values the command is refused by the core, or takes a memory
    # that does not answer, and ends.
    for output in bench.outputs:
        getattr(dut, f"{output}_tready").value = 1
    if hasattr(dut, "m_axi_arready"):
        dut.m_axi_arready.value = 1
    for _ in range(300):
        word = await bench.read(status["offset"])
        if word & done:
            break
    assert word & (busy | done) == done
    assert word >> status["fields"]["code"]["low"]
    # If the bit were still set, the command would run again.
    for _ in range(10):
        await ClockCycles(dut.aclk, SOON)
        assert await bench.read(status["offset"]) == word
