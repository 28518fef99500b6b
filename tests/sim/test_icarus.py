# amaranth: UnusedElaboratable=no
"""The emitted Verilog in Icarus Verilog, as Verilog and as SystemVerilog."""

import re
import subprocess
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, Out

from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.emit.verilog import write
from seedbed.flow.jobs import icarus
from seedbed.sim import tools
from seedbed.sim.case import Case, Phase
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog import verilog_bench


def missing():
    """Say what is not installed, if anything."""
    try:
        tools.find("IVERILOG")
    except tools.ToolMissing as problem:
        return str(problem)
    return ""


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


#: Cores of a second each. CI has the others: here, or as rows of `seedbed measure --kind icarus`.
QUICK = ("lfsr", "urng_array", "skid_buffer", "loss_sign")


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("generation", verilog_bench.GENERATIONS)
@pytest.mark.parametrize("name", QUICK)
def test_emitted_verilog_matches_model(name, generation, reset, tmp_path, kept):
    core = CORES[name]
    path = write(core, core.small, tmp_path, kept=kept)
    config = core.configure(core.small)
    assert icarus.run(path, core, config, tmp_path, generation=generation, reset=reset) > 10


def test_what_differs_or_is_too_short_is_an_error(tmp_path, kept, monkeypatch):
    core = CORES["lfsr"]
    path = write(core, {}, tmp_path, kept=kept)
    config = core.configure()
    text = path.read_text()
    path.write_text(text.replace("? i_seed_payload : o_payload", "? o_payload : i_seed_payload"))
    assert path.read_text() != text
    with pytest.raises(Mismatch, match="o, "):
        icarus.run(path, core, config, tmp_path, generation="2005", reset=True)
    path.write_text(text)
    monkeypatch.setattr(verilog_bench, "run", lambda *_, **__: 3)
    with pytest.raises(RuntimeError, match=r"3 cycles are too few for \d+ beats of lfsr"):
        icarus.run(path, core, config, tmp_path, generation="2012", reset=False)


def warnings(path, top):
    command = [tools.find("IVERILOG"), "-g2005", "-Wall", "-t", "null", "-s", top, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_icarus_warns_of_nothing(configured, tmp_path, kept):
    core, params = configured
    assert warnings(write(core, params, tmp_path, kept=kept), core.name) == ""


def test_icarus_warns_of_what_is_wrong(tmp_path):
    text = "module b(input i);\nendmodule\nmodule a();\n  b c(2'd0);\nendmodule\n"
    (tmp_path / "a.v").write_text(text)
    assert "expects 1 bits, got 2" in warnings(tmp_path / "a.v", "a")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in CORES]
)
def test_a_reset_is_enough_without_initial_values(name, tmp_path, kept):
    """As on a device that has none: outputs are unknown until the first reset, and never after."""
    core = CORES[name]
    path = write(core, core.small, tmp_path, kept=kept)
    changed = Counter()

    def without(found: re.Match[str]) -> str:
        # No reset changes which of two copies of the adapters is valid: any value will do.
        changed[found[1]] += 1
        return "page = 1'h1" if found[1] == "page" else found[1]

    text = re.sub(
        r"^  (?:output )?reg [^;]*;",
        lambda declared: re.sub(r"(\w+) = \d+'h[0-9a-f]+", without, declared[0]),
        path.read_text(),
        flags=re.MULTILINE,
    )
    assert changed
    assert changed["page"] == (name in ("lora", "instantft"))
    path.write_text(text)
    config = core.configure(core.small)
    bench = verilog_bench.write(
        tmp_path, name, core.case(config, Random(1)), core.signature(config)
    )
    checked = bench.read_text()
    bench.write_text(checked.replace(" && !over) begin", " && resetting == 0 && !over) begin"))
    command = verilog_bench.icarus(bench, [path], generation="2005")
    with pytest.raises(Mismatch, match=r"unknown|timed out"):
        verilog_bench.run(command, tmp_path, reset=0)
    assert verilog_bench.run(command, tmp_path, reset=1, unknown=1) > 100


#: A wrapper that nothing is asked of: what it says of its handshakes, from the first cycle on.
IDLE = """\
module idle;
  reg aclk = 0, aresetn = {resets};
  always #5 aclk = ~aclk;
{declarations}
  {top} dut ({pins});
  always @(posedge aclk) if ((^{{{watched}}}) === 1'bx) begin
    $display("unknown: %b", {{{watched}}});
    $finish;
  end
  initial begin #100 aresetn = 1; #1000 $display("known"); $finish; end
endmodule
"""


@pytest.mark.parametrize("generation", verilog_bench.GENERATIONS)
@pytest.mark.parametrize("name", WRAPPERS)
def test_handshakes_of_wrappers_are_known(name, generation, tmp_path, kept, ports_of):
    params = WRAPPERS[name].small
    verilog = write(WRAPPERS[name], params, tmp_path, kept=kept)
    ports = sorted(ports_of(name, params))
    inputs = [(n, p) for way, _, n, p in ports if way == "input" and p[0] != "a"]
    driven = [f"reg [{n - 1}:0] {p} = 0;" for n, p in inputs]
    shown = [f"wire [{n - 1}:0] {p};" for way, _, n, p in ports if way == "output"]
    watched = [p for way, *_, p in ports if way == "output" and re.search("(valid|ready)$", p)]
    for resets in (0, 1):
        text = IDLE.format(
            top=name,
            resets=resets,
            declarations="\n".join(driven + shown),
            pins=", ".join(f".{p}({p})" for *_, p in ports),
            watched=", ".join(watched),
        )
        (tmp_path / "idle.v").write_text(text)
        command = verilog_bench.icarus(tmp_path / "idle.v", [verilog], generation=generation)
        assert tools.run("VVP", *command[1:]).splitlines()[0] == "known"


class Still(Component):
    """Gives what nothing ever changes: a constant, and a register's initial value."""

    o: Out(stream.Signature(data.StructLayout({"low": 3, "high": 1, "held": 2, "chosen": 2})))

    def elaborate(self, platform):
        m = Module()
        held = Signal(2, init=2)
        with m.If(self.o.payload.low == 7):
            m.d.sync += held.eq(0)
        m.d.comb += [self.o.valid.eq(1), self.o.payload.low.eq(1), self.o.payload.high.eq(1)]
        with m.If(held[0]):
            m.d.comb += self.o.payload.low.eq(0)
        m.d.comb += self.o.payload.held.eq(held)
        with m.Switch(held), m.Case(2):
            m.d.comb += self.o.payload.chosen.eq(3)
        return m


@pytest.mark.parametrize("reset", [0, 1])
@pytest.mark.parametrize("generation", verilog_bench.GENERATIONS)
def test_what_never_changes_has_its_value_from_the_start(generation, reset, tmp_path):
    core = replace(CORES["lfsr"], name="still", component=lambda config: Still())
    verilog = write(core, {}, tmp_path)
    assert "always @*" in verilog.read_text()
    case = Case(phases=[Phase(outputs={"o": [0b11_10_1_001] * 5})])
    bench = verilog_bench.write(tmp_path, "still", case, core.signature(core.configure()))
    command = verilog_bench.icarus(bench, [verilog], generation=generation)
    assert verilog_bench.run(command, tmp_path, reset=reset) >= 5
