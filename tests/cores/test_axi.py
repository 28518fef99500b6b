# amaranth: UnusedElaboratable=no
"""The AXI wrappers: their emitted Verilog."""

from pathlib import Path

import pytest

from seedbed.flow.cores.registry import CORES, WRAPPERS, UnknownCore, find, find_verilog
from seedbed.flow.emit.verilog import write
from seedbed.flow.report.kinds import in_cocotb
from seedbed.hw.axi import sparse_trainer_axi
from seedbed.hw.axi.gemv_axi import GemvAxi
from seedbed.hw.kept.layer_table import row_layout
from seedbed.sim.verilog.verilate import lint
from seedbed.spec import GemvConfig

ROOT = Path(__file__).parents[2]

#: A stream_engine with all options.
MOST = {
    "lanes": 4, "products": 4, "beat_bits": 256, "vectors": 2, "trellis": 2, "kept": 300,
    "tune": 5, "external": True, "choose": True,
}  # fmt: skip
#: Wrapper, what differs from its small configuration, and the number of tests on its ports. Entries
#: of forward_cache have 192 bytes there: every 21st or 22nd crosses a boundary. A tail adds a field
#: to each phase of zo_trainer, in the schedule's register and in the log; levels one to the log.
RUN = [
    ("forward_cache_axi", {}, 3),
    ("gemv_axi", {}, 4),
    ("gemv_axi", {"decode": "trellis"}, 4),
    ("instantft_axi", {}, 4),
    ("sparse_trainer_axi", {}, 5),
    ("sparse_trainer_axi", {"decode": "trellis"}, 5),
    ("stream_engine_axi", {}, 5),
    ("stream_engine_axi", {"lanes": 4, "products": 4, "beat_bits": 256, "vectors": 2}, 5),
    ("stream_engine_axi", {"trellis": 4, "kept": 200, "choose": True}, 5),
    ("stream_engine_axi", {"external": True}, 5),
    ("stream_engine_axi", {"trellis": 4, "kept": 200, "tune": 4}, 5),
    ("stream_engine_axi", {"classes": 60, "inputs": True, "vectors": 2}, 5),
    ("stream_engine_axi", MOST, 5),
    ("stream_trainer_axi", {}, 5),
    ("stream_trainer_axi", {"inputs": True, "lanes": 4, "products": 4, "beat_bits": 256}, 5),
    ("zo_trainer_axi", {}, 4),
    ("zo_trainer_axi", {"tail": 1}, 4),
    ("zo_trainer_axi", {"tail": 2}, 4),
    ("zo_trainer_axi", {"perturbation": "rank1", "levels": 4, "fraction": 6}, 4),
]


def test_every_wrapper_is_run():
    assert {name for name, *_ in RUN} == set(WRAPPERS)


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_are_emitted_and_nothing_else(wrapper):
    assert find_verilog(wrapper.name) is wrapper
    assert find_verilog(wrapper.inside) is CORES[wrapper.inside]
    sentence = f"{wrapper.name} is an AXI wrapper, .* the core inside, '{wrapper.inside}'"
    with pytest.raises(UnknownCore, match=sentence):
        find(wrapper.name)


@pytest.mark.parametrize(("name", "params", "tests"), RUN)
def test_axi_ports_of_the_emitted_verilog(name, params, tests, tmp_path, kept):
    params = WRAPPERS[name].small | params
    verilog = write(WRAPPERS[name], params, tmp_path, kept=kept)
    assert lint(verilog, name) == []
    done = in_cocotb(WRAPPERS[name], params, verilog, seed=1, build=ROOT / "build")
    assert done["tests"] == tests


def test_the_log_has_no_room_for_levels_and_a_tail():
    core = WRAPPERS["zo_trainer_axi"]
    params = core.small | {"perturbation": "rank1", "levels": 4, "tail": 1}
    with pytest.raises(ValueError, match="levels must be 1 with AXI ports and tail=1, not 4"):
        core.component(core.configure(params))


def test_axi_ports_of_tables_and_vectors(tmp_path, kept):
    core = WRAPPERS["gemv_axi"]
    params = core.small | {"decode": "lut4", "level_load": 4, "beat_bits": 64, "vectors": 2}
    assert lint(write(core, params, tmp_path, kept=kept), core.name) == []


def test_no_axi_ports_of_a_side_path():
    with pytest.raises(ValueError, match="no ports for a side path: entries must be None, not 16"):
        GemvAxi(GemvConfig(entries=16))


def test_the_memory_has_32_bits_of_address():
    core = WRAPPERS["stream_engine_axi"]
    sentence = "address_bits must be at most 28 with AXI ports and beat_bits=128, not 29"
    with pytest.raises(ValueError, match=sentence):
        core.component(core.configure(core.small | {"address_bits": 29}))


def test_every_field_of_a_layer_has_its_place():
    core = WRAPPERS["sparse_trainer_axi"]
    fields = sparse_trainer_axi.LAYER_FIELDS
    assert set(row_layout(core.configure(core.small)).members) == {*fields, "last"}
    assert sum(fields.values()) <= sparse_trainer_axi.LAYER_BITS
