from itertools import pairwise
from random import Random

import numpy as np
import pytest

from seedbed.hw.vectors.vector_layouts import OPERATION_CODES, command_layout
from seedbed.hw.vectors.vector_pipeline import RESULTS
from seedbed.hw.vectors.vector_unit import VectorUnit
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.vector_unit import Passes, case
from seedbed.sim.harness import Stalls, simulate, with_stalls
from seedbed.spec import VectorUnitConfig

CONFIGS = [
    VectorUnitConfig(lanes=2),
    VectorUnitConfig(lanes=4),
    VectorUnitConfig(),
    VectorUnitConfig(lanes=2, width=8),
    VectorUnitConfig(lanes=2, width=13),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(VectorUnit(config), case(config, Random(4)), stalls=stalls, seed=4)


@pytest.mark.parametrize("lanes", [2, 8])
def test_latency_and_throughput(lanes):
    """Commands without statistics follow each other without a gap."""
    config = VectorUnitConfig(lanes=lanes)
    passes = Passes(config, np.random.default_rng(5))
    for length in (lanes, 5 * lanes, 1, 20 * lanes):
        numbers = np.arange(length)
        passes.scale(numbers, 3, 1)
        passes.multiply(numbers, numbers, 1, addends=numbers)
        passes.activate(numbers, "silu", 9)
    dut = VectorUnit(config)
    transfers = simulate(dut, Case(phases=[passes.phase()], quiet=True)).transfers
    first = transfers["i"][0]
    assert transfers["i"] == list(range(first, first + len(transfers["i"]) * dut.interval))
    assert transfers["o"] == [cycle + dut.latency for cycle in transfers["i"]]


@pytest.mark.parametrize("kind", ["norm", "softmax"])
def test_commands_wait_for_statistics(kind):
    """The beats of a pass have no gaps. After a pass with statistics there is one."""
    config = VectorUnitConfig(lanes=4)
    passes = Passes(config, np.random.default_rng(6))
    numbers = np.arange(100)
    if kind == "norm":
        passes.norm(numbers, 1 << 20, centred=True)
    else:
        passes.softmax(numbers << 16, numbers % 9, (1 << 15, 20), numbers)
    dut = VectorUnit(config)
    transfers = simulate(dut, Case(phases=[passes.phase()], quiet=True)).transfers
    starts = [k for k, (a, b) in enumerate(pairwise(transfers["i"]), 1) if b - a > 1]
    assert starts == [25, 50]
    gaps = [transfers["i"][k] - transfers["i"][k - 1] for k in starts]
    assert dut.statistics_latency == 34
    assert RESULTS < max(gaps) <= dut.statistics_latency


def test_every_element_of_an_activation():
    config = VectorUnitConfig()
    passes = Passes(config, np.random.default_rng(7))
    numbers = np.arange(-(1 << 15), 1 << 15, 31)
    for fraction, name in ((5, "gelu"), (11, "silu"), (12, "gelu"), (17, "silu"), (9, "relu")):
        passes.activate(numbers, name, fraction)
    simulate(VectorUnit(config), Case(phases=[passes.phase()], quiet=True))


def test_commands_without_elements_and_of_unknown_codes_are_discarded():
    config = VectorUnitConfig(lanes=2)
    passes = Passes(config, np.random.default_rng(8))
    numbers = np.arange(9)
    layout = command_layout(config)
    for code, length in ((0, 0), (3, 0), (12, 9), (15, 1), (13, 0)):
        bits = layout.const({"operation": 0, "length": length}).as_bits() | code
        passes.inputs["i_commands"].append(bits)
        passes.scale(numbers, 1, 0)
    simulate(VectorUnit(config), Case(phases=[passes.phase()], quiet=True))


@pytest.mark.parametrize("seed", range(5))
def test_hostile_commands_end(seed):
    """Random commands and beats: each takes its beats and no more. A good norm follows."""
    config = VectorUnitConfig(lanes=2)
    random, layout = Random(seed), command_layout(config)
    sent = {"i_commands": [], "i": [], "i_factors": [], "i_addends": []}
    widths = {"i": 80, "i_factors": 32, "i_addends": 48}
    codes = [random.randrange(16) for _ in range(100)]
    for code in [*codes, OPERATION_CODES["sum"]]:
        length = random.choice([0, 1, 2, 3, 7]) if len(sent["i_commands"]) < 100 else 99
        bits = random.getrandbits(layout.size) >> 18 << 18 | length << 4 | code
        sent["i_commands"].append(bits)
        factors = code in [OPERATION_CODES[name] for name in ("multiply", "score", "rotate")]
        adds = layout.from_bits(bits).add and code < 2
        for name, taken in (("i", code < 12), ("i_factors", factors), ("i_addends", adds)):
            for _ in range(-(-length // 2) if taken else 0):
                sent[name].append(random.getrandbits(widths[name]))
    passes = Passes(config, np.random.default_rng(10))
    passes.norm(np.arange(-50, 51), 16, centred=True)
    hostile = Case(phases=[Phase(inputs=sent, drain=True), passes.phase()], quiet=True)
    simulate(VectorUnit(config), hostile, stalls=Stalls.VALID, seed=seed)
