from pathlib import Path

from seedbed.flow.registry import CORES, WRAPPERS, find_verilog
from seedbed.flow.verilog import write
from seedbed.sim import forward_cache_axi_bench
from seedbed.sim.verilate import lint, run_tests

BUILD = Path(__file__).parents[1] / "build" / "cocotb"
NAME = "forward_cache_axi"
#: Entries of 192 bytes, of which every 21st or 22nd crosses a boundary.
SMALL = {"lengths": (200, 70, 9), "entries": 64, "store_lanes": 16, "fetch_lanes": 8}


def test_the_wrapper_is_emitted():
    assert find_verilog(NAME) is WRAPPERS[NAME]
    assert find_verilog("forward_cache") is CORES["forward_cache"]


def test_axi_ports_of_the_emitted_verilog(tmp_path):
    verilog = write(WRAPPERS[NAME], SMALL, tmp_path)
    assert lint(verilog, NAME) == []
    done = run_tests(
        verilog, NAME, "seedbed.sim.forward_cache_axi_bench", forward_cache_axi_bench.TESTS,
        {"params": SMALL, "seed": 1}, seed=1, build=BUILD,
    )  # fmt: skip
    assert done["tests"] == 3
