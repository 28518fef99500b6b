from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from seedbed.flow import synth
from seedbed.flow.polish import BLOCK, polish
from seedbed.flow.registry import CORES
from seedbed.flow.verilog import write
from seedbed.hw.replicate import replicate


class Copies(Component):
    """Two registers of the same value."""

    x: In(1)
    i: In(2)
    o: Out(2)

    def elaborate(self, platform):
        m = Module()
        first, second = replicate(m, self.x, 2, "x", fanout=1)
        table = Signal(2)
        m.d.sync += [table.eq(self.i), self.o.eq(table)]
        with m.If(first):
            m.d.sync += self.o[0].eq(self.i[1])
        with m.If(second):
            m.d.sync += self.o[1].eq(self.i[0])
        return m


MARKED = "  (* keep = 32'd1 *)\n  always "


@pytest.mark.parametrize("target", ["xcup", "ecp5", "ice40", "gowin"])
def test_yosys_keeps_copies_of_a_register_that_are_marked(target, tmp_path):
    core = replace(CORES["lfsr"], name="copies", component=lambda config: Copies())
    path = write(core, {}, tmp_path)
    text = path.read_text()
    assert text.count(MARKED) == 2

    def registers():
        return synth.synthesize(path, "copies", target=target, build=tmp_path)["ff"]

    assert registers() == 6
    path.write_text(text.replace(MARKED, "  always "))
    assert registers() == 5


HEAD = "module a(clk);\n  input clk;\n"


def test_only_a_module_that_waits_for_changes_has_a_start():
    text = f"{HEAD}  wire b;\n  assign b = clk;\nendmodule\n"
    assert polish(text) == text
    part = f"{HEAD}  reg [1:0] b;\n  always @*\n    b[1] = c;\nendmodule\n"
    made = polish(part)
    assert "  initial _starts_ <= 1'b0;\n" in made
    assert "  always @* begin\n    if (_starts_) begin end\n    b[1] = c;\n  end\n" in made
    assert polish(f"{text}\n{part}") == f"{text}\n{made}"


def test_long_blocks_of_initial_values_are_split():
    lines = [f"    m[{k}] = 1'h0;\n" for k in range(2 * BLOCK + 1)]
    made = polish(f"{HEAD}  initial begin\n{''.join(lines)}  end\nendmodule\n")
    assert made.count("initial begin") == 3
    assert [line for line in made.splitlines(keepends=True) if " m[" in line] == lines


def test_words_of_the_language_are_no_names():
    text = f"{HEAD}  reg \\end ;\n  wire \\$auto$rtlil.cc:3245:Not$2 ;\nendmodule\n"
    assert polish(text) == f"{HEAD}  reg end_;\n  wire _Not_2_;\nendmodule\n"
