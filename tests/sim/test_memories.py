"""Reads in the cycle of a write, where a memory has no bypass logic, are detected."""

from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from conftest import configs

import seedbed.hw
from seedbed.sim.case import Case, Phase
from seedbed.sim.harness import Mismatch, simulate
from seedbed.sim.memories import ATTRIBUTE, memories

WORDS = list(range(1, 10))
BEFORE = [0, *WORDS[:-1]]
TWO_BEFORE = [0, *BEFORE[:-1]]


class History(wiring.Component):
    """Writes each word to the next of two rows, and reads that row or the ``other`` one.

    It outputs what it reads or, unless it ``uses`` that, the word itself.
    """

    def __init__(self, *, other=False, enable=True, uses=True, attribute=True):
        self.other, self.enable, self.uses, self.attribute = other, enable, uses, attribute
        super().__init__({"i": In(stream.Signature(4)), "o": Out(stream.Signature(4))})

    def elaborate(self, platform):
        m = Module()
        attrs = {ATTRIBUTE: True} if self.attribute else {}
        m.submodules.words = words = Memory(shape=unsigned(4), depth=2, init=[], attrs=attrs)
        write, read = words.write_port(), words.read_port()
        row, word, fire = Signal(), Signal(4), Signal()
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),
            fire.eq(self.i.valid & self.i.ready),
            write.en.eq(fire),
            write.addr.eq(row),
            write.data.eq(self.i.payload),
            read.addr.eq(row ^ self.other),
            self.o.payload.eq(read.data if self.uses else word),
        ]
        if self.enable:
            m.d.comb += read.en.eq(fire)
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid)
        with m.If(fire):
            m.d.sync += [row.eq(~row), word.eq(self.i.payload)]
        return m


def run(dut, expected):
    simulate(dut, Case(phases=[Phase(inputs={"i": WORDS}, outputs={"o": expected})]))


def test_reads_that_are_defined_pass():
    run(History(attribute=False), TWO_BEFORE)
    run(History(other=True), BEFORE)
    run(History(other=True, enable=False), BEFORE)
    run(History(enable=False, uses=False), WORDS)


def test_an_enabled_read_of_the_row_that_is_written_fails():
    for uses in (True, False):
        with pytest.raises(Mismatch, match=r"words: row 0 is read while it is written\n.*seed=1"):
            run(History(uses=uses), TWO_BEFORE if uses else WORDS)


def test_data_of_a_read_without_an_enable_is_wrong():
    with pytest.raises(
        Mismatch, match="o, phase 0, beat 0 of the run:\n  expected 0\n  got      14"
    ):
        run(History(enable=False), TWO_BEFORE)


def test_every_memory_without_bypass_logic_is_in_a_core_and_checked():
    """Cases of the cores reach each of them; both ports of each have the same clock."""
    with_attribute, checked = set(), set()
    for path in Path(seedbed.hw.__path__[0]).rglob("*.py"):
        if ATTRIBUTE in path.read_text():
            with_attribute.add(path.name)
    for each in configs():
        ((core, params),) = each.values
        for _, memory in memories(core.component(core.configure(params))):
            checked.add(Path(memory.src_loc[0]).name)
            ports = [*memory._read_ports, *memory._write_ports]
            assert {port._domain for port in ports} == {"sync"}
            assert len(memory._write_ports) == 1
    assert checked == with_attribute
