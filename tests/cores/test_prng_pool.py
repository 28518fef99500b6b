from itertools import pairwise
from random import Random

import pytest
from amaranth.sim import Simulator

from seedbed.golden.prng_pool import PrngPool as Model
from seedbed.golden.prng_pool import Request
from seedbed.hw.generators.prng_pool import PrngPool
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.prng_pool import case, pack_beats, pack_numbers, pack_requests
from seedbed.sim.harness import Stalls, simulate, with_stalls
from seedbed.spec import PoolConfig

CONFIGS = [
    PoolConfig(),
    PoolConfig(lanes=1),
    PoolConfig(lanes=5, banks=4, register=False),
    PoolConfig(size=1000, lanes=31),
    PoolConfig(size=4095, lanes=32, banks=16, width=8),
    # Wraps around at nearly every beat.
    PoolConfig(size=13, lanes=8, width=5),
    PoolConfig(size=21, lanes=8, banks=2, register=False),
    PoolConfig(size=33, lanes=32, banks=4),
    PoolConfig(size=8 * 3, lanes=5, banks=8),
    # One row; as many numbers as lanes; one bank.
    PoolConfig(size=3, lanes=3, banks=8, width=4),
    PoolConfig(size=31, lanes=31, banks=1, width=4),
    PoolConfig(size=5, lanes=1, banks=1, contents=(1, -2, 3, -4, 5)),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    full = config.size <= 100
    simulate(PrngPool(config), case(config, Random(7), full=full), stalls=stalls, seed=7)


def test_loads_the_whole_pool():
    config = PoolConfig()
    simulate(PrngPool(config), case(config, Random(8), full=True), seed=8)


@pytest.mark.parametrize("register", [True, False])
def test_latency_and_throughput(register):
    config = PoolConfig(register=register)
    dut = PrngPool(config)
    requests = [Request(8)] * 600 + [Request(3, last=True)]
    beats = pack_beats(config, Model(config).beats(requests), requests)
    phase = Phase(inputs={"i": pack_requests(config, requests)}, outputs={"o": beats})
    transfers = simulate(dut, Case(phases=[phase], quiet=True)).transfers
    assert dut.latency == (2 if register else 1)
    assert transfers["o"] == [cycle + dut.latency for cycle in transfers["i"]]
    assert transfers["i"] == list(
        range(transfers["i"][0], transfers["i"][0] + len(requests) * dut.interval)
    )


@pytest.mark.parametrize(("lanes", "banks"), [(8, 8), (8, 2), (1, 4)])
def test_load_throughput(lanes, banks):
    config = PoolConfig(size=100, lanes=lanes, banks=banks)
    dut = PrngPool(config)
    phase = Phase(inputs={"i_pool": pack_numbers(config, list(range(100)))})
    cycles = simulate(dut, Case(phases=[phase])).transfers["i_pool"]
    steps = [after - before for before, after in pairwise(cycles)]
    assert steps == [dut.load_interval * (2 if k < lanes - 1 else 1) for k in range(1, config.size)]


def test_load_wraps_around_at_the_end():
    """Without ``last`` at the last index, the next number is written to index 0."""
    config = PoolConfig(size=13, lanes=4)
    model = Model(config)
    model.load(range(100, 113))
    model.load([-1, -2])
    numbers = [x & 0xFFF for x in [*range(100, 113), -1, -2]]
    requests = [Request(4)] * 8
    beats = pack_beats(config, model.beats(requests), requests)
    phases = [
        Phase(inputs={"i_pool": numbers}),
        Phase(inputs={"i": pack_requests(config, requests)}, outputs={"o": beats}),
    ]
    simulate(PrngPool(config), Case(phases=phases))


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("register", [True, False])
def test_no_request_is_accepted_while_a_number_is_loaded(register, stalls):
    """None is lost or answered twice; the loaded numbers equal the present contents."""
    config = PoolConfig(size=13, lanes=4, register=register)
    requests = [Request(3)] * 50
    beats = pack_beats(config, Model(config).beats(requests), requests)
    inputs = {
        "i": pack_requests(config, requests),
        "i_pool": pack_numbers(config, list(config.contents)),
    }
    bench = Case(phases=[Phase(inputs=inputs, outputs={"o": beats})], quiet=True)
    transfers = simulate(PrngPool(config), bench, stalls=stalls).transfers
    if stalls is Stalls.NONE:
        assert transfers["i"][0] == transfers["i_pool"][-1] + 1


@pytest.mark.parametrize("register", [True, False])
def test_valid_does_not_wait_for_ready(register):
    dut = PrngPool(PoolConfig(size=13, register=register))

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        for _ in range(dut.latency):
            assert not ctx.get(dut.o.valid)
            await ctx.tick()
        assert ctx.get(dut.o.valid)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"size": 2}, ValueError, r"size must be in 3\.\.65535, not 2"),
        ({"size": 65536}, ValueError, r"size must be in 3\.\.65535, not 65536"),
        ({"size": 4096}, ValueError, r"size must not be a power of two.*use 4095.*not 4096"),
        ({"size": 40.0}, TypeError, r"size must be an integer in 3\.\.65535, not 40\.0"),
        ({"width": 3}, ValueError, r"width must be in 4\.\.24, not 3"),
        ({"width": 25}, ValueError, r"width must be in 4\.\.24, not 25"),
        ({"lanes": 0}, ValueError, r"lanes must be in 1\.\.32, not 0"),
        ({"lanes": 33}, ValueError, r"lanes must be in 1\.\.32, not 33"),
        ({"size": 7}, ValueError, r"8 lanes need a pool.*size must be at least 8, not 7"),
        ({"banks": 0}, ValueError, r"banks must be in 1\.\.32, not 0"),
        ({"banks": 64}, ValueError, r"banks must be in 1\.\.32, not 64"),
        ({"banks": 6}, ValueError, r"banks must be a power of two, not 6"),
        ({"register": 1}, TypeError, r"register must be True or False, not 1"),
        (
            {"contents": (1, 2)},
            ValueError,
            r"contents must be 4095 integers in -2048\.\.2047, not 2 of them",
        ),
        (
            {"size": 9, "contents": (0,) * 8 + (2048,)},
            ValueError,
            r"every one of contents must be in -2048\.\.2047, not 2048",
        ),
        (
            {"size": 9, "contents": (0.5,) * 9},
            TypeError,
            r"every one of contents must be an integer in -2048\.\.2047, not 0\.5",
        ),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        PoolConfig(**params)
