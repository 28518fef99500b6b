"""The command ``seedbed sim`` with the default configuration of every core."""

import pytest

from seedbed.flow.cores.registry import CORES

#: Simulated in seconds; the others take minutes.
SHORT = {
    "lfsr", "urng_array", "lutopt", "scale_lut", "prng_pool", "skid_buffer", "loss_sign",
    "tree_grng", "lut_dequantize",
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SHORT else pytest.mark.long) for name in CORES],
)
def test_the_default_configuration_is_simulated(name, called, tmp_path):
    status, printed, problem = called(["sim", name], tmp_path)
    assert status == 0, problem
    assert f"{name} is bit-exact with its model, seed 1." in printed


def test_the_wait_for_power_up_is_no_time_out(called, tmp_path):
    """The default configuration of sdram waits longer than most cores ever do."""
    words = ["sim", "sdram", "--set", "retention=0"]
    status, _, problem = called(words, tmp_path)
    assert status == 0, problem
