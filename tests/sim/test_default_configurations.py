"""The command ``seedbed sim`` with the default configuration of cores.

The default of the other cores takes a minute or more: ``make sim`` has all of them.
"""

from random import Random

import pytest

from seedbed.flow.cores.registry import CORES


@pytest.mark.parametrize("name", CORES)
def test_the_default_configuration_has_a_case(name):
    """Its random inputs fit it, whatever the seed."""
    core = CORES[name]
    config = core.configure({})
    for seed in range(2):
        assert core.case(config, Random(seed)).phases


@pytest.mark.parametrize(
    "name",
    [
        "lfsr", "urng_array", "lutopt", "scale_lut", "prng_pool", "skid_buffer", "loss_sign",
        "tree_grng", "lut_dequantize",
    ],
)  # fmt: skip
def test_the_default_configuration_is_simulated(name, called, tmp_path):
    status, printed, problem = called(["sim", name], tmp_path)
    assert status == 0, problem
    assert f"{name} is bit-exact with its model, seed 1." in printed


def test_the_wait_for_power_up_is_no_time_out(called, tmp_path):
    """The default configuration of sdram waits longer than most cores ever do."""
    words = ["sim", "sdram", "--set", "retention=0"]
    status, _, problem = called(words, tmp_path)
    assert status == 0, problem
