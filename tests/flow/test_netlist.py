# amaranth: UnusedElaboratable=no
from dataclasses import replace

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.netlist import canonical, netlist


class Part(wiring.Component):
    """A register and a memory, in a submodule; names and one constant are arguments."""

    def __init__(self, names=("a", "b", "c"), step=1, keep=False, init=0):
        self.given = names, step, keep, init
        super().__init__({"i": In(4), "o": Out(4)})

    def elaborate(self, platform):
        (first, second, third), step, keep, init = self.given
        m = Module()
        m.submodules[first] = inner = Module()
        held = Signal(4, name=second, init=init)
        if keep:
            held.attrs["keep"] = True
        inner.d.sync += held.eq(self.i + step)
        m.submodules[third] = memory = Memory(shape=4, depth=16, init=[])
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            write.en.eq(1), write.addr.eq(held), write.data.eq(self.i), read.addr.eq(self.i),
            read.en.eq(1), self.o.eq(read.data),
        ]  # fmt: skip
        with m.If(held == 3):
            m.d.comb += self.o.eq(held)
        return m


def text(**given):
    return canonical(rtlil.convert(Part(**given), name="top", emit_src=False))


def test_names_do_not_count():
    assert text() == text(names=("x", "state", "store"))


@pytest.mark.parametrize("given", [{"step": 2}, {"keep": True}, {"init": 1}])
def test_everything_that_synthesis_sees_counts(given):
    assert text(**given) != text()


def test_a_source_line_does_not_count():
    part = rtlil.convert(Part(), name="top", emit_src=True)
    assert "attribute \\src" in part
    assert canonical(part) == text()


def test_no_name_is_left():
    assert not [word for word in text().split() if word.lstrip("\\$") in ("a", "b", "c", "top")]


def test_a_hash_is_of_the_configuration():
    core = CORES["lfsr"]
    found = netlist(core, {"width": 8})
    assert len(found) == 16
    assert netlist(core, {"width": 8}) == found
    assert netlist(replace(core, name="another"), {"width": 8}) == found
    assert netlist(core, {"width": 9}) != found
