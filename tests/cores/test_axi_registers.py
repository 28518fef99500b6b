import re
from pathlib import Path

import pytest

from seedbed.flow.cores.registry import WRAPPERS
from seedbed.flow.report import docs
from seedbed.hw.adapters.instantft import command_layout, counters_layout
from seedbed.hw.kept import sparse_trainer_layouts, stream_trainer_layouts
from seedbed.hw.stream import stream_layouts
from seedbed.hw.zeroth_order import zo_control
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.registers import Register, addresses, table

PAGES = Path(__file__).parents[2] / "docs" / "cores"
COMMANDS = {
    "instantft": command_layout,
    "zo_trainer": zo_control.job_layout,
    "sparse_trainer": sparse_trainer_layouts.job_layout,
    "stream_engine": stream_layouts.job_layout,
    "stream_trainer": stream_trainer_layouts.job_layout,
}
#: With these, a command has all of its fields.
OPTIONS = {
    "stream_engine": {"trellis": 4, "kept": 4, "tune": 1}, "stream_trainer": {"inputs": True},
}  # fmt: skip


def test_addresses_and_page_are_of_one_table():
    registers = (Register("first", "read", "one"), Register("second", "strobe", "two"))
    assert addresses(registers, 4) == {"first": 0, "second": 4}
    found = table(dict(zip(("0x00", "0x04"), registers, strict=True)))
    assert found.splitlines()[-1] == "| 0x04 | `second` | strobe | two |"


@pytest.mark.parametrize("name", AXI_REGISTERS)
def test_the_page_has_the_map(name):
    page = (PAGES / f"{name}.md").read_text()
    (block,) = re.findall(r"<!-- generated: registers -->.*?<!-- end -->", page, re.DOTALL)
    assert docs.fill(block, [], name) == block


@pytest.mark.parametrize("name", COMMANDS)
def test_every_field_of_a_command_has_a_register(name):
    wrapper = WRAPPERS[f"{name}_axi"]
    written = {r.name for r in AXI_REGISTERS[name] if r.access == "write"}
    config = wrapper.configure(wrapper.small | OPTIONS.get(name, {}))
    assert written - {"base"} == set(COMMANDS[name](config).members)


def test_every_counter_has_a_register():
    counted = {f"counted_{name}" for name in counters_layout().members}
    assert counted < {r.name for r in AXI_REGISTERS["instantft"] if r.access == "read"}


@pytest.mark.parametrize("name", AXI_REGISTERS)
def test_no_name_is_listed_twice(name):
    assert len(addresses(AXI_REGISTERS[name])) == len(AXI_REGISTERS[name])
