from pathlib import Path

import pytest

from seedbed.flow.registry import CORES, WRAPPERS, UnknownCore, find, find_verilog
from seedbed.flow.verilog import write
from seedbed.sim import seedlm_gemv_axi_bench
from seedbed.sim.verilate import lint, run_tests

BUILD = Path(__file__).parents[1] / "build" / "cocotb"
NAME = "seedlm_gemv_axi"
SMALL = {"block": 4, "latent": 2, "width": 8, "beat_bits": 48, "columns": 64, "row_width": 8}


def test_wrappers_are_emitted_and_nothing_else():
    assert find_verilog(NAME) is WRAPPERS[NAME]
    assert find_verilog("seedlm_gemv") is CORES["seedlm_gemv"]
    with pytest.raises(UnknownCore, match=f"no core is called '{NAME}'"):
        find(NAME)


def test_axi_ports_of_the_emitted_verilog(tmp_path):
    verilog = write(WRAPPERS[NAME], SMALL, tmp_path)
    assert lint(verilog, NAME) == []
    done = run_tests(
        verilog, NAME, "seedbed.sim.seedlm_gemv_axi_bench", seedlm_gemv_axi_bench.TESTS,
        {"params": SMALL, "seed": 1}, seed=1, build=BUILD,
    )  # fmt: skip
    assert done["tests"] == 4
