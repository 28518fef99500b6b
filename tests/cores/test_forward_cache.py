from dataclasses import replace
from random import Random

import numpy as np
import pytest

from seedbed.golden.forward_cache import ForwardCache as Model
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.forward_cache import Session, case
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.memory_bench import MemoryBench
from seedbed.spec import FORWARD_CACHE_STATUS, ForwardCacheConfig

#: Long for the benches' memories, which pause at random, and short for the simulator.
WAITS = {"drain_cycles": 80, "timeout_cycles": 400}
CONFIGS = [
    # Pieces on both sides; short bursts; a vector that ends within a block.
    ForwardCacheConfig(
        lengths=(30, 9, 17), entries=30, block=16, beat_bits=32, store_lanes=8, fetch_lanes=2,
        burst=8, **WAITS,
    ),
    ForwardCacheConfig(
        lengths=(20, 3), entries=8, block=16, peak_width=8, beat_bits=64, store_lanes=4,
        fetch_lanes=16, burst=4, **WAITS,
    ),
    ForwardCacheConfig(
        lengths=(64, 40), entries=3, block=64, peak_width=4, store_lanes=16, fetch_lanes=32,
        burst=8, **WAITS,
    ),
    # A single beat of either sort; a single entry.
    ForwardCacheConfig(
        lengths=(5,), entries=1, block=8, beat_bits=32, store_lanes=8, fetch_lanes=8, burst=2,
        **WAITS,
    ),
    ForwardCacheConfig(
        lengths=(5,), entries=2, block=8, beat_bits=32, store_lanes=2, fetch_lanes=4, burst=2,
        **WAITS,
    ),
]  # fmt: skip
SMALL = CONFIGS[0]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(ForwardCache(config), case(config, Random(5)), stalls=stalls, seed=5)


def session(config, seed=1):
    return Session(config=config, rng=np.random.default_rng(seed))


def run(config, *asks):
    """Return the cycles of all transfers; each ask is a method's name and its arguments."""
    script, dut = session(config), ForwardCache(config)
    phases = []
    for name, *arguments in asks:
        getattr(script, name)(*arguments)
        phases.append(script.phase())
    return dut, simulate(dut, Case(phases=phases, quiet=True)).transfers


def test_latency():
    dut, moved = run(SMALL, ("store", 0), ("fetch", 0), ("fetch", 1))
    assert moved["o_command"][0] == moved["i"][0] + dut.latency
    assert moved["o_command"][-1] >= moved["i"][1] + dut.latency
    assert moved["o"][2] == moved["i"][2] + dut.miss_latency
    assert moved["o_write"][0] == moved["i_codes"][0] + 1
    assert moved["o_codes"][0] == moved["i_read"][SMALL.peak_beats] + 1


@pytest.mark.parametrize("lanes", [8, 4, 2])
def test_throughput(lanes):
    """Codes flow every cycle, whichever side is wider, over the ends of bursts too."""
    config = ForwardCacheConfig(
        lengths=(70, 9, 33), entries=8, block=16, beat_bits=32, store_lanes=lanes,
        fetch_lanes=lanes, burst=8,
    )  # fmt: skip
    _, moved = run(config, ("store", 3), ("fetch", 3))
    for port in ("i_codes", "o_codes"):
        beats = config.code_beats * config.store_pieces
        assert moved[port] == list(range(moved[port][0], moved[port][0] + beats))
    first = moved["o_write"][0]
    codes = [first + k * config.store_pieces for k in range(config.code_beats)]
    assert moved["o_write"][: config.code_beats] == codes


def test_cycles_of_an_image():
    """What a store and a fetch cost beyond memory's own time, as the docs have it."""
    config = ForwardCacheConfig(entries=8, fetch_lanes=32)
    _, moved = run(config, ("store", 0), ("fetch", 0))
    assert moved["o"][0] - moved["i"][0] == 70
    assert moved["o"][1] - moved["i"][1] == 69


@pytest.mark.parametrize("drain_cycles", [1, 80])
def test_requests_wait_until_no_entry_is_known(drain_cycles):
    config = replace(SMALL, drain_cycles=drain_cycles)
    _, moved = run(config, ("fetch", 0), ("clear",), ("fetch", 0))
    assert moved["i"][0] == max(config.entries, drain_cycles) + 1
    assert moved["o"][1] - moved["i"][1] == config.entries + 1


def bench(config, seed):
    return MemoryBench(ForwardCache(config), config.page, seed)


def test_behind_a_slow_memory():
    config = CONFIGS[1]
    script = session(config)
    for index in (0, 3, 7, 3, 5):
        script.fetch(index)
        script.store(index)
    for index in (7, 5, 3, 0, 1):
        script.fetch(index)
    phase = script.phase()

    async def process(ctx):
        assert await played.run_phase(ctx, phase) == played.expected(phase)

    played = bench(config, 3)
    played.run(process)
    model = Model(config)
    cells = {
        index * config.beats + k: word
        for index, entry in script.entries.items()
        for k, word in enumerate(model.words(entry))
    }
    assert played.memory.cells == cells


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("cycles", [110, 200, 250, 310, 380, 460])
def test_reset_in_the_middle(cycles, memory):
    """Whatever was cut, nothing remains, no hit either; memory may still answer old bursts."""
    config = CONFIGS[1]
    script = session(config)
    for index in (3, 4):
        script.store(index)
        script.fetch(index)
    before = script.phase()
    script.entries.clear()
    for index in (3, 4):
        script.fetch(index)
        script.store(index)
        script.fetch(index)
    after = script.phase()

    async def process(ctx):
        done = await played.run_phase(ctx, before, cycles=cycles)
        assert len(done["o"]) < len(before.outputs["o"])
        await played.reset(ctx, memory=memory)
        assert await played.run_phase(ctx, after) == played.expected(after)

    played = bench(config, cycles)
    played.run(process)


def faulty(kind, index, **wrong):
    """Return the answer to a fault, and to a fetch of that entry behind it."""
    script = session(SMALL)
    script.store(index)
    getattr(script, kind)(index, **wrong)
    script.fetch(index)
    phase = script.phase()
    simulate(ForwardCache(SMALL), Case(phases=[phase], quiet=True))
    return [FORWARD_CACHE_STATUS[code] for code in phase.outputs["o"][1:]]


WHOLE = SMALL.code_beats * SMALL.store_pieces


@pytest.mark.parametrize(
    ("kind", "wrong", "answers"),
    [
        ("fetch", {}, ["done", "done"]),
        ("fetch", {"bad_beat": 7}, ["memory", "done"]),
        ("fetch", {"bad_last": 7}, ["memory", "done"]),
        ("store", {}, ["done", "done"]),
        ("store", {"bad_burst": 0}, ["memory", "miss"]),
        ("store", {"last": 2}, ["frame", "miss"]),
        ("store", {"last": WHOLE + 3}, ["frame", "miss"]),
        ("store", {"last": WHOLE + 3, "bad_burst": 0}, ["frame", "miss"]),
    ],
)
def test_what_a_fault_leaves_behind(kind, wrong, answers):
    assert faulty(kind, 1, **wrong) == answers


def test_what_does_not_exist_changes_nothing():
    script = session(SMALL)
    script.store(1)
    script.store(SMALL.entries)
    script.fetch(SMALL.entries)
    script.unknown(1)
    script.fetch(1)
    phase = script.phase()
    assert [FORWARD_CACHE_STATUS[code] for code in phase.outputs["o"]] == [
        "done", "range", "range", "range", "done",
    ]  # fmt: skip
    simulate(ForwardCache(SMALL), Case(phases=[phase], quiet=True))


def test_the_answer_waits_for_memory():
    """A store is over when all of its bursts are answered."""
    script = session(SMALL)
    script.store(0)
    whole = script.phase()
    rest = {"i_response": whole.inputs["i_response"][1:]}
    first = whole.inputs | {"i_response": whole.inputs["i_response"][:1]}
    written = {name: whole.outputs[name] for name in ("o_command", "o_write")}
    phases = [
        Phase(inputs=first, outputs=written, after=whole.after),
        Phase(inputs=rest, outputs={"o": [0]}),
    ]
    moved = simulate(ForwardCache(SMALL), Case(phases=phases, quiet=True)).transfers
    assert moved["o"][0] > moved["i_response"][-1]


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        (
            {"lengths": 7},
            TypeError,
            r"lengths must be 1\.\.64 integers in 1\.\.65536, in a tuple, not 7",
        ),
        (
            {"lengths": ()},
            ValueError,
            r"lengths must be 1\.\.64 integers in 1\.\.65536, not 0 of them",
        ),
        ({"lengths": (5, 0)}, ValueError, r"every one of lengths must be in 1\.\.65536, not 0"),
        ({"lengths": (2.0,)}, TypeError, r"every one of lengths must be an integer"),
        ({"entries": 0}, ValueError, r"entries must be in 1\.\.65536, not 0"),
        ({"entries": 65537}, ValueError, r"entries must be in 1\.\.65536, not 65537"),
        ({"block": 16}, ValueError, r"block must be in 32\.\.4096, not 16"),
        ({"block": 48}, ValueError, r"block must be a multiple of the 32 codes of a beat.*not 48"),
        ({"peak_width": 2}, ValueError, r"peak_width must be a power of two in 4\.\.16, not 2"),
        ({"peak_width": 12}, ValueError, r"peak_width must be a power of two in 4\.\.16, not 12"),
        ({"beat_bits": 16}, ValueError, r"beat_bits must be a power of two in 32\.\.1024, not 16"),
        ({"beat_bits": 96}, ValueError, r"beat_bits must be a power of two in 32\.\.1024, not 96"),
        ({"store_lanes": 64}, ValueError, r"store_lanes must be a power of two in 2\.\.32, not 64"),
        ({"store_lanes": 24}, ValueError, r"store_lanes must be a power of two in 2\.\.32, not 24"),
        ({"fetch_lanes": 1}, ValueError, r"fetch_lanes must be a power of two in 2\.\.32, not 1"),
        ({"fetch_lanes": 12}, ValueError, r"fetch_lanes must be a power of two in 2\.\.32, not 12"),
        ({"burst": 1}, ValueError, r"burst must be a power of two in 2\.\.256, not 1"),
        ({"burst": 100}, ValueError, r"burst must be a power of two in 2\.\.256, not 100"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        ForwardCacheConfig(**params)
