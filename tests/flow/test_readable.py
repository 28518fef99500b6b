# amaranth: UnusedElaboratable=no
"""The readable Verilog is equal to what Yosys writes: proved, and compared cycle by cycle."""

import re
import subprocess
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.emit import expressions, split_fields
from seedbed.flow.emit.convert import convert
from seedbed.flow.emit.deduplicate import deduplicate
from seedbed.flow.emit.identifiers import legalize
from seedbed.flow.emit.postprocess import postprocess
from seedbed.flow.emit.readable import readable
from seedbed.flow.emit.verilog import write
from seedbed.flow.fpga import synth
from seedbed.sim import tools
from seedbed.sim.ports import ports
from seedbed.sim.verilog import verilate

#: Cores whose proofs take seconds; CI has all configurations.
QUICK = ["lfsr", "skid_buffer", "urng_array", "loss_sign", "requantize", "host_link", "sdram"]

#: In the module of :mod:`seedbed.hw.loss.softmax_loss`, for whose product of 16 bits SAT takes more
#: than a quarter of an hour: it is compared cycle by cycle, and in its initial values.
UNPROVED = re.compile(r" \* entry_d1\[15:0\]")

SIDE = """\
read_verilog {0}.v
proc -norom
dump -m -o {0}.initial a:init
memory_collect
opt_clean
design -save {0}
"""
PROOF = """\
design -reset
{boxes}
design -copy-from gold -as gold {module}
design -copy-from gate -as gate {module}
equiv_make gold gate proof
delete gold gate
cd proof
opt_expr -undriven
opt_merge
opt_clean
equiv_struct
equiv_simple
tee -q -o {module}.status equiv_status
cd
"""


def plain(component, name):
    """Return the Verilog of a component with one operator in each assignment."""
    text = deduplicate(rtlil.convert(component, name=name, emit_src=False))
    text = legalize(split_fields.split(text, name, ports(component.signature)))
    return postprocess(convert(text).partition("\n")[2])


def initial(dump, text):
    """Return the initial values of the registers of a text, from yosys's dump of all wires."""
    declared = re.findall(r"^module (\w+)(.*?)^endmodule", text, re.M | re.S)
    # Those with a number for a name have another one in the readable text.
    register = re.compile(r"^  reg (?:\[\S+\] )?(?!_\w*\d+_ )(\w+) = ", re.M)
    registers = {name: {*register.findall(body)} for name, body in declared}
    found, value, module = [], "", ""
    for words in map(str.split, dump.splitlines()):
        match words:
            case ["module", name]:
                module = name[1:]
            case ["attribute", "\\init", value]:
                pass
            case ["wire", *_, name] if name[1:] in registers[module]:
                found.append((module, name[1:], value))
    return sorted(found)


def prove(folder, old, new):
    """Return the signals that differ; submodules are equal by their own proofs."""
    (folder / "gold.v").write_text(old)
    (folder / "gate.v").write_text(new)
    declared = dict(re.findall(r"^module (\w+)(.*?)^endmodule", old, re.M | re.S))
    assert sorted(declared) == sorted(re.findall(r"^module (\w+)", new, re.M))
    modules = {name: body for name, body in declared.items() if not UNPROVED.search(body)}
    script = SIDE.format("gold") + "design -reset\n" + SIDE.format("gate")
    for module, body in modules.items():
        parts = sorted({*re.findall(r"^  (\w+) \w+ \($", body, re.M)} & {*declared})
        boxes = (f"design -copy-from gold -as {part} {part}\nblackbox {part}" for part in parts)
        script += PROOF.format(module=module, boxes="\n".join(boxes))
    (folder / "run.ys").write_text(script)
    tools.run("YOSYS", "-q", "-s", "run.ys", cwd=folder)
    found = []
    for module in modules:
        status = (folder / f"{module}.status").read_text()
        (count,) = re.findall(r"and (\d+) are unproven", status)
        found += [module] * int(count)
    first, second = ((folder / f"{side}.initial").read_text() for side in ("gold", "gate"))
    if initial(first, old) != initial(second, old):
        found.append("initial values")
    return found


def differing(component, name, folder):
    text = plain(component, name)
    return prove(folder, text, readable(text))


@pytest.mark.parametrize("name", QUICK)
def test_text_is_equal_to_the_netlist(name, tmp_path):
    core = CORES[name]
    assert differing(core.component(core.configure(core.small)), name, tmp_path) == []


@pytest.mark.long
def test_text_is_equal_to_the_netlist_of_every_configuration(configured, tmp_path):
    core, params = configured
    assert differing(core.component(core.configure(params)), core.name, tmp_path) == []


class Operators(Component):
    """All operators, of signed and unsigned numbers of several widths, in each other's place."""

    def __init__(self):
        ports = {"a": In(5), "b": In(3), "c": In(1), "p": In(signed(5)), "q": In(signed(3))}
        super().__init__({**ports, "o": Out(400), "r": Out(signed(7))})

    def elaborate(self, platform):
        m = Module()
        a, b, c, p, q = self.a, self.b, self.c, self.p, self.q
        sums = [a + b, p + q, a + q, a - b, q - p, a * b, p * q, -p, -a, ~p, ~a, a & b, p | q]
        sums += [a ^ q, a << b, p << b, a >> b, p >> b, Mux(c, a, b), Mux(c, p, q), Mux(a, p, b)]
        sums += [a == b, p == q, p == a, a < b, p < q, p > a, p <= q, a >= b, a != b]
        sums += [a.any(), p.all(), b.xor(), a.bool(), ~(a == b), abs(p), a.bit_select(b, 2)]
        sums += [p * 3 + q * 5, a + b + c, (a + b)[:5], (p + q)[1:4]]
        sums += [(a + b + c).bit_select(b, 2), (a - b).word_select(c, 3)]
        # What is cut off must not come back as a part of a longer product.
        sums += [(a + b)[:5] * b, (a - b)[:3] * a, ((p + q)[:5].as_signed() * q), (a << c)[:5] * b]
        # As parts, as operands of wider and of narrower operators, and as conditions.
        nested = [part + p for part in sums] + [(part ^ b)[:3] for part in sums]
        count = Signal(4, init=5)
        m.d.comb += [self.o.eq(Cat(*sums, *nested, count)), self.r.eq(sums[6] + sums[1])]
        m.d.sync += count.eq(count + 1)
        with m.If(a + b):
            m.d.sync += count.eq(count - b)
        return m


def test_equal_initial_values_are_a_loop():
    declared = "  input clk;\n  wire clk;\n  reg [3:0] m [7:0];\n  initial begin\n"
    lines = "".join(f"    m[{k}] = 4'h7;\n" for k in range(8))
    made = readable(f"module a(clk);\n{declared}{lines}  end\nendmodule\n")
    assert "    for (k = 0; k < 8; k = k + 1) m[k] = 4'h7;\n" in made
    assert made.count("m[") == 1


def test_a_module_with_a_statement_that_is_not_known_keeps_its_text():
    text = "module a(clk);\n  input clk;\n  wire clk;\n  {}\nendmodule\n"
    known = text.format("assign clk = clk;")
    for line in ("always @(negedge clk)", "assign clk = clk ** clk;"):
        other = text.format(line)
        assert readable(f"{other}\n{known}") == f"{other}\n{readable(known)}"


def test_an_index_computes_nothing():
    """In Icarus Verilog, a difference in an index is below 0, and the word unknown."""
    declared = "  input clk;\n  wire clk;\n  reg [2:0] a;\n  reg [3:0] m [7:0];\n"
    body = "  wire [2:0] _1_;\n  wire [2:0] _2_;\n  output o;\n  wire o;\n"
    body += "  assign _1_ = a - 3'h6;\n  assign _2_ = a - 3'h5;\n  assign o = m[_1_][0];\n"
    body += "  always @(posedge clk)\n    m[_2_] <= 4'h1;\n"
    made = readable(f"module a(clk, o);\n{declared}{body}endmodule\n")
    assert made.count("m[a_difference") == 2


def test_a_chain_of_any_length_is_read():
    count = 3000
    wires = "".join(f"  wire _{k}_;\n" for k in range(count))
    links = "".join(f"  assign _{k + 1}_ = _{k}_ ^ a[{k % 8}];\n" for k in range(count - 1))
    head = "module a(a, o);\n  input [7:0] a;\n  wire [7:0] a;\n  output o;\n  wire o;\n"
    last = f"  assign _0_ = ~a[0];\n{links}  assign o = _{count - 1}_;\nendmodule\n"
    made = readable(f"{head}{wires}{last}")
    assert not re.search(r"\b_\d+_\b", made)
    assert made.count("^") == count - 1


def test_operators_keep_their_values_in_every_place(tmp_path):
    assert differing(Operators(), "operators", tmp_path) == []


def test_a_context_that_widens_an_operand_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(expressions, "_extended", lambda e, width: e)
    assert "operators" in differing(Operators(), "operators", tmp_path)


def test_another_initial_value_is_found(tmp_path):
    text = plain(Operators(), "operators")
    other = readable(text).replace("count = 4'h5", "count = 4'h4")
    assert prove(tmp_path, text, other) == ["initial values"]


PORT = re.compile(
    r"^  (input|output) (?:wire|reg) (?:signed )?(?:\[(\d+):0\] )?(\w+)(?: = \S+)?,?$", re.M
)
#: Two texts of a module with the same random inputs. For 64 cycles each, an input is mostly 0,
#: mostly 1, or either.
PAIR = """\
module pair_{name}(input wire clk, output reg differs);
  reg [{inputs}-1:0] i = 0, low = 0, high = 0;
  reg [31:0] r;
  reg [5:0] cycle = 0;
  wire [{outputs}-1:0] first, second;
  integer k;
  initial differs = 0;
  always @(negedge clk) begin
    cycle <= cycle + 1;
    for (k = 0; k < {inputs}; k = k + 1) begin
      r = $urandom;
      if (cycle == 0) begin
        low[k] <= r[6];
        high[k] <= r[7];
      end
      i[k] <= low[k] ? &r[2:0] : high[k] ? |r[2:0] : r[0];
    end
{resets}  end
  old_{name} old({pins}{first});
  {name} new_({pins}{second});
  always @(posedge clk) if (first != second) differs <= 1;
endmodule
"""
CLOCKS, RESETS = ("clk", "aclk"), ("rst", "restart")
MAIN = """\
#include <cstdio>
#include "Vtop.h"
int main() {{
    Vtop top{{}};
    for (int cycle = 0; cycle < {cycles}; ++cycle) {{
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }}
    for (int k = 0; k < {count}; ++k) std::printf("%d", (top.differs[k / 32] >> k % 32) & 1);
    return 0;
}}
"""


def pair(name, head):
    """Return a module that runs both texts of the module ``name``."""
    widths, pins, resets = {"input": 0, "output": 0}, {"input": [], "output": []}, ""
    for way, high, port in PORT.findall(re.sub(r" +//.*", "", head)):
        start, width = widths[way], int(high or 0) + 1
        if port in CLOCKS:
            pins[way].append(f".{port}(clk), ")
            continue
        bits = f"[{start + width - 1}:{start}]"
        pins[way].append(f".{port}(i{bits})" if way == "input" else f".{port}(@{bits})")
        widths[way] += width
        if port in RESETS:
            resets += f"    i[{start}] <= $urandom % 64 == 0;\n"
        elif port == "aresetn":
            resets += f"    i[{start}] <= $urandom % 64 != 0;\n"
    given = "".join(f"{pin.removesuffix(', ')}, " for pin in pins["input"])
    shown = ", ".join(pins["output"])
    return PAIR.format(
        name=name, inputs=max(widths["input"], 1), outputs=max(widths["output"], 1), resets=resets,
        pins=given, first=shown.replace("@", "first"), second=shown.replace("@", "second"),
    )  # fmt: skip


def lockstep(folder, old, new, *, cycles=10_000):
    """Return the modules of two texts with different outputs in cycles of random inputs."""
    heads = dict(re.findall(r"^module (\w+) \(\n(.*?)^\);", new, re.M | re.S))
    renamed = re.compile(rf"^(module |  )({'|'.join(heads)})(?= \w+ \($|\(| \()", re.M)
    first = renamed.sub(r"\1old_\2", old)
    pairs = "".join(f"  pair_{name} pair_{k}(clk, differs[{k}]);\n" for k, name in enumerate(heads))
    # At least three words, so that the port is an array of C++.
    size = max(len(heads), 65)
    bench = f"module bench(input wire clk, output wire [{size - 1}:0] differs);\n{pairs}endmodule\n"
    texts = [first, new, *(pair(name, head) for name, head in heads.items()), bench]
    (folder / "bench.v").write_text("\n".join(texts))
    (folder / "main.cpp").write_text(MAIN.format(cycles=cycles, count=len(heads)))
    words = ["--top-module", "bench", "-o", "bench", folder / "bench.v", folder / "main.cpp"]
    verilate.build(folder / "obj", *words, flags=["--no-timing", "-CFLAGS", "-O0"])
    found = subprocess.run(
        [folder / "obj/bench"], check=True, capture_output=True, text=True
    ).stdout
    return [name for name, differs in zip(heads, found, strict=True) if differs == "1"]


def test_lockstep_finds_another_operator(tmp_path):
    text = plain(CORES["lfsr"].component(CORES["lfsr"].configure({})), "lfsr")
    other = readable(text)
    assert " ^ " in other
    assert lockstep(tmp_path, text, other.replace(" ^ ", " | ", 1)) == ["lfsr"]


@pytest.mark.long
@pytest.mark.parametrize("core", (CORES | WRAPPERS).values(), ids=CORES | WRAPPERS)
def test_all_modules_give_the_same_in_10_000_cycles(core, tmp_path):
    text = plain(core.component(core.configure(core.small)), core.name)
    assert lockstep(tmp_path, text, readable(text)) == []


@pytest.mark.long
@pytest.mark.parametrize("target", ["xcup", "ecp5"])
@pytest.mark.parametrize("name", ["requantize", "loss_sign"])
def test_the_page_says_what_the_readable_text_is_mapped_to(name, target, tmp_path):
    page = Path(__file__).parents[2] / "docs/report.md"
    said = re.search(
        rf"`{name}`\sto\s.*?(\d+)\sin\splace\sof\s(\d+)\son\s{target}", page.read_text(), re.DOTALL
    )
    core = CORES[name]
    texts = [write(core, {}, tmp_path, plain=plain) for plain in (False, True)]
    found = [synth.synthesize(t, core.name, target=target, build=tmp_path)["lut"] for t in texts]
    assert found == list(map(int, said.groups()))
