from math import prod
from random import Random

import pytest
from amaranth.sim import Simulator

from seedbed.flow.jobs.lutopt import connection_polynomial, search
from seedbed.flow.jobs.primitive import is_primitive, is_probable_prime, may_be_irreducible
from seedbed.golden import lutopt as golden
from seedbed.hw.generators.lutopt import Lutopt
from seedbed.sim.cases.lutopt import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import LutoptConfig
from seedbed.spec.lutopt import DRAWS, PRIMES, draw, factors

CONFIGS = [
    LutoptConfig(lanes=4, width=4),
    LutoptConfig(lanes=8, width=5),
    LutoptConfig(lanes=32, width=5, seeding="word"),
    LutoptConfig(),
    LutoptConfig(seeding="word"),
    LutoptConfig(lanes=128, width=5, seeding="word"),
]


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_matches_model(config, stalls):
    beats = 60 if config.bits < 500 else 20
    simulate(Lutopt(config), case(config, Random(7), beats=beats), stalls=stalls, seed=7)


@pytest.mark.parametrize("config", CONFIGS[:4], ids=str)
def test_latency_and_throughput(config):
    """Beats in a row without stalls, and the first one ``latency`` cycles after the load's end."""
    rtl = Lutopt(config)
    stimulus = case(config, Random(7), beats=40)
    result = simulate(rtl, stimulus)
    port = "i_state" if config.seeding == "serial" else "i_seed"
    loads, received = result.transfers[port], result.transfers["o"]
    frame = len(stimulus.phases[1].inputs[port])
    for k in range(3):
        end = loads[(k + 1) * frame - 1]
        after = [cycle for cycle in received if cycle > end][:40]
        assert after == list(range(end + rtl.latency, end + rtl.latency + 40))


def test_save_and_restore():
    """A state leaves while another enters; and stays if it is fed back. The same words follow."""
    config = LutoptConfig(lanes=8, width=5)
    dut, random = Lutopt(config), Random(1)
    other = golden.load_beats(config, [random.getrandbits(5) | 1 for _ in range(8)])

    async def load(ctx, beats):
        """Load beats, or feed back what leaves; return what left."""
        out = []
        ctx.set(dut.i_state.valid, 1)
        while len(out) < config.width:
            saved = ctx.get(dut.saved.as_value())
            bits = saved if beats is None else beats[len(out)]
            ctx.set(dut.i_state.payload.bits.as_value(), bits)
            ctx.set(dut.i_state.payload.last, len(out) == config.width - 1)
            if ctx.get(dut.i_state.ready):
                out.append(saved)
            await ctx.tick()
        ctx.set(dut.i_state.valid, 0)
        return out

    async def read(ctx, count):
        words = []
        for _ in range(count):
            assert ctx.get(dut.o.valid)
            words.append(ctx.get(dut.o.payload.as_value()))
            await ctx.tick()
        return words

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        await read(ctx, 7)
        marked = ctx.get(dut.o.payload.as_value())
        saved = await load(ctx, other)
        assert saved == golden.load_beats(config, [marked >> 5 * k & 31 for k in range(8)])
        await read(ctx, 9)
        await load(ctx, saved)
        first = await read(ctx, 20)
        assert first[0] == marked
        await load(ctx, saved)
        assert await load(ctx, None) == saved
        assert await read(ctx, 20) == first

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 30}, ValueError, r"a proven size \(4 x 4, .*\), not 30 x 14: `seedbed lutopt s"),
        ({"lanes": 31.0}, TypeError, r"lanes must be an integer in 1..1024, not 31.0"),
        ({"width": 1}, ValueError, r"width must be in 2..24, not 1"),
        ({"taps": 2}, ValueError, r"taps must be in 3..6, not 2"),
        ({"taps": 4}, ValueError, r"a proven size \(none with 4 taps\), not 31 x 14"),
        ({"seeding": "grown"}, ValueError, "seeding must be one of serial, word"),
        ({"lanes": 4, "width": 4, "seeding": "word"}, ValueError, "needs 64 bits of state or more"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        LutoptConfig(**params)


@pytest.mark.parametrize("exponent", PRIMES)
def test_factors(exponent):
    """The table's primes are prime, and all that divide 2^k - 1: by multiplication."""
    period, product = 2**exponent - 1, 1
    try:
        primes = factors(exponent)
    except ValueError:
        pytest.fail(f"a divisor of {exponent} is not in the table")
    assert len(set(primes)) == len(primes)
    for prime in primes:
        assert exponent > 1000 or is_probable_prime(prime)
        while period % (product * prime) == 0:
            product *= prime
    assert product == period


@pytest.mark.parametrize(("size", "seed"), DRAWS.items(), ids=str)
def test_matrix_has_the_full_period(size, seed):
    """The proof of each row of the table."""
    lanes, width, taps = size
    polynomial, order = connection_polynomial(draw(lanes, width, taps, seed))
    assert order == lanes * width == polynomial.bit_length() - 1
    assert is_primitive(polynomial, factors(lanes * width))


@pytest.mark.parametrize("size", [(4, 4, 3), (8, 5, 3)])
def test_search_finds_the_table(size):
    lanes, width, taps = size
    tried = []
    assert search(lanes, width, taps=taps, progress=tried.append) == DRAWS[size]
    assert tried == list(range(DRAWS[size] + 1))


def test_primitive_polynomials():
    """x^4 + x + 1 is; x^4 + x^3 + x^2 + x + 1 is irreducible, and its x has order 5."""
    assert is_primitive(0b10011, (3, 5))
    assert may_be_irreducible(0b11111)
    assert not is_primitive(0b11111, (3, 5))
    # x^4 + x^2 + 1 = (x^2 + x + 1)^2, and a multiple of x.
    assert not is_primitive(0b10101, (3, 5))
    assert not is_primitive(0b10010, (3, 5))
    with pytest.raises(ValueError, match="degree 2 or more"):
        is_primitive(0b10, (1,))


def test_primality():
    assert [n for n in range(60) if is_probable_prime(n)] == [
        2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59,
    ]  # fmt: skip
    assert is_probable_prime(2**127 - 1)
    # Carmichael numbers, and a product of two of the table's primes.
    for composite in (561, 825265, 5209 * 62497, prod(PRIMES[124])):
        assert not is_probable_prime(composite)


@pytest.mark.parametrize(
    ("lanes", "width", "sentence"),
    [
        (31, 15, r"those of 2\^93 - 1 are not in the table|2\^15 - 1 are not"),
        (0, 4, "lanes must be in 1..1024, not 0"),
        (2, 2, "3 taps need at least 6 bits of state, not 4"),
    ],
)
def test_search_refuses(lanes, width, sentence):
    with pytest.raises(ValueError, match=sentence):
        search(lanes, width)


def test_search_command(called, tmp_path):
    code, printed, _ = called(
        ["lutopt", "search", "--lanes", "8", "--width", "5", "--seed", "150"], tmp_path
    )
    assert (code, printed) == (0, f"(8, 5, 3): {DRAWS[8, 5, 3]},\n")
    code, _, error = called(["lutopt", "search", "--lanes", "31", "--width", "3"], tmp_path)
    assert code == 2
    assert error.startswith("error: the prime factors of 2^93 - 1 must be known")
