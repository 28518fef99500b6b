"""Base class of the testbenches of AXI ports, with the models of cocotbext-axi.

A testbench runs inside the simulator: :func:`seedbed.sim.verilog.verilate.run_tests` starts it. The
environment variable ``SEEDBED_RUN`` names a JSON file with the parameters of the Verilog and the
seed.
"""

import os
from collections.abc import Iterator, Sequence
from json import loads
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from amaranth.lib import data
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, SimTimeoutError, with_timeout
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)
from cocotbext.axi.sparse_memory import SparseMemory

from seedbed.sim.axi.axi_memory import FailingReads, FailingWrites
from seedbed.spec.axi_registers import STATUS_BIT
from seedbed.spec.registers import Register, addresses

__all__ = ["AxiBench", "fields"]

#: Time-outs of a register access and of an AXI4-Stream packet, in microseconds.
REGISTER_TIMEOUT, PACKET_TIMEOUT = 100, 1000


def fields(layout: data.StructLayout, payloads: list[int]) -> list[dict]:
    """Return the fields of beats as plain numbers."""
    found = []
    for payload in payloads:
        beat = layout.from_bits(payload)
        found.append({name: beat[name] for name in layout.members})
    return found


class AxiBench:
    """Models on the ports of ``dut``, each with random pauses of every channel.

    Parameters
    ----------
    dut
        The top-level module, with the ports ``aclk`` and ``aresetn``.
    config
        The class of the configuration; its parameters are in the file of ``SEEDBED_RUN``.
    registers
        Map of the registers at the AXI4-Lite port ``s_axi_control``, if there is one.
    memory
        Whether the AXI4 port ``m_axi`` is connected to a memory.
    """

    def __init__(
        self,
        dut,
        config: type,
        *,
        registers: Sequence[Register] = (),
        memory: bool = False,
    ):
        setup = loads(Path(os.environ["SEEDBED_RUN"]).read_text())
        self.dut, self.seed = dut, setup["seed"]
        self.config = config(**setup["params"])
        self.rng = np.random.default_rng(self.seed)
        self.registers = addresses(registers, 4)
        self._ports = {"reset": dut.aresetn, "reset_active_level": False, "clock": dut.aclk}
        self._streams: list[Any] = []
        self._channels = 0
        if registers:
            self.control = AxiLiteMaster(
                AxiLiteBus.from_prefix(dut, "s_axi_control"), **self._ports
            )
            self._pause_interfaces(self.control.write_if, self.control.read_if)
        if memory:
            self.memory, bus = SparseMemory(1 << 32), AxiBus.from_prefix(dut, "m_axi")
            options = {"size": 1 << 32, "mem": self.memory, **self._ports}
            self.writes = FailingWrites(bus.write, **options)
            self.reads = FailingReads(bus.read, **options)
            self._pause_interfaces(self.writes, self.reads)
        Clock(dut.aclk, 10, unit="ns").start()

    def source(self, name: str) -> AxiStreamSource:
        """Return a source of the AXI4-Stream ``s_axis_NAME``."""
        return self._stream(AxiStreamSource, f"s_axis_{name}")

    def sink(self, name: str) -> AxiStreamSink:
        """Return a sink of the AXI4-Stream ``m_axis_NAME``."""
        return self._stream(AxiStreamSink, f"m_axis_{name}")

    def _stream(self, kind: type, name: str):
        stream = kind(AxiStreamBus.from_prefix(self.dut, name), **self._ports)
        self._streams.append(stream)
        self._pause(stream)
        return stream

    def _pause_interfaces(self, write, read) -> None:
        for interface in (write, read):
            interface.log.setLevel("ERROR")
        for channel in (write.aw_channel, write.w_channel, write.b_channel):
            self._pause(channel)
        for channel in (read.ar_channel, read.r_channel):
            self._pause(channel)

    def _pause(self, channel) -> None:
        """Pause a channel in half of all cycles, at random."""

        def pauses(random: Random) -> Iterator[bool]:
            while True:
                yield random.random() < 0.5

        channel.set_pause_generator(pauses(Random(f"{self.seed} {self._channels}")))
        channel.log.setLevel("ERROR")
        self._channels += 1

    async def reset(self) -> None:
        """Reset the core, and discard all packets in the stream models."""
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 3)
        for stream in self._streams:
            stream.clear()
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 2)

    async def write(self, name: str, value: int, *, refused: bool = False) -> None:
        """Write a register; check that the response is OKAY or, if ``refused``, SLVERR."""
        access = self.control.write(self.registers[name], value.to_bytes(4, "little"))
        done = await with_timeout(access, REGISTER_TIMEOUT, "us")
        assert done.resp == (AxiResp.SLVERR if refused else AxiResp.OKAY), f"{name} = {value}"

    async def check_done(self, status: int) -> None:
        """Check that the last command is done, and how it ended."""
        assert await self.read("status") == 2 | status << STATUS_BIT

    async def read(self, name: str) -> int:
        """Return the value of a register."""
        access = self.control.read_dword(self.registers[name])
        return await with_timeout(access, REGISTER_TIMEOUT, "us")

    def send_beats(self, source: AxiStreamSource, beats: list[tuple[bytes, int, int]]) -> None:
        """Send beats of bytes, tuser and last, as packets."""
        octets = b""
        users: list[int] = []
        for part, user, last in beats:
            octets, users = octets + part, users + [user] * len(part)
            if last:
                source.send_nowait(AxiStreamFrame(octets, tuser=users))
                octets, users = b"", []
        assert not octets

    async def receive(self, sink: AxiStreamSink, *, compact: bool = True) -> AxiStreamFrame:
        """Return the next packet of a sink."""
        return await _in_time(sink.recv(compact=compact), "the next packet of an output")

    async def sent(self, *sources: AxiStreamSource) -> None:
        """Wait until the sources have sent all packets."""
        for source in sources:
            await _in_time(source.wait(), "the packets of an input")


async def _in_time(access: Any, what: str) -> Any:
    """Return what an access gives, or raise ``RuntimeError`` if it takes too long."""
    try:
        return await with_timeout(access, PACKET_TIMEOUT, "us")
    except SimTimeoutError:
        raise RuntimeError(
            f"{what} took more than {PACKET_TIMEOUT} us of 10 ns cycles: it hangs, or the "
            "configuration is too large for this bench"
        ) from None
