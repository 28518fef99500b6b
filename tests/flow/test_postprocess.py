# amaranth: UnusedElaboratable=no
from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.postprocess import BLOCK, name_next_values, postprocess
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


@pytest.mark.parametrize("plain", [False, True], ids=["readable", "plain"])
@pytest.mark.parametrize("target", ["xcup", "ecp5", "ice40", "gowin"])
def test_yosys_keeps_copies_of_a_register_that_are_marked(target, plain, tmp_path):
    core = replace(CORES["lfsr"], name="copies", component=lambda config: Copies())
    path = write(core, {}, tmp_path, plain=plain)
    text = path.read_text()
    assert text.count(MARKED) == (2 if plain else 1)

    def registers():
        return synth.synthesize(path, "copies", target=target, build=tmp_path)["ff"]

    assert registers() == 6
    path.write_text(text.replace(MARKED, "  always "))
    assert registers() == 5


HEAD = "module a(clk);\n  input clk;\n"


def test_only_a_module_that_waits_for_changes_has_a_start():
    text = f"{HEAD}  wire b;\n  assign b = clk;\nendmodule\n"
    assert postprocess(text) == text
    part = f"{HEAD}  reg [1:0] b;\n  always @*\n    b[1] = c;\nendmodule\n"
    made = postprocess(part)
    assert "  initial _starts_ <= 1'b0;\n" in made
    assert "  always @* begin\n    if (_starts_) begin end\n    b[1] = c;\n  end\n" in made
    assert postprocess(f"{text}\n{part}") == f"{text}\n{made}"


def test_long_blocks_of_initial_values_are_split():
    lines = [f"    m[{k}] = 1'h0;\n" for k in range(2 * BLOCK + 1)]
    made = postprocess(f"{HEAD}  initial begin\n{''.join(lines)}  end\nendmodule\n")
    assert made.count("initial begin") == 3
    assert [line for line in made.splitlines(keepends=True) if " m[" in line] == lines


def test_writes_of_a_memory_by_the_same_enable_are_in_one_block():
    def port(address, memory="m", enable="en"):
        write = f"      {memory}[{address}] <= d[{address}];\n"
        return f"  always @(posedge clk) begin\n    if ({enable})\n{write}  end\n"

    others = [port(0), port(1, enable="other"), port(2, "n"), port(0)]
    text = f"{HEAD}{''.join(others)}endmodule\n"
    assert postprocess(text) == text
    made = postprocess(f"{HEAD}{port(0)}{port(1)}{port(1, 'n')}endmodule\n")
    both = "    if (en) begin\n      m[0] <= d[0];\n      m[1] <= d[1];\n    end\n"
    assert made == f"{HEAD}  always @(posedge clk) begin\n{both}  end\n{port(1, 'n')}endmodule\n"


def test_words_of_the_language_are_no_names():
    text = f"{HEAD}  reg \\end ;\n  wire \\$auto$rtlil.cc:3245:Not$2 ;\nendmodule\n"
    assert postprocess(text) == f"{HEAD}  reg end_;\n  wire _Not_2_;\nendmodule\n"


def test_the_next_value_of_a_register_is_named_after_it():
    always = "  always @(posedge clk)\n    {} <= {};\n"
    text = f"{HEAD}  reg [3:0] _1_;\n  reg _12_;\n{always.format('a', '_1_')}endmodule\n"
    made = name_next_values(text + f"{HEAD}  wire _1_;\nendmodule\n")
    assert "  reg [3:0] a_next;\n  reg _12_;\n" in made
    assert "    a <= a_next;\n" in made
    # Another module's signal of the same number is another signal.
    assert made.endswith("  wire _1_;\nendmodule\n")
    taken = text.replace("reg _12_", "reg a_next")
    assert name_next_values(taken) == taken
