"""The bench of the forward cache's AXI ports, with the models of cocotbext-axi.

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
    AxiBus,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)
from cocotbext.axi.sparse_memory import SparseMemory

from seedbed.golden.forward_cache import ForwardCache
from seedbed.sim.axi_memory import FailingReads, FailingWrites
from seedbed.spec import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS, ForwardCacheConfig

__all__ = ["TESTS", "Bench"]

#: What to run, in this order or any other.
TESTS = ("stores_and_fetches", "answers_faults", "recovers_from_reset")
PAGE = 4096


class Bench:
    """Models on every port of ``dut``, each with pauses of its own, and a memory behind it."""

    def __init__(self, dut, base: int):
        setup = loads(Path(os.environ["SEEDBED_RUN"]).read_text())
        self.dut, self.seed = dut, setup["seed"]
        self.config = ForwardCacheConfig(**setup["params"])
        self.model = ForwardCache(self.config)
        self.rng = np.random.default_rng(self.seed)
        self.base = base & -PAGE
        self.entries: dict[int, np.ndarray] = {}
        dut.base_address.value = base
        ports = {"reset": dut.aresetn, "reset_active_level": False, "clock": dut.aclk}
        self.request = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_request"), **ports)
        self.stored = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_codes"), **ports)
        self.answer = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_answer"), **ports)
        self.fetched = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_codes"), **ports)
        self.memory, bus = SparseMemory(1 << 32), AxiBus.from_prefix(dut, "m_axi")
        self.writes = FailingWrites(bus.write, size=1 << 32, mem=self.memory, **ports)
        self.reads = FailingReads(bus.read, size=1 << 32, mem=self.memory, **ports)
        self.streams = [self.request, self.stored, self.answer, self.fetched]
        channels = [*self.streams, self.reads.ar_channel, self.reads.r_channel]
        channels += [self.writes.aw_channel, self.writes.w_channel, self.writes.b_channel]
        for k, channel in enumerate(channels):
            channel.set_pause_generator(self._pauses(Random(f"{self.seed} {k}")))
        for model in (*channels, self.writes, self.reads):
            model.log.setLevel("ERROR")
        Clock(dut.aclk, 10, unit="ns").start()

    @staticmethod
    def _pauses(random: Random) -> Iterator[bool]:
        while True:
            yield random.random() < 0.5

    async def reset(self) -> None:
        """Reset the core and whatever the models had under way; no entry is known afterwards."""
        self.dut.aresetn.value = 0
        await ClockCycles(self.dut.aclk, 3)
        for model in self.streams:
            model.clear()
        self.entries.clear()
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 2)

    def ask(self, kind: str, index: int = 0) -> None:
        """Send a request."""
        word = index | FORWARD_CACHE_KINDS.index(kind) << 16
        self.request.send_nowait(AxiStreamFrame(word.to_bytes(3, "little")))

    def send(self, entry: np.ndarray, beats: int | None = None) -> None:
        """Send a store's packet, of so many beats if not of an entry's."""
        lanes = self.config.store_lanes
        codes, peaks = self.model.beats(entry, lanes)
        take = np.arange(beats or len(codes)) % len(codes)
        octets = (codes[take, ::2] | codes[take, 1::2] << 4).astype(np.uint8)
        users = np.repeat(peaks[take], lanes // 2).tolist()
        self.stored.send_nowait(AxiStreamFrame(octets.tobytes(), tuser=users))

    async def status(self) -> str:
        """Return the next answer."""
        frame = await with_timeout(self.answer.recv(), 1000, "us")
        assert len(frame.tdata) == 1
        return FORWARD_CACHE_STATUS[frame.tdata[0]]

    async def codes(self) -> tuple[bytes, list[int]]:
        """Return the bytes and the peaks of every beat of the next packet of codes."""
        frame = await with_timeout(self.fetched.recv(compact=False), 1000, "us")
        return bytes(frame.tdata), frame.tuser[:: self.config.fetch_lanes // 2]

    async def store(self, index: int, *, beats: int | None = None) -> str:
        """Store a random entry; return the answer."""
        config = self.config
        codes = self.rng.integers(0, 16, sum(config.lengths), np.uint8)
        peaks = self.rng.integers(0, 1 << config.peak_width, config.blocks)
        entry = self.model.pack(codes, peaks)
        self.ask("store", index)
        self.send(entry, beats)
        status = await self.status()
        self.entries.pop(index, None)
        if status == "done":
            self.entries[index] = entry
            first = self.base + index * config.entry_bytes
            assert self.memory.read(first, config.entry_bytes) == entry.tobytes()
        return status

    async def fetch(self, index: int) -> str:
        """Fetch an entry and compare what comes, if anything should; return the answer."""
        self.ask("fetch", index)
        status = await self.status()
        if status in ("done", "memory"):
            octets, peaks = await self.codes()
            if status == "done":
                entry = self.entries[index]
                head = self.config.peak_beats * self.config.beat_bytes
                assert octets == entry[head:].tobytes()
                assert peaks == self.model.beats(entry, self.config.fetch_lanes)[1].tolist()
        assert self.fetched.empty()
        return status

    async def works(self) -> None:
        """Store, fetch and forget an entry or two."""
        for index in (0, self.config.entries - 1):
            assert await self.store(index) == "done"
            assert await self.fetch(index) == "done"
        self.ask("clear")
        assert await self.status() == "done"
        self.entries.clear()
        assert await self.fetch(0) == "miss"


@cocotb.test()
async def stores_and_fetches(dut):
    """Entries anywhere in memory, over boundaries too, come back as they were."""
    bench = Bench(dut, 0x8765_4FFF)
    await bench.reset()
    config = bench.config
    bench.memory.write(bench.base - PAGE, bytes([0xA5]) * PAGE)
    bench.memory.write(bench.base + config.bytes, bytes([0xA5]) * PAGE)
    split = {k for k in range(config.entries) if len(bench.model.fetch_bursts(k)) > 1}
    places = sorted({0, 1, config.entries - 1, *split})
    assert split
    for index in places:
        assert await bench.fetch(index) == "miss"
        assert await bench.store(index) == "done"
    for index in [*reversed(places), *places]:
        assert await bench.fetch(index) == "done"
    # Nothing beside it was touched.
    assert bench.memory.read(bench.base - PAGE, PAGE) == bytes([0xA5]) * PAGE
    assert bench.memory.read(bench.base + config.bytes, PAGE) == bytes([0xA5]) * PAGE
    await bench.works()


@cocotb.test()
async def answers_faults(dut):
    """Every status comes, and good requests behind it do what they should."""
    bench = Bench(dut, 0)
    await bench.reset()
    config = bench.config
    whole = config.code_beats * config.store_pieces
    assert await bench.fetch(config.entries) == "range"
    assert await bench.store(config.entries) == "range"
    for beat in (0, config.peak_beats, config.beats - 1):
        assert await bench.store(2) == "done"
        bench.reads.bad = 2 * config.entry_bytes + beat * config.beat_bytes
        assert await bench.fetch(2) == "memory"
        bench.reads.bad = None
        assert await bench.fetch(2) == "done"
        bench.writes.bad = 2 * config.entry_bytes + beat * config.beat_bytes
        assert await bench.store(2) == "memory"
        bench.writes.bad = None
        assert await bench.fetch(2) == "miss"
        await bench.works()
    for extra in (-2, -1, 1, 5):
        assert await bench.store(2) == "done"
        bench.reads.extra = extra
        assert await bench.fetch(2) == "memory"
        assert await bench.fetch(2) == "done"
        await bench.works()
    for beats in (1, whole - 1, whole + 1, 2 * whole):
        assert await bench.store(1) == "done"
        assert await bench.store(1, beats=beats) == "frame"
        assert await bench.fetch(1) == "miss"
        await bench.works()


@cocotb.test()
async def recovers_from_reset(dut):
    """A reset in the middle of a burst leaves no entry behind."""
    bench = Bench(dut, 0xFFF0_0000)
    for kind in ("store", "fetch", "store"):
        await bench.reset()
        await bench.works()
        assert await bench.store(3) == "done"
        bench.ask(kind, 3)
        bench.send(bench.entries[3])
        await ClockCycles(dut.aclk, int(bench.rng.integers(10, 60)))
        await bench.reset()
        assert await bench.fetch(3) == "miss"
        await bench.works()
