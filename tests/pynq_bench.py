"""Runs the script of a test with a driver for PYNQ, inside the simulator, see pynq_drivers.py.

Buses, overlay and registers are those of cocotbpynq. Its DMA engine lacks what that of PYNQ has:
``idle``, ``error`` and ``transferred``; its DefaultIP has no registers. Both are added here.
"""

import json
import os
import sys
from pathlib import Path
from types import ModuleType

import cocotb
import cocotbpynq
import numpy as np
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge
from cocotbext.axi import AxiBus, AxiRam
from cocotbpynq import dma
from pynq_drivers import BASE, RANGE

from seedbed.boards.drivers import FOLDER

#: Bytes of the memory, and of the longest packet from a core.
MEMORY, ROOM = 1 << 20, 1 << 16
#: Drivers by the names of the cores that they are bound to.
BOUND = {}


class DefaultIP:
    """As PYNQ's: the registers of a core; its subclasses are bound to cores."""

    def __init__(self, description):
        self.mmio = cocotbpynq.MMIO(description["phys_addr"], description["addr_range"])

    def __init_subclass__(cls):
        BOUND.update(dict.fromkeys(cls.bindto, cls))

    def read(self, offset=0):
        return self.mmio.read(offset)

    def write(self, offset, value):
        self.mmio.write(offset, value)


class Channel(dma.DMA_Channel):
    """A channel that says whether it is idle, and how many bytes were transferred."""

    error = False

    def __init__(self, bus, direction):
        super().__init__(bus, direction)
        self.transferred = 0
        cocotb.start_soon(self._count())

    def transfer(self, array, start=0, nbytes=0):
        self.transferred = 0
        super().transfer(array, start, nbytes)

    @property
    def idle(self):
        return self._idle()

    @resume
    async def _idle(self):
        # Time passes between two questions.
        await ClockCycles(self.cpbus.cpdut.clk, 2)
        return self.is_idle.is_set()

    async def _count(self):
        while True:
            await RisingEdge(self.cpbus.cpdut.clk)
            await ReadOnly()
            if self.cpbus.TVALID.value == 1 and self.cpbus.TREADY.value == 1:
                self.transferred += 4


class Buffer:
    """Memory at an address that the core reads and writes, too."""

    def __init__(self, ram, address):
        self.ram, self.physical_address, self.data = ram, address, {}

    def flush(self):
        for address, octets in self.data.items():
            self.ram.write(address, octets)


pynq = ModuleType("pynq")
pynq.DefaultIP, pynq.allocate = DefaultIP, cocotbpynq.allocate
sys.modules["pynq"], dma.DMA_Channel = pynq, Channel
sys.path.insert(0, str(FOLDER / "pynq"))

import seedbed_pynq  # noqa: E402


def command(core, name, values):
    """Call the driver for a command of a script."""
    if name == "start" and core.name == "gemv":
        columns, rows, mode = values
        core.start(columns, rows, None if mode == 2 else bool(mode))
    elif name == "start":
        facts = seedbed_pynq._CORES[core.name]
        kind, *rest = values
        named = dict(zip(facts["command"][1:] or ["index"], rest, strict=True))
        core.start(facts["kinds"][kind], **named)
    elif name == "schedule":
        core.schedule(zip(*[iter(values)] * 4, strict=True))
    else:
        getattr(core, name)(*values)
    return ["no error"]


class Session:
    """Runs lines of a script, which are those of the driver in C."""

    def __init__(self, dut, setup, ram):
        self.ram, self.memory = ram, {}
        overlay = cocotbpynq.Overlay("design.bit")
        vlnv = cocotbpynq.overlay.hwh_tree.find(".//MODULE[@INSTANCE='core']").get("VLNV")
        if vlnv in BOUND:
            self.core = BOUND[vlnv]({"phys_addr": BASE, "addr_range": RANGE})
        else:
            self.core = seedbed_pynq.ForwardCache()
        self.dut = cocotbpynq.overlay.cptop
        self.streams = list(setup["beat_bytes"])
        for stream, octets in setup["beat_bytes"].items():
            engine = getattr(overlay, f"dma_{stream}")
            given = stream.startswith("s_")
            channel = engine.sendchannel if given else engine.recvchannel
            self.core.connect(stream, channel, beat_bytes=octets, room=0 if given else ROOM)

    @resume
    async def reset(self):
        await self.dut.reset_dut(3, 1)

    def run(self, line):
        """Return what the line prints."""
        name, *words = line.split()
        core = self.core
        if name == "send":
            self.send(words)
            return []
        if name == "receive":
            core.receive(self.streams[int(words[0])], int(words[2]))
            return []
        if name in ("poll", "abort"):
            return self.poll(int(words[0]) if words else 0)
        if name == "show":
            octets, users = core.received(self.streams[int(words[0])])
            return [octets.hex(), " ".join(f"{user:x}" for user in users)]
        if name == "reset":
            self.reset()
            return ["no error"]
        if name == "memory":
            self.memory[int(words[1])] = Path(words[0]).read_bytes()
            return []
        if name == "base":
            buffer = Buffer(self.ram, int(words[0]))
            buffer.data = self.memory
            core.use_memory(buffer)
            return ["no error"]
        if name == "read":
            return [str(core.read(int(words[0])))]
        return command(core, name, [int(word) for word in words])

    def send(self, words):
        stream, path, packets, size, users, each, sizes, _ = words
        count, each = int(packets), int(each)
        octets = Path(path).read_bytes()
        lengths = [int(size)] * count
        if sizes != "-":
            lengths = np.fromfile(sizes, "<u4").tolist()
        ends = np.cumsum(lengths).tolist()
        parts = [octets[end - length : end] for end, length in zip(ends, lengths, strict=True)]
        values = None
        if each:
            values = np.fromfile(users, "<u4").reshape(count, each)
            values = [value[0] if each == 1 else value for value in values]
        self.core.send(self.streams[int(stream)], [np.frombuffer(p, "u1") for p in parts], values)

    def poll(self, abort):
        polls = 0
        try:
            while not self.core.poll():
                polls += 1
                if polls == abort:
                    self.core.abort()
                assert polls < 20000, "the job does not end"
        except seedbed_pynq.CommandError as ended:
            return ["the command ended with an error", str(ended)]
        return ["no error"]


@cocotb.test()
async def runs_script(dut):
    """The lines of the script; what they print is written next to it."""
    setup = json.loads(Path(os.environ["SEEDBED_RUN"]).read_text())
    script, ram = Path(setup["script"]), None
    os.environ["HWH_LOCATION_DIR"] = str(script.parent)
    if hasattr(dut, "base_address"):
        dut.base_address.value = 0
    if hasattr(dut, "m_axi_awaddr"):
        bus = AxiBus.from_prefix(dut, "m_axi")
        ram = AxiRam(bus, dut.clk, dut.aresetn, reset_active_level=False, size=MEMORY)

    def run():
        session = Session(dut, setup, ram)
        return [text for line in script.read_text().splitlines() for text in session.run(line)]

    printed = await bridge(run)()
    (script.parent / "printed.json").write_text(json.dumps(printed))
