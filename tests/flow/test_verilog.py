# amaranth: UnusedElaboratable=no
import os
import re
import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out
from pyslang import ast, syntax

from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.emit.verilog import emit, write
from seedbed.flow.fpga import synth
from seedbed.sim.verilog import verilog_bench
from seedbed.sim.verilog.verilate import WAIVERS, lint

#: Direction, sign, highest bit and name of a port in a module's head.
PORT = re.compile(
    r"^  (input|output) (?:wire|reg) (signed )?(?:\[(\d+):0\] )?(\w+)(?: = \S+)?,?(?:  // .*)?$",
    re.MULTILINE,
)

UNUSED = re.compile(r"UNUSEDSIGNAL: .*\.v:(\d+):\d+: (?:Signal|Bits of signal).*: '([^']+)'")

WAIVED = "lint_off -rule UNUSEDSIGNAL\n"

#: A table whose entries are all the same has no use for its address.
MAY_BE_UNUSED = {"scale_lut": {"i_payload"}}


def declared(text):
    """Direction, sign, width and name of every port of a module's head."""
    found = PORT.findall(text)
    return [(way, bool(sign), int(msb or 0) + 1, name) for way, sign, msb, name in found]


def test_ports_paths_and_lint(configured, tmp_path, kept, ports_of):
    core, params = configured
    path = write(core, params, tmp_path, kept=kept)
    text = path.read_text()
    top = text[text.index(f"\nmodule {core.name} (") :].split("\nendmodule")[0]
    # Where only ports are declared signed, no comparison of others becomes a signed one.
    assert " signed " not in text.replace(top.split("\n);")[0], "")
    expected = ports_of(core.name, params)
    assert declared(top) == expected
    assert not re.findall(r"(?<![\w*/])/\w+/.*", text), "an absolute path"
    assert not re.findall(r"\\.*", text), "an escaped name"
    assert not re.findall(r"\b_\w*\d+_\b", text), "a numbered signal"
    assert not re.findall(r"\w\[[^]]*\]? [-+*] [^][]*\]", text), "an index that Icarus widens"
    assert max(map(len, text.splitlines())) <= 120
    # All of them are waived by one line: without it, those of ports are left, see below.
    waivers = tmp_path / "lint.vlt"
    waivers.write_text(WAIVERS.read_text().replace(WAIVED, ""))
    messages = lint(path, core.name, waivers=waivers)
    assert [message for message in messages if "-UNUSEDSIGNAL: " not in message] == []
    # Inner modules have ports of the same names: only lines of the top module count.
    first = text[: text.index(f"\nmodule {core.name} (")].count("\n") + 2
    unused = {
        name
        for line, name in UNUSED.findall("\n".join(messages))
        if first <= int(line) <= first + top.count("\n")
    }
    assert unused & {name for *_, name in expected} <= MAY_BE_UNUSED.get(core.name, set())


class Signs(Component):
    """Compares signed numbers as unsigned ones: fields of a port, a port and registers."""

    def __init__(self):
        pair = data.StructLayout({"a": signed(4), "b": signed(4)})
        super().__init__({"i": In(pair), "p": In(signed(4)), "o": Out(3), "q": Out(signed(5))})

    def elaborate(self, platform):
        m = Module()
        a, b = (Signal(signed(4), name=name) for name in "ab")
        m.d.sync += [a.eq(self.i.a), b.eq(self.i.b)]
        pairs = (self.i.a, self.i.b), (self.p, a), (a, b)
        for k, (left, right) in enumerate(pairs):
            m.d.comb += self.o[k].eq(left.as_unsigned() < right.as_unsigned())
        m.d.comb += self.q.eq(self.p)
        return m


def test_signed_ports_do_not_change_what_is_computed(tmp_path):
    """Verilog compares by the declared signs, and yosys does not declare an operand unsigned."""
    text = emit(replace(CORES["lfsr"], name="signs", component=lambda config: Signs()), {})
    ports = [(True, 4, "i_a"), (True, 4, "i_b"), (True, 4, "p"), (False, 3, "o"), (True, 5, "q")]
    assert [port for _, *port in declared(text)[2:]] == list(map(list, ports))
    (tmp_path / "signs.v").write_text(text)
    counts = ["select -assert-count 3 t:$lt", "select -assert-count 3 t:$lt r:A_SIGNED=0 %i"]
    synth.yosys(tmp_path, "signs", "\n".join(["read_verilog signs.v", *counts]))


#: What slang may say, and by default does not: see the reasons in lint.vlt.
STYLE = {"SignConversion", "ArithOpMismatch", "CaseDefault"}


def told_by_slang(text):
    """What slang has to say of SystemVerilog, but for style."""
    compilation = ast.Compilation()
    compilation.addSyntaxTree(syntax.SyntaxTree.fromText(text))
    codes = [re.search(r"\w+(?=\)$)", str(d.code))[0] for d in compilation.getAllDiagnostics()]
    return [code for code in codes if code not in STYLE]


def test_slang_has_nothing_to_say(configured, tmp_path, kept):
    core, params = configured
    assert told_by_slang(write(core, params, tmp_path, kept=kept).read_text()) == []


@pytest.mark.parametrize("core", WRAPPERS.values(), ids=WRAPPERS)
def test_slang_has_nothing_to_say_of_wrappers(core, tmp_path, kept, ports_of):
    text = write(core, {}, tmp_path, kept=kept).read_text()
    assert told_by_slang(text) == []
    top = text[text.index(f"\nmodule {core.name} (") :].split("\nendmodule")[0]
    assert declared(top) == ports_of(core.name, {})


def test_slang_has_nothing_to_say_of_a_testbench(tmp_path, kept):
    core = CORES["urng_array"]
    config = core.configure()
    path = verilog_bench.write(
        tmp_path, core.name, core.case(config, Random(1)), core.signature(config)
    )
    text = write(core, {}, tmp_path, kept=kept).read_text()
    assert told_by_slang(text + path.read_text()) == []


def test_slang_says_what_is_wrong():
    assert told_by_slang("module a(input b);\n  assign c.d = b;\nendmodule\n") != []
    assert told_by_slang("module a(output reg b);\n  always @* b = 2'd3;\nendmodule\n") != []


def test_waivers_waive_what_is_unused_inside(tmp_path):
    path = tmp_path / "inner.v"
    path.write_text("module inner(input i, output o);\n  wire a = i;\n  assign o = i;\nendmodule\n")
    assert lint(path, "inner") == []
    assert WAIVERS.read_text().count(WAIVED) == 1
    waivers = tmp_path / "lint.vlt"
    waivers.write_text(WAIVERS.read_text().replace(WAIVED, ""))
    assert len(UNUSED.findall("\n".join(lint(path, "inner", waivers=waivers)))) == 1


def test_text_is_the_same_in_another_process(tmp_path):
    core = CORES["urng_array"]
    program = (
        "import sys; from seedbed.sim.tools import setup_environment; setup_environment();"
        "from seedbed.flow.cores.registry import CORES; from seedbed.flow.emit.verilog import emit;"
        "sys.stdout.write(emit(CORES['urng_array'], {'width': 14}))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout == emit(core, {"width": 14})


def test_lint_sees_what_is_not_waived(tmp_path):
    path = tmp_path / "wide.v"
    path.write_text("module wide(input [3:0] i, output [2:0] o);\n  assign o = i;\nendmodule\n")
    assert any("WIDTHTRUNC" in message for message in lint(path, "wide"))


def test_lint_refuses_what_is_no_verilog(tmp_path):
    path = tmp_path / "broken.v"
    path.write_text("module broken(input i;\n")
    with pytest.raises(RuntimeError, match="syntax error"):
        lint(path, "broken")


class Partly(Component):
    """Gives a constant beside what comes."""

    i: In(3)
    o: Out(data.StructLayout({"low": 3, "high": 1}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.o.low.eq(1), self.o.high.eq(1)]
        with m.If(self.i[0]):
            m.d.comb += self.o.low.eq(self.i)
        return m


def test_a_constant_part_of_a_signal_is_assigned(tmp_path):
    core = replace(CORES["lfsr"], name="partly", component=lambda config: Partly())
    path = write(core, {}, tmp_path)
    assert "= 1'h1;" in path.read_text()
    assert lint(path, "partly") == []
