from pathlib import Path

from seedbed.flow.cores.registry import CORES, WRAPPERS, find_verilog
from seedbed.flow.emit.verilog import write
from seedbed.flow.report.kinds import in_cocotb
from seedbed.sim.verilog.verilate import lint

BUILD = Path(__file__).parents[2] / "build"
NAME = "forward_cache_axi"
#: Entries of 192 bytes, of which every 21st or 22nd crosses a boundary.
SMALL = WRAPPERS[NAME].small


def test_the_wrapper_is_emitted():
    assert find_verilog(NAME) is WRAPPERS[NAME]
    assert find_verilog("forward_cache") is CORES["forward_cache"]


def test_axi_ports_of_the_emitted_verilog(tmp_path):
    verilog = write(WRAPPERS[NAME], SMALL, tmp_path)
    assert lint(verilog, NAME) == []
    done = in_cocotb(WRAPPERS[NAME], SMALL, verilog, seed=1, build=BUILD)
    assert done["tests"] == 3
