from pathlib import Path

from seedbed.flow.cores.registry import CORES, WRAPPERS, find_verilog
from seedbed.flow.emit.verilog import write
from seedbed.flow.report.kinds import in_cocotb
from seedbed.hw.axi.sparse_trainer_axi import LAYER_BITS, LAYER_FIELDS
from seedbed.hw.kept.layer_table import row_layout
from seedbed.sim.verilog.verilate import lint

ROOT = Path(__file__).parents[2]
NAME = "sparse_trainer_axi"
SMALL = WRAPPERS[NAME].small


def test_the_wrapper_is_emitted():
    assert find_verilog(NAME) is WRAPPERS[NAME]
    assert find_verilog("sparse_trainer") is CORES["sparse_trainer"]


def test_axi_ports_of_the_emitted_verilog(tmp_path):
    verilog = write(WRAPPERS[NAME], SMALL, tmp_path)
    assert lint(verilog, NAME) == []
    done = in_cocotb(WRAPPERS[NAME], SMALL, verilog, seed=1, build=ROOT / "build")
    assert done["tests"] == 5


def test_every_field_of_a_layer_has_its_place():
    config = WRAPPERS[NAME].configure(SMALL)
    assert set(row_layout(config).members) == {*LAYER_FIELDS, "last"}
    assert sum(LAYER_FIELDS.values()) <= LAYER_BITS
