# amaranth: UnusedElaboratable=no
from pathlib import Path

import pytest

from seedbed.flow.cores.registry import CORES, WRAPPERS, UnknownCore, find, find_verilog
from seedbed.flow.emit.verilog import write
from seedbed.flow.report.kinds import in_cocotb
from seedbed.hw.axi.gemv_axi import GemvAxi
from seedbed.sim.verilog.verilate import lint
from seedbed.spec import GemvConfig

BUILD = Path(__file__).parents[2] / "build"
NAME = "gemv_axi"
SMALL = WRAPPERS[NAME].small


def test_wrappers_are_emitted_and_nothing_else():
    assert find_verilog(NAME) is WRAPPERS[NAME]
    assert find_verilog("gemv") is CORES["gemv"]
    with pytest.raises(UnknownCore, match=f"{NAME} is an AXI wrapper, .* the core inside, 'gemv'"):
        find(NAME)


def test_axi_ports_of_the_emitted_verilog(tmp_path):
    verilog = write(WRAPPERS[NAME], SMALL, tmp_path)
    assert lint(verilog, NAME) == []
    done = in_cocotb(WRAPPERS[NAME], SMALL, verilog, seed=1, build=BUILD)
    assert done["tests"] == 4


def test_axi_ports_of_tables_and_vectors(tmp_path):
    params = SMALL | {"decode": "lut4", "level_load": 4, "beat_bits": 64, "vectors": 2}
    assert lint(write(WRAPPERS[NAME], params, tmp_path), NAME) == []


def test_no_axi_ports_of_a_side_path():
    with pytest.raises(ValueError, match="no ports for a side path: entries must be None, not 16"):
        GemvAxi(GemvConfig(entries=16))
