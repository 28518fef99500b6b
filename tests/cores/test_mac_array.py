from random import Random

import numpy as np
import pytest
from amaranth.sim import Simulator

from seedbed.golden.mac_array import MacArray as GoldenMacArray
from seedbed.hw.products.mac_array import MacArray, beat_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.mac_array import case, frame
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import MacArrayConfig

#: Factors of 18 bits, without exponents.
WIDE = {"weight_width": 18, "activation_width": 18, "exponent_width": 0}
CONFIGS = [
    MacArrayConfig(),
    MacArrayConfig(lanes=6, blocks=2, weight_width=5, activation_width=4, exponent_width=0),
    # No tree in a block, none over the blocks, neither; five to one takes two stages.
    MacArrayConfig(lanes=5, blocks=5, weight_width=4, activation_width=3, exponent_width=5),
    MacArrayConfig(lanes=5, blocks=1, weight_width=4, activation_width=3, exponent_width=2),
    MacArrayConfig(lanes=1, blocks=1, weight_width=2, activation_width=2, exponent_width=1),
    # Wraps around; a known peak; few results.
    MacArrayConfig(lanes=4, blocks=2, accumulator_width=20),
    MacArrayConfig(lanes=8, blocks=1, weight_peak=3 << 18, beats=31),
    MacArrayConfig(lanes=4, blocks=2, results=2),
    # Several ways, with blocks, without a tree, and as in the layer engine; products and sums.
    MacArrayConfig(lanes=6, blocks=2, ways=3, exponent_width=0, beats=31),
    MacArrayConfig(lanes=1, blocks=1, ways=4, weight_width=3, exponent_width=0, products=True),
    MacArrayConfig(
        lanes=5, blocks=1, ways=4, accumulator_width=40, products=True, additions=1, **WIDE
    ),
    MacArrayConfig(lanes=4, blocks=2, products=True),
    MacArrayConfig(lanes=15, blocks=3, additions=1),
    # Several vectors, with exponents and without.
    MacArrayConfig(lanes=6, blocks=2, vectors=3, beats=31),
    MacArrayConfig(lanes=4, blocks=1, vectors=2, exponent_width=0, products=True),
]


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_matches_model(config, stalls):
    simulate(MacArray(config), case(config, Random(5)), stalls=stalls, seed=5)


def ones(config, beats):
    """Return the payloads of a frame of ones, with the least exponents."""
    fields = {
        "weights": np.ones((beats, config.ways * config.lanes), int),
        "activations": np.ones((beats, config.lanes), int),
        "on": np.ones((beats, config.blocks), int),
    }
    if config.exponent_width:
        fields["exponents"] = np.full((beats, config.blocks), -8)
    return frame(beat_layout(config), fields)


@pytest.mark.parametrize("beats", [1, 3])
@pytest.mark.parametrize(
    ("blocks", "params"),
    [(1, {}), (2, {}), (8, {}), (2, {"ways": 3, "exponent_width": 0}), (4, {"additions": 1})],
)
def test_latency_and_throughput(blocks, params, beats):
    config = MacArrayConfig(lanes=16, blocks=blocks, **params)
    dut = MacArray(config)
    sums = sum(16 * beats << way * config.accumulator_width for way in range(config.ways))
    phase = Phase(inputs={"i": ones(config, beats) * 60}, outputs={"o": [sums] * 60})
    transfers = simulate(dut, Case(phases=[phase], quiet=True)).transfers
    ends = transfers["i"][beats - 1 :: beats]
    assert transfers["o"] == [cycle + dut.latency for cycle in ends]
    assert transfers["i"] == list(
        range(transfers["i"][0], transfers["i"][0] + 60 * beats * dut.interval)
    )


def test_frames_wait_for_credit():
    config = MacArrayConfig(lanes=4, blocks=2, results=3)
    payloads = ones(config, 1)
    phases = [Phase(inputs={"i": payloads * 3}), Phase(inputs={"i": payloads})]
    phases[1].outputs["o"] = [4] * 4
    transfers = simulate(MacArray(config), Case(phases=phases, quiet=True)).transfers
    assert transfers["i"][3] > transfers["o"][0]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        MacArrayConfig(lanes=3, blocks=1, products=True, **WIDE),
        MacArrayConfig(lanes=4, blocks=2, ways=3, products=True, **WIDE),
        # Registers that are narrower than a product: its sign fills the rest.
        MacArrayConfig(lanes=2, blocks=2, weight_peak=5, products=True),
    ],
    ids=str,
)
def test_products_are_valid_two_cycles_after_their_beat(config, ends):
    """Also for beats at random cycles, for blocks that are off, and for frames without an end."""
    rng, random = np.random.default_rng(6), Random(6)
    dut, beats = MacArray(config), 60
    ways = (config.ways,) if config.ways > 1 else ()
    peak, half = config.weight_peak, 1 << (config.activation_width - 1)
    weights = rng.integers(-peak, peak, (beats, *ways, config.lanes))
    activations = rng.integers(-half, half, (beats, config.lanes))
    weights[:2], activations[0], activations[1] = -peak, -half, half - 1
    on = rng.integers(0, 2, (beats, config.blocks))
    expected = GoldenMacArray(config).products(weights, activations).reshape(beats, -1).tolist()
    layout = beat_layout(config)
    due = {}

    async def bench(ctx):
        sent = cycle = 0
        ctx.set(dut.o.ready, 1)
        while sent < beats or due:
            offers = sent < beats and random.random() < 0.7
            ctx.set(dut.i.valid, offers)
            if offers:
                rows = {"weights": weights[sent], "activations": activations[sent], "on": on[sent]}
                fields = {name: row.ravel().tolist() for name, row in rows.items()}
                beat = layout.const(fields | {"first": sent % 5 == 0, "last": ends})
                ctx.set(dut.i.payload, beat)
                assert ctx.get(dut.i.ready)
                due[cycle + 2] = expected[sent]
                sent += 1
            if cycle in due:
                assert [ctx.get(product) for product in dut.products] == due.pop(cycle)
            assert ends or not ctx.get(dut.o.valid)
            await ctx.tick()
            cycle += 1

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 0}, ValueError, r"lanes must be in 1\.\.1024, not 0"),
        ({"lanes": 1.0}, TypeError, r"lanes must be an integer in 1\.\.1024, not 1\.0"),
        ({"lanes": 1025}, ValueError, r"lanes must be in 1\.\.1024, not 1025"),
        ({"blocks": 33}, ValueError, r"blocks must be in 1\.\.32, not 33"),
        ({"blocks": 5}, ValueError, r"blocks must divide the 32 lanes, not 5"),
        ({"weight_width": 1}, ValueError, r"weight_width must be in 2\.\.32, not 1"),
        ({"additions": 3}, ValueError, r"additions must be in 1..2, not 3"),
        ({"weight_peak": -1}, ValueError, r"weight_peak must be in 1\.\.1048576, not -1"),
        ({"weight_peak": 1 << 21}, ValueError, r"weight_peak must be in 1\.\.1048576, not"),
        ({"activation_width": 33}, ValueError, r"activation_width must be in 2\.\.32, not 33"),
        ({"exponent_width": 6}, ValueError, r"exponent_width must be in 0\.\.5, not 6"),
        ({"ways": 0}, ValueError, r"ways must be in 1\.\.16, not 0"),
        ({"ways": 17}, ValueError, r"ways must be in 1\.\.16, not 17"),
        ({"ways": 2}, ValueError, r"2 ways share a beat.*: exponent_width must be 0, not 4"),
        ({"products": 1}, TypeError, r"products must be True or False, not 1"),
        ({"beats": 0}, ValueError, r"beats must be in 1\.\.65536, not 0"),
        ({"beats": 256}, ValueError, r"frames of 256 beats need 65 bits: give fewer.*in 2\.\.64"),
        ({"accumulator_width": 65}, ValueError, r"accumulator_width must be in 2\.\.64, not 65"),
        ({"results": 1}, ValueError, r"results must be in 2\.\.1024, not 1"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        MacArrayConfig(**params)
