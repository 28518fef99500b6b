"""Testbench of the forward cache's AXI ports, see :mod:`seedbed.sim.axi.axi_bench`."""

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiStreamFrame

from seedbed.golden.forward_cache import ForwardCache
from seedbed.sim.axi.axi_bench import AxiBench
from seedbed.spec import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS, ForwardCacheConfig

__all__ = ["TESTS", "Bench"]

#: The tests, which do not depend on their order.
TESTS = ("stores_and_fetches", "reports_errors", "recovers_from_reset")
PAGE = 4096


class Bench(AxiBench):
    """Sends requests, with a memory at ``base``; ``entries`` are the valid ones."""

    def __init__(self, dut, base: int):
        super().__init__(dut, ForwardCacheConfig, memory=True)
        self.model = ForwardCache(self.config)
        self.base = base & -PAGE
        self.entries: dict[int, np.ndarray] = {}
        dut.base_address.value = base
        self.requests, self.stored = self.source("request"), self.source("codes")
        self.answers, self.fetched = self.sink("answer"), self.sink("codes")

    async def reset(self) -> None:
        """Reset the core; no entry is valid afterwards."""
        self.entries.clear()
        await super().reset()

    def request(self, kind: str, index: int = 0) -> None:
        """Send a request."""
        word = index | FORWARD_CACHE_KINDS.index(kind) << 16
        self.requests.send_nowait(AxiStreamFrame(word.to_bytes(3, "little")))

    def send(self, entry: np.ndarray, beats: int | None = None) -> None:
        """Send a store's packet; ``beats`` overrides its length."""
        lanes = self.config.store_lanes
        codes, peaks = self.model.beats(entry, lanes)
        take = np.arange(beats or len(codes)) % len(codes)
        octets = (codes[take, ::2] | codes[take, 1::2] << 4).astype(np.uint8)
        users = np.repeat(peaks[take], lanes // 2).tolist()
        self.stored.send_nowait(AxiStreamFrame(octets.tobytes(), tuser=users))

    async def status(self) -> str:
        """Return the next status."""
        frame = await self.receive(self.answers)
        assert len(frame.tdata) == 1
        return FORWARD_CACHE_STATUS[frame.tdata[0]]

    async def codes(self) -> tuple[bytes, list[int]]:
        """Return the bytes and the peaks of every beat of the next packet of codes."""
        frame = await self.receive(self.fetched, compact=False)
        return bytes(frame.tdata), frame.tuser[:: self.config.fetch_lanes // 2]

    async def store(self, index: int, *, beats: int | None = None) -> str:
        """Store a random entry; return the status."""
        config = self.config
        codes = self.rng.integers(0, 16, sum(config.lengths), np.uint8)
        peaks = self.rng.integers(0, 1 << config.peak_width, config.blocks)
        entry = self.model.pack(codes, peaks)
        self.request("store", index)
        self.send(entry, beats)
        status = await self.status()
        self.entries.pop(index, None)
        if status == "done":
            self.entries[index] = entry
            first = self.base + index * config.entry_bytes
            assert self.memory.read(first, config.entry_bytes) == entry.tobytes()
        return status

    async def fetch(self, index: int) -> str:
        """Fetch an entry, and compare its codes if there are any; return the status."""
        self.request("fetch", index)
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

    async def run_requests(self) -> None:
        """Store and fetch two entries, and clear the cache."""
        for index in (0, self.config.entries - 1):
            assert await self.store(index) == "done"
            assert await self.fetch(index) == "done"
        self.request("clear")
        assert await self.status() == "done"
        self.entries.clear()
        assert await self.fetch(0) == "miss"


@cocotb.test()
async def stores_and_fetches(dut):
    """Entries in the whole memory, across page boundaries too, are read back unchanged."""
    bench = Bench(dut, 0x8765_4FFF)
    await bench.reset()
    config = bench.config
    bench.memory.write(bench.base - PAGE, bytes([0xA5]) * PAGE)
    bench.memory.write(bench.base + config.bytes, bytes([0xA5]) * PAGE)
    split = {k for k in range(config.entries) if len(bench.model.fetch_bursts(k)) > 1}
    indices = sorted({0, 1, config.entries - 1, *split})
    assert split
    for index in indices:
        assert await bench.fetch(index) == "miss"
        assert await bench.store(index) == "done"
    for index in [*reversed(indices), *indices]:
        assert await bench.fetch(index) == "done"
    # Memory before and after the cache is unchanged.
    assert bench.memory.read(bench.base - PAGE, PAGE) == bytes([0xA5]) * PAGE
    assert bench.memory.read(bench.base + config.bytes, PAGE) == bytes([0xA5]) * PAGE
    await bench.run_requests()


@cocotb.test()
async def reports_errors(dut):
    """Every status occurs, and requests after an error succeed."""
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
        await bench.run_requests()
    for extra in (-2, -1, 1, 5):
        assert await bench.store(2) == "done"
        bench.reads.extra = extra
        assert await bench.fetch(2) == "memory"
        assert await bench.fetch(2) == "done"
        await bench.run_requests()
    for beats in (1, whole - 1, whole + 1, 2 * whole):
        assert await bench.store(1) == "done"
        assert await bench.store(1, beats=beats) == "frame"
        assert await bench.fetch(1) == "miss"
        await bench.run_requests()


@cocotb.test()
async def recovers_from_reset(dut):
    """After a reset in the middle of a burst no entry is valid."""
    bench = Bench(dut, 0xFFF0_0000)
    for kind in ("store", "fetch", "store"):
        await bench.reset()
        await bench.run_requests()
        assert await bench.store(3) == "done"
        bench.request(kind, 3)
        bench.send(bench.entries[3])
        await ClockCycles(dut.aclk, int(bench.rng.integers(10, 60)))
        await bench.reset()
        assert await bench.fetch(3) == "miss"
        await bench.run_requests()
