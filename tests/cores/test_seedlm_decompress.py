from random import Random

import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module, Value
from amaranth.sim import Simulator

from seedbed.golden import seedlm
from seedbed.hw.weights.seedlm_decompress import SeedlmDecompress
from seedbed.sim.case import Case
from seedbed.sim.cases.seedlm_decompress import case, corners, phase
from seedbed.sim.harness import Mismatch, simulate, with_stalls
from seedbed.spec import SeedlmDecompressConfig

CONFIGS = [
    SeedlmDecompressConfig(blocks=2),
    SeedlmDecompressConfig(blocks=1, word_bits=8),
    SeedlmDecompressConfig(blocks=1, additions=1),
    # Delays of more beats than one LUTRAM has entries.
    SeedlmDecompressConfig(blocks=1, additions=1, queue=True),
    SeedlmDecompressConfig(blocks=2, block=4, latent=2, width=9, queue=True),
    SeedlmDecompressConfig(blocks=1, block=5, latent=4, width=9, word_bits=7, additions=1),
    SeedlmDecompressConfig(blocks=3, block=12, latent=4),
    # Words that begin where others end, or are shorter than their distance.
    SeedlmDecompressConfig(blocks=1, block=5, latent=4, width=13, word_bits=6),
    SeedlmDecompressConfig(blocks=2, block=7, latent=8, width=16, word_bits=3),
    # No edges; one of one bit; two of two bits.
    SeedlmDecompressConfig(blocks=2, block=5, latent=1, width=8),
    SeedlmDecompressConfig(blocks=1, block=32, latent=2, width=20),
    SeedlmDecompressConfig(blocks=1, block=3, latent=5, width=11),
    # Least of each.
    SeedlmDecompressConfig(blocks=1, block=1, latent=1, width=3),
    SeedlmDecompressConfig(blocks=1, block=2, latent=1, width=3, word_bits=2),
    SeedlmDecompressConfig(blocks=1, block=1, latent=8, width=4, word_bits=2),
    SeedlmDecompressConfig(blocks=1, block=6, latent=3, width=10, taps=(0, 7)),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    beats = case(config, Random(3), beats=40)
    simulate(SeedlmDecompress(config), beats, stalls=stalls, seed=3)


def test_sixteen_blocks_of_64_bytes():
    config = SeedlmDecompressConfig(blocks=16)
    assert config.blocks * config.block_bits == 8 * 64
    assert config.lanes == 128
    simulate(SeedlmDecompress(config), case(config, Random(4), beats=4), seed=4)


@pytest.mark.parametrize(
    ("params", "values"),
    [
        ({"width": 4, "block": 4, "latent": 2}, [range(-8, 8)] * 2),
        ({"width": 5, "block": 3, "latent": 2, "word_bits": 3}, [range(-8, 8)] * 2),
        ({"width": 3, "block": 3, "latent": 3}, [range(-8, 8), range(-8, 8), (-8, -1, 0, 7)]),
    ],
)
def test_every_seed_with_every_coefficient(params, values):
    """Of three coefficients, the last one is at its extremes or next to 0."""
    config = SeedlmDecompressConfig(blocks=16, **params)
    seeds, *q = np.meshgrid(range(1 << config.width), *values)
    exponents = np.arange(seeds.size) % 16 - 8
    coefficients = np.stack([nibble.ravel() for nibble in q], axis=-1)
    packed = seedlm.pack(config, seeds.ravel(), exponents, coefficients).tolist()
    lasts = [0] * (len(packed) // config.blocks)
    simulate(SeedlmDecompress(config), Case(phases=[phase(config, packed, lasts)], quiet=True))


def test_paper_example():
    """V(4) of K = 3, C = 4, P = 2 is [[2, 5], [6, 7], [3, 1], [4, 2]]."""
    config = SeedlmDecompressConfig(blocks=1, block=4, latent=2, width=3)
    words = np.array([[2, 5], [6, 7], [3, 1], [4, 2]])
    coefficients = np.array([[7, -8]])
    packed = seedlm.pack(config, np.array([4]), np.array([-3]), coefficients).tolist()
    bench = phase(config, packed, [1])
    dut = SeedlmDecompress(config)
    shown = dut.o.payload.shape().from_bits(bench.outputs["o"][0])
    assert [shown.weights[c] for c in range(4)] == ((words - 4) @ coefficients[0]).tolist()
    simulate(dut, Case(phases=[bench]))


def test_corners_reach_both_ends():
    """The greatest sum needs all bits but one of ``sum_width``, and a seed of 0."""
    config = SeedlmDecompressConfig()
    seeds, exponents, coefficients = seedlm.unpack(config, np.array(corners(config), np.uint64))
    sums = seedlm.sums(config, seeds, coefficients)
    assert sums.max() == 8 * config.latent * config.half
    assert sums.max().item().bit_length() == config.sum_width - 1
    assert {*exponents.tolist()} == {-8, 7}
    assert {0, 1, 0xFFFF} <= {*seeds.tolist()}
    assert [-8] * 3 in coefficients.tolist()
    assert [7] * 3 in coefficients.tolist()


@pytest.mark.parametrize(
    ("params", "latency"),
    [
        ({}, 16),
        ({"word_bits": 8}, 13),
        ({"block": 12, "latent": 4}, 20),
        ({"additions": 1}, 30),
        ({"queue": True}, 20),
        ({"block": 1, "latent": 1, "width": 3}, 3),
    ],
)
def test_latency_and_throughput(params, latency):
    config = SeedlmDecompressConfig(**{"blocks": 1} | params)
    dut = SeedlmDecompress(config)
    transfers = simulate(dut, case(config, Random(5), beats=50)).transfers
    assert dut.latency == latency
    assert transfers["o"] == [cycle + latency for cycle in transfers["i"]]
    first = transfers["i"][0]
    assert transfers["i"] == list(range(first, first + len(transfers["i"]) * dut.interval))


@pytest.mark.parametrize("queue", [False, True])
def test_no_beat_from_before_a_reset_comes_after_it(queue):
    """A cycle of reset, each time a cycle later, while beats are transferred or stalled."""
    config = SeedlmDecompressConfig(blocks=2, block=1, latent=1, width=3, queue=queue)
    random = Random(8)
    blocks = [random.getrandbits(config.block_bits) for _ in range(2 * 12)]
    bench = phase(config, blocks, [k % 2 for k in range(12)])
    given, wanted = bench.inputs["i"], bench.outputs["o"]
    m = Module()
    m.domains.sync = domain = ClockDomain()
    m.submodules.dut = dut = SeedlmDecompress(config)

    async def run(ctx, cycles, ready):
        """Send the beats in turn, and return the output beats."""
        sent, found = 0, []
        for _ in range(cycles):
            ctx.set(dut.i.valid, 1)
            ctx.set(Value.cast(dut.i.payload), given[sent % len(given)])
            ctx.set(dut.o.ready, ready())
            if ctx.get(dut.o.valid & dut.o.ready):
                found.append(ctx.get(Value.cast(dut.o.payload)))
            sent += ctx.get(dut.i.ready)
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        return found

    async def process(ctx):
        for cycle in range(1, 40):
            for most in (0, 1):
                await run(ctx, cycle, lambda m=most: random.randint(0, m))
                ctx.set(domain.rst, 1)
                await ctx.tick()
                ctx.set(domain.rst, 0)
                found = await run(ctx, 60, lambda: 1)
                assert len(found) > 30
                assert found == [wanted[k % len(wanted)] for k in range(len(found))]

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(process)
    simulator.run()


def test_valid_does_not_wait_for_ready():
    dut = SeedlmDecompress(SeedlmDecompressConfig(blocks=1, block=2, width=5))

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        for _ in range(dut.latency):
            assert not ctx.get(dut.o.valid)
            assert ctx.get(dut.i.ready)
            await ctx.tick()
        assert ctx.get(dut.o.valid)
        assert not ctx.get(dut.i.ready)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


def test_case_detects_a_wrong_word():
    """A decompressor of other taps does not pass."""
    right = SeedlmDecompressConfig(blocks=1, width=9)
    wrong = SeedlmDecompressConfig(blocks=1, width=9, taps=(0, 5))
    with pytest.raises(Mismatch, match="weights"):
        simulate(SeedlmDecompress(wrong), case(right, Random(6), beats=5))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"blocks": 0}, ValueError, r"blocks must be in 1\.\.32, not 0"),
        ({"queue": 1}, TypeError, "queue must be True or False, not 1"),
        ({"additions": 3}, ValueError, r"additions must be in 1\.\.2, not 3"),
        ({"blocks": 33}, ValueError, r"blocks must be in 1\.\.32, not 33"),
        ({"blocks": 2.0}, TypeError, r"blocks must be an integer in 1\.\.32, not 2\.0"),
        ({"block": 33}, ValueError, r"block must be in 1\.\.32, not 33"),
        ({"latent": 9}, ValueError, r"latent must be in 1\.\.8, not 9"),
        ({"width": 21}, ValueError, r"width must be in 3\.\.20, not 21"),
        ({"word_bits": 1}, ValueError, r"word_bits must be in 2\.\.16, not 1"),
        ({"width": 8, "word_bits": 9}, ValueError, r"word_bits must be in 2\.\.8, not 9"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        SeedlmDecompressConfig(**params)
