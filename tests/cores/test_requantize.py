from random import Random

import numpy as np
import pytest

from seedbed.hw.engine.requantize import Requantize, sums_layout, values_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.requantize import case, payloads
from seedbed.sim.harness import simulate, with_stalls
from seedbed.spec import RequantizeConfig

STOCHASTIC = {"rounding": "pseudo-stochastic"}
CONFIGS = [
    RequantizeConfig(entries=20),
    RequantizeConfig(entries=20, **STOCHASTIC),
    RequantizeConfig(ways=1, width=9, entries=2),
    RequantizeConfig(ways=1, width=9, entries=2, **STOCHASTIC),
    RequantizeConfig(ways=3, width=32, entries=17),
    RequantizeConfig(ways=3, width=32, entries=16, **STOCHASTIC),
    # Shifts of 3, 4 and 5 bits; odd and even greatest shifts.
    *(
        RequantizeConfig(ways=2, width=width, entries=33, rounding=rounding)
        for width in (10, 15, 24)
        for rounding in ("nearest", "pseudo-stochastic")
    ),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(Requantize(config), case(config, Random(5)), stalls=stalls, seed=5)


@pytest.mark.parametrize("rounding", ["nearest", "pseudo-stochastic"])
@pytest.mark.parametrize(("beats", "every"), [(1, 1), (12, 4), (7, 1)])
def test_latency_and_throughput(rounding, beats, every):
    """Of several layers without pauses: a beat a cycle in each pass."""
    config = RequantizeConfig(entries=8, rounding=rounding)
    dut = Requantize(config)
    sums = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, (beats, config.ways))
    ends = (np.arange(beats) + 1) % every == 0
    inputs, outputs = payloads(config, sums, square_last=ends)
    phase = Phase(inputs={"i": inputs * 3}, outputs={"o": outputs * 3})
    transfers = simulate(dut, Case(phases=[phase], quiet=True)).transfers
    squares = beats // every
    begin = transfers["i"][0]
    for layer in range(3):
        at = begin + layer * (beats + squares + dut.latency - 1)
        took = transfers["i"][layer * beats : (layer + 1) * beats]
        gave = transfers["o"][layer * squares : (layer + 1) * squares]
        assert took == list(range(at, at + beats))
        assert gave == list(range(took[-1] + dut.latency, took[-1] + dut.latency + squares))


def test_values_from_count_on_are_maxima_of_the_square():
    """Sums from the count of their beat on are 0; the output has the count of the last beat."""
    config = RequantizeConfig(ways=2, entries=4)
    beats = [([5, 9], 2, 0), ([7, 3], 1, 1), ([-5, 6], 1, 0), ([-4, -9], 2, 1)]
    sent = [
        sums_layout(config)
        .const({"sums": sums, "count": count, "square_last": ends, "last": k == len(beats) - 1})
        .as_bits()
        for k, (sums, count, ends) in enumerate(beats)
    ]
    came = [
        values_layout(config)
        .const({"values": values, "count": count, "shift": 0, "last": last})
        .as_bits()
        for values, count, last in (([7, 9], 1, 0), ([-4, 0], 2, 1))
    ]
    phase = Phase(inputs={"i": sent}, outputs={"o": came})
    simulate(Requantize(config), Case(phases=[phase], quiet=True))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"ways": 0}, ValueError, r"ways must be in 1\.\.64, not 0"),
        ({"ways": 65}, ValueError, r"ways must be in 1\.\.64, not 65"),
        ({"ways": 4.0}, TypeError, r"ways must be an integer in 1\.\.64, not 4\.0"),
        ({"width": 8}, ValueError, r"width must be in 9\.\.32, not 8"),
        ({"width": 33}, ValueError, r"width must be in 9\.\.32, not 33"),
        ({"entries": 1}, ValueError, r"entries must be in 2\.\.65536, not 1"),
        ({"entries": 65537}, ValueError, r"entries must be in 2\.\.65536, not 65537"),
        (
            {"rounding": "up"},
            ValueError,
            r"rounding must be one of nearest, pseudo-stochastic, not 'up'",
        ),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        RequantizeConfig(**params)
