from random import Random

import numpy as np
import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.golden.nf4 import Nf4 as Model
from seedbed.hw.weights.nf4 import Nf4, Nf4Dequantise, Nf4Quantise
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.nf4 import case, codes_payloads, random_vector, values_payloads
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.verilog.verilate import lint
from seedbed.spec import Nf4Config
from seedbed.spec.fixed import Q8_16, Fixed

CONFIGS = [
    Nf4Config(),
    Nf4Config(values=Q8_16, lanes=8, dequantise_lanes=2, thresholds=5),
    # One beat per block; one number per beat; no power of two, and one beat per cycle.
    Nf4Config(block=8, lanes=8, dequantise_lanes=4, thresholds=15),
    Nf4Config(block=5, lanes=1, dequantise_lanes=1, thresholds=15),
    Nf4Config(block=1, thresholds=1),
    Nf4Config(block=21, lanes=7, dequantise_lanes=3, thresholds=15),
    # Peaks with all bits; with as few bits as allowed, without rounding; narrow formats.
    Nf4Config(block=12, values=Fixed(12, 8), peak_width=11, level_fraction=6, thresholds=1),
    Nf4Config(block=8, values=Fixed(12, 8), peak_width=5, level_fraction=6),
    Nf4Config(block=8, values=Fixed(5, 2), peak_width=4, level_fraction=16),
    Nf4Config(block=4, values=Fixed(32, 16), peak_width=16, level_fraction=15),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(Nf4(config), case(config, Random(5), beats=60), stalls=stalls, seed=5)


def quantised(config, lengths):
    """Return a case of the quantiser alone, with vectors of such lengths, and its beats."""
    rng, phase = np.random.default_rng(7), Phase(inputs={"i": []}, outputs={"o": []})
    for length in lengths:
        x = random_vector(config, rng, length)
        filled = np.pad(x, (0, -length % config.lanes))
        phase.inputs["i"] += values_payloads(config, x, config.lanes)
        phase.outputs["o"] += codes_payloads(config, *Model(config).quantise(filled), config.lanes)
    return Case(phases=[phase], quiet=True), len(phase.inputs["i"])


@pytest.mark.parametrize("beats", [1, 2, 8])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("thresholds", [1, 3, 5, 15])
def test_quantiser_latency_and_throughput(lanes, beats, thresholds):
    config = Nf4Config(block=lanes * beats, lanes=lanes, thresholds=thresholds)
    dut = Nf4Quantise(config)
    stimulus, total = quantised(config, [12 * config.block, lanes, lanes, 5 * config.block])
    transfers = simulate(dut, stimulus).transfers
    first = transfers["i"][beats - 1] + dut.latency
    assert dut.interval == 15 // thresholds
    assert transfers["o"] == [first + dut.interval * t for t in range(total)]


def test_vectors_of_a_cache_entry():
    """The outputs of LeNet-5's five layers, one after the other."""
    config = Nf4Config()
    stimulus, beats = quantised(config, [1176, 400, 120, 84, 10])
    assert beats == 58
    assert simulate(Nf4Quantise(config), stimulus).transfers["o"][-1] < 310


@pytest.mark.parametrize("lanes", [1, 8])
def test_dequantiser_latency_and_throughput(lanes):
    config = Nf4Config(dequantise_lanes=lanes)
    dut = Nf4Dequantise(config)
    rng = np.random.default_rng(8)
    codes, peaks = rng.integers(0, 16, 320), rng.integers(0, 1 << 16, 5)
    values = Model(config).dequantise(codes, peaks)
    phase = Phase(
        inputs={"i": codes_payloads(config, codes, peaks, lanes)},
        outputs={"o": values_payloads(config, values, lanes)},
    )
    transfers = simulate(dut, Case(phases=[phase], quiet=True)).transfers
    assert transfers["i"] == list(
        range(transfers["i"][0], transfers["i"][0] + 320 // lanes * dut.interval)
    )
    assert transfers["o"] == [cycle + dut.latency for cycle in transfers["i"]]


def test_quantiser_accepts_the_next_block_while_its_output_is_stalled():
    """A block and the beats after it are accepted until the FIFO is full, and no more."""
    config = Nf4Config(block=8, lanes=4)
    stimulus, _ = quantised(config, [160])
    dut = Nf4Quantise(config)
    stopped = Phase(inputs={"i": stimulus.phases[0].inputs["i"][:4]})
    rest = Phase(
        inputs={"i": stimulus.phases[0].inputs["i"][4:]}, outputs=stimulus.phases[0].outputs
    )
    transfers = simulate(dut, Case(phases=[stopped, rest], quiet=True)).transfers
    assert transfers["i"][3] < transfers["o"][0]


@pytest.mark.parametrize("thresholds", [1, 15])
def test_counters_have_at_least_one_bit(thresholds, tmp_path):
    path = write(CORES["nf4"], {"block": 1, "thresholds": thresholds}, tmp_path)
    assert lint(path, "nf4") == []


@pytest.mark.parametrize(
    ("block", "lanes", "dequantise_lanes"),
    [(64, 32, 8), (7, 1, 1), (12, 4, 4), (16, 16, 8), (1, 1, 1)],
)
def test_lanes_that_are_not_given_divide_the_block(block, lanes, dequantise_lanes):
    config = Nf4Config(block=block)
    assert (config.lanes, config.dequantise_lanes) == (lanes, dequantise_lanes)


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": -1}, ValueError, r"lanes must be in 1\.\.256, not -1"),
        ({"lanes": 257}, ValueError, r"lanes must be in 1\.\.256, not 257"),
        ({"lanes": 8.0}, TypeError, r"lanes must be an integer in 1\.\.256, not 8\.0"),
        ({"lanes": 24}, ValueError, r"^lanes must divide the block of 64 numbers, not 24"),
        ({"dequantise_lanes": 257}, ValueError, r"dequantise_lanes must be in 1\.\.256, not 257"),
        ({"dequantise_lanes": 3}, ValueError, r"^dequantise_lanes must divide the block of 64 num"),
        ({"thresholds": 0}, ValueError, r"thresholds must be in 1\.\.15, not 0"),
        ({"thresholds": 16}, ValueError, r"thresholds must be in 1\.\.15, not 16"),
        ({"thresholds": 4}, ValueError, r"thresholds must be 1, 3, 5 or 15, not 4"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        Nf4Config(**params)
