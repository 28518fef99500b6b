# amaranth: UnusedElaboratable=no
import re
from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.postprocess import postprocess
from seedbed.flow.emit.statements import BLOCK
from seedbed.flow.emit.verilog import write
from seedbed.flow.fpga import synth
from seedbed.hw.parts.replicate import replicate


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
    assert text.count(MARKED) == 1

    def registers():
        return synth.synthesize(path, "copies", target=target, build=tmp_path)["ff"]

    assert registers() == 6
    path.write_text(text.replace(MARKED, "  always "))
    assert registers() == 5


HEAD = "module a(clk, b);\n  input clk;\n  wire clk;\n  output [1:0] b;\n"
#: The same as it is written.
WRITTEN = "module a (\n  input wire clk,\n"


def test_only_a_module_that_waits_for_changes_has_a_start():
    text = f"{HEAD}  wire [1:0] b;\n  assign b = {{ clk, clk }};\nendmodule\n"
    made = f"{WRITTEN}  output wire [1:0] b\n);\n  assign b = {{2{{clk}}}};\nendmodule\n"
    assert postprocess(text) == made
    part = f"{HEAD}  reg [1:0] b;\n  always @*\n    b[1] = clk;\nendmodule\n"
    waits = postprocess(part)
    assert "  initial _starts_ <= 1'b0;\n" in waits
    assert "  always @* begin\n    if (_starts_) begin end\n    b[1] = clk;\n  end\n" in waits
    assert postprocess(f"{text}\n{part}") == f"{made}\n{waits}"


def memory(*lines):
    declared = "  wire [1:0] b;\n  reg [3:0] d;\n  reg en;\n  reg other;\n"
    memories = "".join(f"  reg [3:0] {name} [4095:0];\n" for name in "mn")
    return f"{HEAD}{declared}{memories}{''.join(lines)}endmodule\n"


def test_long_blocks_of_initial_values_are_split():
    lines = [f"    m[{k}] = 4'h{k % 16:x};\n" for k in range(2 * BLOCK + 1)]
    made = postprocess(memory("  initial begin\n", *lines, "  end\n"))
    assert made.count("initial begin") == 3
    assert re.findall(r"m\[\d+\] = \S+;", made) == [line.strip() for line in lines]


def test_equal_initial_values_are_a_loop():
    lines = [f"    m[{k}] = 4'h7;\n" for k in range(BLOCK + 1)]
    made = postprocess(memory("  initial begin\n", *lines, "  end\n"))
    loop = "    integer k;\n    for (k = {0}; k < {1}; k = k + 1) m[k] = 4'h7;\n  end\n"
    assert f"  initial begin : initial_0_0\n{loop.format(0, BLOCK)}" in made
    assert f"  initial begin : initial_0_{BLOCK}\n" in made
    assert f"    m[{BLOCK}] = 4'h7;\n" in made or loop.format(BLOCK, BLOCK + 1) in made


def test_writes_of_a_memory_by_the_same_enable_are_in_one_block():
    def port(address, memory="m", enable="en"):
        write = f"      {memory}[{address}] <= d;\n"
        return f"  always @(posedge clk)\n    if ({enable})\n{write}"

    made = postprocess(memory(port(0), port(1), port(1, "n")))
    both = "    if (en) begin\n      m[0] <= d;\n      m[1] <= d;\n    end\n"
    alone = "  always @(posedge clk)\n    if (en) n[1] <= d;\n"
    assert f"  always @(posedge clk)\n{both}{alone}" in made
    # Of two ports, the later one wins.
    made = postprocess(memory(port(0), port(1, enable="other"), port(0)))
    assert made.count("always") == 3


def test_words_of_the_language_are_no_names():
    text = f"{HEAD}  reg [1:0] b;\n  reg \\end ;\n  always @(posedge clk)\n    b[0] <= \\end ;\n"
    assert "    b[0] <= end_;\n" in postprocess(f"{text}endmodule\n")


def test_the_next_value_of_a_register_is_named_after_it():
    always = "  always @(posedge clk)\n    {} <= {};\n"
    body = "  reg [1:0] _1_;\n  reg [1:0] a;\n  wire [1:0] b;\n  assign b = _1_ | { clk, clk };\n"
    case = "  always @* begin\n    casez (a)\n      2'h1:\n          _1_ = 2'h2;\n"
    more = "      default:\n          _1_ = 2'h3;\n    endcase\n  end\n"
    text = f"{HEAD}{body}{always.format('a', '_1_')}{case}{more}endmodule\n"
    made = postprocess(text)
    assert "  reg [1:0] a_next, a;\n" in made
    assert "    a <= a_next;\n" in made
    assert "      2'h1: a_next = 2'h2;\n" in made
    # Another name is taken, and a value that nothing else reads needs no name.
    assert "a_next_2" in postprocess(
        text.replace("wire [1:0] b;", "wire [1:0] b;\n  wire a_next;").replace(
            "b = _1_ |", "b = _1_ | { a_next, clk } |"
        )
    )
    assert "      2'h1: a <= 2'h2;\n" in postprocess(text.replace("_1_ | ", ""))
