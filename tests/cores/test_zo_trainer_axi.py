from pathlib import Path

import pytest

from seedbed.flow.cores.registry import CORES, WRAPPERS, find_verilog
from seedbed.flow.emit.verilog import write
from seedbed.flow.report.kinds import in_cocotb
from seedbed.sim.verilog.verilate import lint

ROOT = Path(__file__).parents[2]
NAME = "zo_trainer_axi"
SMALL = WRAPPERS[NAME].small


def test_the_wrapper_is_emitted():
    assert find_verilog(NAME) is WRAPPERS[NAME]
    assert find_verilog("zo_trainer") is CORES["zo_trainer"]


@pytest.mark.parametrize("params", [SMALL, SMALL | {"tail": 1}, SMALL | {"tail": 2}])
def test_axi_ports_of_the_emitted_verilog(params, tmp_path):
    """A tail adds a field to each phase, in the schedule's register and in the log."""
    verilog = write(WRAPPERS[NAME], params, tmp_path)
    assert lint(verilog, NAME) == []
    done = in_cocotb(WRAPPERS[NAME], params, verilog, seed=1, build=ROOT / "build")
    assert done["tests"] == 4
