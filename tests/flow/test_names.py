"""Names of modules: each is refused with one sentence, or works in every tool."""

import pytest
from pyslang.parsing import TokenKind

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit import handoff
from seedbed.flow.emit.names import RESERVED, require_name
from seedbed.flow.fpga import synth
from seedbed.sim import tools
from seedbed.sim.verilog import verilog_bench
from seedbed.sim.verilog.verilate import lint

CORE = CORES["lfsr"]


def test_reserved_words_are_those_of_slang():
    """Its list has them without underscores, in the order of the standard."""
    found = {name.lower() for name in map(str, TokenKind.__members__) if name.endswith("Keyword")}
    assert {f"{word.replace('_', '')}keyword" for word in RESERVED} == found
    assert len(RESERVED) == 248


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("wire", "name must not be 'wire', a reserved word of Verilog or SystemVerilog"),
        ("logic", "name must not be 'logic', a reserved word of Verilog or SystemVerilog"),
        ("bool", "name must not be 'bool', a reserved word of Icarus Verilog"),
        ("TOP", "name must not be 'TOP', a reserved word of Verilator"),
        ("clk", "name must not be 'clk', the name of a port"),
        ("i_seed_valid", "name must not be 'i_seed_valid', the name of a port"),
        ("", "name must be at most 100 letters, digits and single underscores between them"),
        ("2nd", "name must be at most 100 letters, digits and single underscores between them"),
    ],
)
@pytest.mark.parametrize("command", ["verilog", "testbench"])
def test_a_name_is_refused_with_a_sentence(command, name, sentence, tmp_path, called):
    code, out, err = called([command, "lfsr", "--name", name, "-o", "."], tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {sentence}")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [
    "_a", "a_", "a__b", "1", "a$b", "\\a", "a b", "a/b", "../a", "a.b", "é", "a\n", "٣", "a" * 101,
    *sorted(RESERVED), "wone", "wreal", "std",
])  # fmt: skip
def test_no_tool_meets_such_a_name(name):
    with pytest.raises(ValueError, match=r"^name must (be at most|not be)"):
        require_name(name)


#: Names of signals inside, of the testbench, and of C++; a folder's; and the longest.
TRICKY = ["word", "phase", "dut", "delete", "Wire", "a" * 100]


@pytest.mark.parametrize("name", TRICKY)
def test_what_is_not_refused_works_in_every_tool(name, tmp_path):
    path, bench, *_ = handoff.bench(CORE, {}, tmp_path, name=name)
    assert lint(path, name) == []
    command = f"read_verilog {path.name}; hierarchy -check -top {name}; write_verilog again.v"
    synth.yosys(tmp_path, "names", command)
    if name in TRICKY[:2]:
        run = verilog_bench.verilator(bench, [path])
        assert verilog_bench.run(run, tmp_path) > 100
    if tools.there("IVERILOG"):
        for generation in verilog_bench.GENERATIONS:
            run = verilog_bench.icarus(bench, [path], generation=generation)
            assert verilog_bench.run(run, tmp_path) > 100
