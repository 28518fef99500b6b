# amaranth: UnusedElaboratable=no
"""Fine-tuning on the virtual board, with its SDRAM, bit for bit the integer model."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from amaranth.sim import Simulator

from seedbed.boards import apps, virtual
from seedbed.boards.apps import instantft
from seedbed.boards.device import Device
from seedbed.boards.image_store import ImageStore
from seedbed.boards.instantft_job import inputs, outputs, prepared, stream_job
from seedbed.boards.registers import addresses
from seedbed.boards.streams import WordMerger, WordSplitter, packet, payloads
from seedbed.boards.top import identifier
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.instantft_job import require_counted
from seedbed.sim.memory import Memory
from seedbed.spec import SdramConfig

DESIGN = apps.find("instantft", "tiny")
JOB = {"images": 24, "held": 8, "epochs": 2}


@pytest.fixture(scope="module")
def program(kept):
    return virtual.executable(DESIGN, "instantft-tiny", build=Path(kept))


def connect(board, timeout=0.2):
    found = addresses(DESIGN.REGISTERS)
    return Device(board.port, found, identifier=identifier(DESIGN), timeout=timeout)


def test_24_images_and_2_epochs_from_the_command_line(program, called, tmp_path):
    with virtual.start(program) as board:
        words = ["board", "run", "instantft", "--port", board.port]
        words += [part for name, value in JOB.items() for part in (f"--{name}", str(value))]
        code, printed, problem = called(words, tmp_path)
    assert (code, problem) == (0, "")
    for part in (
        "the memory, 32 MiB, passed its self-test", " % correct, mean loss ", " images/s",
        "24 tuned images: ", "8 other images: ",
        "the adapters are those of the model, bit for bit",
    ):  # fmt: skip
        assert part in printed


def test_the_cache_is_used_and_what_differs_is_found(program, tmp_path):
    of = prepared(DESIGN.config, None, tmp_path, angle=90, seed=1, **JOB)
    with virtual.start(program) as board, connect(board) as device:
        job, counted = stream_job(of)
        _, words = job.run(device)
        counters = {name: device.read(f"train_{name}") for name in instantft.COUNTERS}
    assert (counters["samples"], counters["hits"], counters["misses"]) == (48, 24, 24)
    job.require_same(words)
    require_counted(counted, counters)
    for place in (0, len(words) // 2, len(words) - 3):
        wrong = words.copy()
        wrong[place] ^= 1
        with pytest.raises(Mismatch, match="what the board sent differs from the model"):
            job.require_same(wrong)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"images": 257}, r"images must be in 1\.\.256, not 257"),
        ({"held": 0}, r"held must be in 1\.\.65279, not 0"),
        ({"held": 2000}, r"images and held must be at most \d+ together, not 2024"),
        ({"epochs": 0}, r"epochs must be in 1\.\.65535, not 0"),
        ({"angle": 5}, r"angle must be in 15\.\.90 degrees, not 5"),
    ],
)
def test_a_job_that_is_out_of_range_is_refused(options, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        prepared(DESIGN.config, None, tmp_path, **{"angle": 90, "seed": 0} | JOB | options)


def test_more_images_than_the_memory_has_room_for_are_refused(tmp_path):
    """An image has 1,024 bytes of 32 MiB, and the cache is before the images."""
    config = apps.find("instantft", "lenet5").config
    of = prepared(DESIGN.config, None, tmp_path, angle=90, seed=1, **JOB)
    cache = config.forward_cache
    most = (2**25 - 8 * cache.entries * cache.beats) // 1024
    more = replace(of, config=config, images=np.zeros((most + 1, 1, 28, 28), np.uint8))
    with pytest.raises(ValueError, match=f"room for {most} images beside the cache, not for "):
        instantft.train(None, None, more)


@pytest.mark.parametrize(("beats", "ways"), [(18, 2), (16, 2), (49, 4), (1, 4)])
def test_images_are_stored_and_shown(beats, ways):
    """In the memory's model, with random latencies and pauses of every port."""
    store = ImageStore(SdramConfig(beat_bits=128), base=64, beats=beats, ways=ways, label=4)
    rng, count = np.random.default_rng(beats), 5
    pixels = rng.integers(0, 1 << 8 * ways, (count, beats)).tolist()
    shown = [(int(k), int(label)) for k, label in rng.integers(0, [count, 10], (9, 2))]
    memory, random, found = Memory(store, page=64, random=Random(1)), Random(2), []

    async def drive(ctx):
        ctx.set(store.writable, 1)
        beat = store.i_store.payload
        for index, image in enumerate(pixels):
            for k, value in enumerate(image):
                ctx.set(beat, {"data": value, "tag": index, "last": k == beats - 1})
                ctx.set(store.i_store.valid, 1)
                await ctx.tick().until(store.i_store.ready)
                ctx.set(store.i_store.valid, 0)
                await ctx.tick().repeat(random.randint(1, 3))
        for index, label in shown:
            ctx.set(store.i_show.payload.data, index | label << 16)
            ctx.set(store.i_show.valid, 1)
            await ctx.tick().until(store.i_show.ready)
            ctx.set(store.i_show.valid, 0)

    async def take(ctx):
        while len(found) < len(shown) * beats:
            ctx.set(store.o.ready, random.random() < 0.5)
            _, _, valid, ready, out = await ctx.tick().sample(
                store.o.valid, store.o.ready, store.o.payload
            )
            if valid and ready:
                found.append((out.pixels, out.label, out.index, out.last))

    simulator = Simulator(store)
    simulator.add_clock(1e-8)
    simulator.add_testbench(memory.run, background=True)
    simulator.add_testbench(drive)
    simulator.add_testbench(take)
    simulator.run()
    assert found == [
        (value, label, index, k == beats - 1)
        for index, label in shown
        for k, value in enumerate(pixels[index])
    ]


def test_a_large_image_is_refused():
    with pytest.raises(ValueError, match=r"an image must have 1\.\.256 beats of the memory, not "):
        ImageStore(SdramConfig(beat_bits=128), base=0, beats=5000, ways=4, label=4)


def test_packets_and_payloads_are_transferred_whole():
    ports, back = inputs(DESIGN.config), outputs(DESIGN.config)
    rng = np.random.default_rng(1)
    splitter, merger = WordSplitter(ports), WordMerger(back)
    sent, words = {port.name: [] for port in ports}, []
    for k in range(40):
        port = ports[k % len(ports)]
        beats = [int(value) for value in rng.integers(0, 1 << min(63, port.bits), 1 + k % 7)]
        tag = int(rng.integers(0, 1 << port.tag)) if port.tag else 0
        words += packet(ports, port.name, beats, tag).tolist()
        words += [200 | 2 << 8, 5, 6, 7] if k == 20 else []
        last = len(beats) - 1
        sent[port.name] += [(beat, tag, n == last) for n, beat in enumerate(beats)]
    came = {port.name: [] for port in ports}

    async def give(ctx):
        ctx.set(splitter.i.valid, 1)
        for word in words:
            ctx.set(splitter.i.payload, word)
            await ctx.tick().until(splitter.i.ready)

    async def take(ctx):
        random = Random(3)
        outs = {port.name: getattr(splitter, f"o_{port.name}") for port in ports}
        while sum(map(len, came.values())) < sum(map(len, sent.values())):
            ready = random.random() < 0.5
            for out in outs.values():
                ctx.set(out.ready, ready)
            for name, out in outs.items():
                if ready and ctx.get(out.valid):
                    beat = ctx.get(out.payload)
                    came[name].append((beat.data, beat.tag, beat.last))
            await ctx.tick()

    simulator = Simulator(splitter)
    simulator.add_clock(1e-8)
    simulator.add_testbench(give)
    simulator.add_testbench(take)
    simulator.run()
    assert came == sent
    numbers = {port.name: rng.integers(0, 1 << port.bits, 10).tolist() for port in back}
    received = []

    def offer(port):
        async def run(ctx):
            given = getattr(merger, f"i_{port.name}")
            for number in numbers[port.name]:
                ctx.set(given.payload, number)
                ctx.set(given.valid, 1)
                await ctx.tick().until(given.ready)
                ctx.set(given.valid, 0)

        return run

    async def collect(ctx):
        random = Random(4)
        while len(received) < 10 * sum(port.words for port in back):
            ctx.set(merger.o.ready, random.random() < 0.5)
            _, _, valid, ready, word = await ctx.tick().sample(
                merger.o.valid, merger.o.ready, merger.o.payload
            )
            received.extend([word] if valid and ready else [])

    simulator = Simulator(merger)
    simulator.add_clock(1e-8)
    for port in back:
        simulator.add_testbench(offer(port))
    simulator.add_testbench(collect)
    simulator.run()
    found = payloads(back, np.array(received, np.uint32))
    assert {name: part.tolist() for name, part in found.items()} == numbers


@pytest.mark.parametrize("first", [60, 61])
def test_words_are_compared_after_another_host(program, tmp_path, first):
    of = prepared(DESIGN.config, None, tmp_path, angle=90, seed=1, **JOB)
    job, _ = stream_job(of)
    with virtual.start(program) as board, connect(board) as device:
        _, words = job.run(device)
    part = words[first:]
    job.require_same(part)
    for port, name in enumerate(("result", "parameters")):
        wrong = part.copy()
        wrong[np.flatnonzero(part >> 28 == port)[10]] ^= 1
        with pytest.raises(Mismatch, match=f"{name}: what the board sent differs from the model"):
            job.require_same(wrong)
