from random import Random

import numpy as np
import pytest
from amaranth.hdl import Value

from seedbed.hw.weights import seedlm_decompress
from seedbed.hw.weights.lut_dequantize import LutDequantize, beat_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.lut_dequantize import case, phase, rows
from seedbed.sim.harness import simulate, with_stalls
from seedbed.spec import LutDequantizeConfig, SeedlmDecompressConfig

CONFIGS = [
    LutDequantizeConfig(),
    LutDequantizeConfig(lanes=1, width=2),
    LutDequantizeConfig(lanes=3, width=5, load=2),
    # More than one copy of a table's write data.
    LutDequantizeConfig(lanes=18, width=32, load=4),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(LutDequantize(config), case(config, Random(5)), stalls=stalls, seed=5)


def run(config, lengths):
    stimulus = phase(config, rows(config, np.random.default_rng(3), lengths))
    dut = LutDequantize(config)
    return dut, simulate(dut, Case(phases=[stimulus], quiet=True)).transfers


@pytest.mark.parametrize("load", [1, 2, 4])
@pytest.mark.parametrize("longer", [0, 3])
def test_latency_and_throughput(load, longer):
    config = LutDequantizeConfig(lanes=2, load=load)
    beats = config.beats + longer
    dut, transfers = run(config, [beats] * 6)
    assert transfers["o"] == [cycle + dut.latency for cycle in transfers["i"]]
    first = transfers["i"][0]
    assert first == transfers["i_levels"][config.beats - 1] + 1
    assert transfers["i"] == list(range(first, first + 6 * beats * dut.interval))


@pytest.mark.parametrize("load", [1, 4])
def test_short_rows_take_as_long_as_their_tables(load):
    config = LutDequantizeConfig(lanes=2, load=load)
    _, transfers = run(config, [1] * 8)
    waits = np.diff(transfers["i"][2:])
    assert (waits == config.beats).all()


def test_a_row_waits_for_its_table():
    config = LutDequantizeConfig(lanes=2)
    whole = phase(config, rows(config, np.random.default_rng(3), [2]))
    levels = whole.inputs["i_levels"]
    first = Phase(inputs={"i_levels": levels[:-1]})
    rest = Phase(inputs={"i_levels": levels[-1:], "i": whole.inputs["i"]}, outputs=whole.outputs)
    transfers = simulate(LutDequantize(config), Case(phases=[first, rest])).transfers
    assert transfers["i"][0] == transfers["i_levels"][-1] + 1


def test_two_tables_are_loaded_ahead_and_no_more():
    config = LutDequantizeConfig(lanes=2)
    whole = phase(config, rows(config, np.random.default_rng(3), [1, 1, 1]))
    levels = whole.inputs["i_levels"]
    first = Phase(inputs={"i_levels": levels[:32]})
    rest = Phase(inputs={"i_levels": levels[32:], "i": whole.inputs["i"]}, outputs=whole.outputs)
    transfers = simulate(LutDequantize(config), Case(phases=[first, rest])).transfers
    assert transfers["i_levels"][32] > transfers["i"][0]


def test_weights_are_laid_out_as_those_of_the_decompressor():
    """A consumer of one takes the other, if it has as many lanes and one exponent."""
    blocks = SeedlmDecompressConfig(blocks=1)
    lut = LutDequantizeConfig(lanes=blocks.block, width=blocks.sum_width)
    mine, theirs = beat_layout(lut), seedlm_decompress.beat_layout(blocks)
    assert Value.cast(mine.const({})).shape() == Value.cast(theirs.const({})).shape()
    assert [(n, f.offset, f.width) for n, f in mine] == [(n, f.offset, f.width) for n, f in theirs]


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 0}, ValueError, r"lanes must be in 1\.\.1024, not 0"),
        ({"lanes": 1.0}, TypeError, r"lanes must be an integer in 1\.\.1024, not 1\.0"),
        ({"width": 1}, ValueError, r"width must be in 2\.\.32, not 1"),
        ({"width": 33}, ValueError, r"width must be in 2\.\.32, not 33"),
        ({"load": 0}, ValueError, r"load must be in 1\.\.4, not 0"),
        ({"load": 3}, ValueError, r"load must be 1, 2 or 4, not 3"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        LutDequantizeConfig(**params)
