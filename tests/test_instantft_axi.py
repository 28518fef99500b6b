from pathlib import Path

from seedbed.flow.registry import CORES, WRAPPERS, find_verilog
from seedbed.flow.verilog import write
from seedbed.sim import instantft_axi_bench
from seedbed.sim.verilate import lint, run_tests

BUILD = Path(__file__).parents[1] / "build" / "cocotb"
NAME = "instantft_axi"
SMALL = CORES["instantft"].small


def test_the_wrapper_is_emitted():
    assert find_verilog(NAME) is WRAPPERS[NAME]
    assert find_verilog("instantft") is CORES["instantft"]


def test_axi_ports_of_the_emitted_verilog(tmp_path):
    verilog = write(WRAPPERS[NAME], SMALL, tmp_path)
    assert lint(verilog, NAME) == []
    done = run_tests(
        verilog, NAME, "seedbed.sim.instantft_axi_bench", instantft_axi_bench.TESTS,
        {"params": SMALL, "seed": 1}, seed=1, build=BUILD,
    )  # fmt: skip
    assert done["tests"] == 4
