"""Runs a script of a test, or a notebook, with a driver for PYNQ, see pynq_drivers.py.

The code runs inside the simulator. Buses, overlay and registers are those of cocotbpynq. Its DMA
engine lacks what that of PYNQ has: ``idle``, ``error`` and ``transferred``; its DefaultIP has no
registers. Both are added here, and the time is that of the simulation.
"""

import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import cocotb
import cocotbpynq
import numpy as np
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBus, AxiRam
from cocotbpynq import dma, overlay
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


class Overlay(cocotbpynq.Overlay):
    """As PYNQ's: its cores have their drivers."""

    def create_IP(self, instance_name):  # noqa: N802
        found = overlay.hwh_tree.find(f".//MODULE[@INSTANCE='{instance_name}']")
        if driver := BOUND.get(found.get("VLNV")):
            return driver({"phys_addr": BASE, "addr_range": RANGE})
        return super().create_IP(instance_name)


pynq = ModuleType("pynq")
pynq.DefaultIP, pynq.allocate, pynq.Overlay = DefaultIP, cocotbpynq.allocate, Overlay
sys.modules["pynq"], dma.DMA_Channel = pynq, Channel
sys.path.insert(0, str(FOLDER / "pynq"))

import seedbed_pynq  # noqa: E402

# A cycle is a nanosecond here, and counts as a tenth of a millisecond.
seedbed_pynq.time = SimpleNamespace(monotonic=lambda: get_sim_time("ns") / 1e4)


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

    def __init__(self, setup, ram):
        self.ram, self.memory = ram, {}
        design = Overlay("seedbed.bit")
        name = setup["core"]
        if name == "forward_cache":
            self.core = seedbed_pynq.ForwardCache()
        else:
            self.core = getattr(design, f"{name}_axi_0")
        self.streams = list(setup["beat_bytes"])
        for stream, octets in setup["beat_bytes"].items():
            engine = getattr(design, f"dma_{stream}")
            given = stream.startswith("s_")
            channel = engine.sendchannel if given else engine.recvchannel
            self.core.connect(stream, channel, beat_bytes=octets, room=0 if given else ROOM)

    @resume
    async def reset(self):
        await overlay.cptop.reset_dut(3, 1)

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


def set_up():
    """Return what is to be run."""
    setup = json.loads(Path(os.environ["SEEDBED_RUN"]).read_text())
    os.environ["HWH_LOCATION_DIR"] = setup["folder"]
    os.chdir(setup["folder"])
    return setup


@cocotb.test()
async def runs_script(dut):
    """The lines of the script; what they print is in a file."""
    setup, ram = set_up(), None
    if hasattr(dut, "base_address"):
        dut.base_address.value = 0
    if hasattr(dut, "m_axi_awaddr"):
        bus = AxiBus.from_prefix(dut, "m_axi")
        ram = AxiRam(bus, dut.clk, dut.aresetn, reset_active_level=False, size=MEMORY)

    def run():
        session, lines = Session(setup, ram), Path(setup["script"]).read_text().splitlines()
        return [text for line in lines for text in session.run(line)]

    Path("found.json").write_text(json.dumps(await bridge(run)()))


@cocotb.test()
async def runs_notebook(dut):
    """The cells of a notebook; the variables that are asked for are in a file."""
    setup, names = set_up(), {}
    notebook = json.loads(Path(setup["notebook"]).read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    await bridge(exec)("\n\n".join(cells), names)
    found = {name: np.asarray(names[name]).tolist() for name in setup["variables"]}
    Path("found.json").write_text(json.dumps(found))
