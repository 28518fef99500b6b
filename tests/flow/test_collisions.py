"""Reads of memories at the address of a write, in RTLIL."""

import re
from functools import partial

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.flow.emit.collisions import unordered
from seedbed.sim import tools


class Stores(wiring.Component):
    """Two memories, of which those with a flag have no order of a read and a write."""

    def __init__(self, flags):
        self.flags = flags
        super().__init__({"at": In(9), "to": In(9), "put": In(36), "on": In(1), "got": Out(72)})

    def elaborate(self, platform):
        m = Module()
        for k, flag in enumerate(self.flags):
            attrs = {"no_rw_check": True} if flag else {}
            store = Memory(shape=36, depth=512, init=[], attrs=attrs)
            m.submodules[f"store_{k}"] = store
            write, read = store.write_port(), store.read_port()
            m.d.comb += [
                write.addr.eq(self.to),
                write.data.eq(self.put),
                write.en.eq(self.on),
                read.addr.eq(self.at),
                self.got.word_select(k, 36).eq(read.data),
            ]
        return m


def masks(text):
    return re.findall(r"COLLISION_X_MASK (\S+)", text)


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True), (False, False)])
def test_only_memories_with_the_attribute_lose_the_order(flags):
    text = rtlil.convert(Stores(flags))
    found = unordered(text)
    assert masks(text) == ["1'0", "1'0"]
    assert masks(found) == [f"1'{int(flag)}" for flag in flags]
    changed = [line for line, new in zip(text.split("\n"), found.split("\n"), strict=True)
               if line != new]  # fmt: skip
    assert len(changed) == sum(flags)


def test_yosys_then_adds_no_registers(tmp_path):
    """For ECP5: without the order, 36 bits that are written and 1 that compares have none."""

    def registers(text):
        (tmp_path / "top.il").write_text(text)
        script = "read_rtlil top.il; synth_ecp5 -top top; tee -o found stat"
        tools.run("YOSYS", "-q", "-p", script, cwd=tmp_path)
        counted = (tmp_path / "found").read_text()
        return sum(int(line.split()[0]) for line in counted.splitlines() if "TRELLIS_FF" in line)

    convert = partial(rtlil.convert, emit_src=False)
    ordered = registers(convert(Stores((True, True)), name="top"))
    assert registers(unordered(convert(Stores((True, True)), name="top"))) == 0
    assert ordered > 72
