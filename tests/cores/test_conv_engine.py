# amaranth: UnusedElaboratable=no
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.conv_engine import ConvEngine, image_layout
from seedbed.hw.engine.layer_sequencer import LayerSequencer
from seedbed.hw.engine.step_constants import StepConstants
from seedbed.hw.products import mac_array
from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase
from seedbed.sim.cases.conv_engine import (
    case,
    drawn,
    fault,
    image_payloads,
    images,
    ran,
    word_payloads,
)
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec import ConvEngineConfig
from seedbed.spec.engine import FRAMES
from seedbed.spec.fixed import Q8_16, Fixed
from seedbed.spec.network import LENET5, Layer, NetworkConfig

#: A map for its outputs, padding behind the first layer, groups that are not full.
MAP = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(2, 4, 5), outputs=5, kernel=3, padding=1),
        Layer(name="b", kind="conv", inputs=(5, 4, 5), outputs=3, kernel=2, padding=1, relu=False),
    )
)
#: A window that is a beat, several in one, pooling in threes, ReLU at the end.
SQUARES = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(4, 4, 4), outputs=2, kernel=2),
        Layer(name="b", kind="conv", inputs=(2, 3, 3), outputs=3, kernel=1, pool=1),
        Layer(name="c", kind="conv", inputs=(3, 3, 3), outputs=3, kernel=4, padding=3, pool=3),
    )
)
#: An image in one beat, that it does not fill.
DENSE = NetworkConfig((Layer(name="a", kind="dense", inputs=(5, 1, 3), outputs=4, relu=False),))
#: No biases, so that beats may be full: a window of a whole beat, and a vector of one.
BARE = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(2, 3, 3), outputs=4, kernel=2, bias=False),
        Layer(name="b", kind="dense", inputs=(16, 1, 1), outputs=3, bias=False, relu=False),
    )
)
#: Overlapping windows, of which the last column is in no square; windows with gaps between them.
STRIDED = NetworkConfig(
    (
        Layer(
            name="a", kind="conv", inputs=(3, 11, 10), outputs=5, kernel=3, padding=1, stride=2,
            pool=2,
        ),
        Layer(name="b", kind="conv", inputs=(5, 3, 2), outputs=3, kernel=2, padding=1, stride=3),
        Layer(name="c", kind="dense", inputs=(6, 1, 1), outputs=4, relu=False),
    )
)  # fmt: skip
CONFIGS = [
    ConvEngineConfig(network="tiny", lanes=16),
    ConvEngineConfig(network="tiny", lanes=8, ways=2, values=Q8_16),
    ConvEngineConfig(network=MAP, lanes=16, ways=4, values=Fixed(12, 8), weights=Fixed(10, 7)),
    ConvEngineConfig(network=SQUARES, lanes=8, ways=1, weights=Fixed(9, 0)),
    ConvEngineConfig(network=DENSE, lanes=32, ways=2),
    ConvEngineConfig(network=BARE, lanes=8, ways=2),
    # A row of a window in two beats, and all rows in one.
    ConvEngineConfig(network=STRIDED, lanes=8, ways=2),
    ConvEngineConfig(network=STRIDED, lanes=32, ways=4),
]
SMALL = CONFIGS[1]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS))
def test_matches_model(config, stalls):
    simulate(ConvEngine(config), case(config, Random(5), count=2), stalls=stalls, seed=5)


def session(config, count, seed=1):
    """Return a model, the phase of its parameters, and so many images with their results."""
    rng = np.random.default_rng(seed)
    model = drawn(config, rng)
    packet = Phase(inputs={"i_parameters": word_payloads(config, model.words())})
    found = [(image_payloads(config, x, rng), ran(model, x)) for x in images(config, rng, count)]
    return model, packet, found


@pytest.mark.parametrize("config", [SMALL, CONFIGS[0], CONFIGS[4]], ids=["tiny", "16", "dense"])
def test_latency_and_throughput(config):
    _, packet, found = session(config, 3)
    dut = ConvEngine(config)
    inputs = {"i": [payload for sent, _ in found for payload in sent]}
    outputs = {"o": [payload for _, came in found for payload in came]}
    phases = [packet, Phase(inputs=inputs, outputs=outputs)]
    moved = simulate(dut, Case(phases=phases, quiet=True)).transfers
    beats = config.image_beats
    each = len(outputs["o"]) // 3
    assert moved["i_parameters"] == list(range(config.parameter_beats))
    assert moved["o"][each - 1] == moved["i"][beats - 1] + dut.latency
    ends = moved["o"][each - 1 :: each]
    assert {after - before for before, after in pairwise(ends)} == {dut.interval}


def test_a_bench_waits_for_as_long_as_an_image_takes():
    config = ConvEngineConfig(network="lenet5", lanes=8, ways=2)
    timeout = case(config, Random(1), count=1).timeout_cycles
    assert timeout > ConvEngine(config).interval > TIMEOUT_CYCLES


def test_lenet5_in_cycles():
    config = ConvEngineConfig()
    dut = ConvEngine(config)
    assert (config.image_beats, config.parameter_beats) == (196, 32320)
    assert dut.latency == dut.interval == 4051 + 5 * (10 + 9) + 5
    simulate(dut, Case(phases=[]))


@pytest.mark.parametrize("lanes", [8, 64])
def test_frames_in_flight_never_hold_up_the_sequencer(lanes):
    """A frame of one beat each cycle, from its issue until it has left the array."""
    config = ConvEngineConfig(network="tiny", lanes=lanes).engine
    issue = LayerSequencer.latency - StepConstants.latency
    assert issue + ActivationStore.latency + mac_array.latency(config.mac) < FRAMES


def test_without_biases_beats_are_full():
    steps = ConvEngineConfig(network=BARE, lanes=8, ways=2).engine.plan.steps
    layers = [replace(layer, bias=True) for layer in BARE.layers]
    biased = ConvEngineConfig(network=NetworkConfig(tuple(layers)), lanes=8, ways=2)
    assert [step.beats for step in steps] == [1, 2]
    assert [step.beats for step in biased.engine.plan.steps] == [2, 3]


def test_without_parameters():
    _, packet, ((image, results),) = session(SMALL, 1)
    phases = [
        Phase(inputs={"i": image}, outputs={"o": [fault(SMALL, "parameters")]}),
        packet,
        Phase(inputs={"i": image}, outputs={"o": results}),
    ]
    simulate(ConvEngine(SMALL), Case(phases=phases, quiet=True))


def test_parameters_wait_for_the_image_that_runs():
    """Its results are still of the old ones; those of the next image, which is there, are not."""
    _, packet, ((image, results),) = session(SMALL, 1)
    other, second, ((late, _),) = session(SMALL, 1, seed=2)
    beats = [image_layout(SMALL).from_bits(payload) for payload in late]
    x = np.array([list(beat.values) for beat in beats]).reshape(1, 6, 6)
    phases = [
        packet,
        Phase(inputs={"i": image + late}),
        second,
        Phase(outputs={"o": results + ran(other, x)}),
    ]
    dut = ConvEngine(SMALL)
    moved = simulate(dut, Case(phases=phases, quiet=True)).transfers
    ends = moved["i"][SMALL.image_beats - 1 :: SMALL.image_beats]
    assert moved["i_parameters"][SMALL.parameter_beats] > ends[0] + dut.latency
    assert ends[1] < ends[0] + dut.latency


@pytest.mark.parametrize("cycles", [7, 18, 25, 100, 180, 230])
def test_reset_in_the_middle(cycles):
    """Parameters stay; an image that was broken off leaves nothing behind."""
    _, packet, (first, second) = session(SMALL, 2)
    broken, whole = (Phase(inputs={"i": i}, outputs={"o": o}) for i, o in (first, second))

    async def process(ctx):
        await bench.run_phase(ctx, packet)
        came = await bench.run_phase(ctx, broken, cycles=cycles)
        assert len(came["o"]) < len(broken.outputs["o"])
        await bench.reset(ctx)
        assert await bench.run_phase(ctx, whole) == whole.outputs

    bench = ResetBench(ConvEngine(SMALL))
    bench.run(process)


def test_reset_in_the_middle_of_parameters():
    """What is not whole is not used, after a reset neither."""
    _, packet, ((image, results),) = session(SMALL, 1)
    refused = Phase(inputs={"i": image}, outputs={"o": [fault(SMALL, "parameters")]})
    whole = Phase(inputs={"i": image}, outputs={"o": results})

    async def process(ctx):
        await bench.run_phase(ctx, packet)
        await bench.run_phase(ctx, packet, cycles=30)
        await bench.reset(ctx)
        assert await bench.run_phase(ctx, refused) == refused.outputs
        await bench.run_phase(ctx, packet)
        assert await bench.run_phase(ctx, whole) == whole.outputs

    bench = ResetBench(ConvEngine(SMALL))
    bench.run(process)


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        (
            {"network": "lenet"},
            ValueError,
            r"network must be one of .*tiny, not 'lenet'",
        ),
        ({"lanes": 128}, ValueError, r"lanes must be in 8\.\.64, not 128"),
        ({"lanes": 48}, ValueError, r"lanes must be a power of two, not 48"),
        ({"ways": 32}, ValueError, r"ways must be in 1\.\.16, not 32"),
        ({"ways": 5}, ValueError, r"ways must be a power of two, not 5"),
        ({"values": Fixed(9, 8)}, ValueError, r"values must have room for 1, which Q1\.8 has not"),
        (
            {"values": Fixed(33, 12), "weights": Fixed(8, 4)},
            ValueError,
            r"activation_width must be in 2\.\.32, not 33",
        ),
        (
            {"values": Fixed(8, 4), "weights": Fixed(33, 12)},
            ValueError,
            r"weight_width must be in 2\.\.32, not 33",
        ),
        (
            {"values": Fixed(32, 12), "weights": Fixed(30, 12)},
            ValueError,
            r"the bits of a layer's sum of weights by values must be in 2\.\.53, not 69",
        ),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        ConvEngineConfig(**params)


def test_a_network_by_name():
    assert ConvEngineConfig(network="lenet5") == ConvEngineConfig(network=LENET5)
