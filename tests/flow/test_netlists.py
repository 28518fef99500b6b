"""yosys's plain commands on the emitted Verilog, and netlists of it in simulation.

Here for one core; rows of `seedbed measure --kind mapping --kind netlist` have all of them.
"""

import re
from pathlib import Path

import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.flow.fpga import netlists, synth
from seedbed.flow.report import mapped
from seedbed.sim.harness import Mismatch


def test_every_core_has_its_checks():
    checks = list(mapped.checks())
    assert len(set(checks)) == len(checks)
    found = {kind: {core for of, core, _ in checks if of == kind} for kind, _, _ in checks}
    assert found["mapping"] == set(CORES)
    assert found["netlist"] == set(CORES) - set(mapped.LARGE)
    assert {target for kind, _, target in checks if kind == "netlist"} == set(netlists.MODELS)
    assert {*mapped.SMALLER, *mapped.QUICK, *mapped.LARGE} < set(CORES)


def test_a_core_keeps_its_targets_when_another_is_added(monkeypatch):
    before = set(mapped.checks())
    monkeypatch.setattr(mapped, "CORES", {"first": CORES["lfsr"]} | CORES)
    assert before < set(mapped.checks())


@pytest.mark.parametrize("target", netlists.COMMANDS)
def test_yosys_maps_what_it_reads(target, tmp_path, kept):
    path = write(CORES["lfsr"], {}, tmp_path, kept=kept)
    assert netlists.map_plain(path, "lfsr", target, tmp_path / target) >= 20


def test_what_yosys_refuses_or_removes_is_an_error(tmp_path):
    path = tmp_path / "core.v"
    path.write_text("module lfsr(input clk, output o);\nendmodule\n")
    with pytest.raises(RuntimeError, match="Assertion failed"):
        netlists.map_plain(path, "lfsr", "gowin", tmp_path / "nothing")
    path.write_text("module lfsr(input clk, output o);\n")
    with pytest.raises(RuntimeError, match="syntax error"):
        netlists.map_plain(path, "lfsr", "gowin", tmp_path / "half")


@pytest.mark.parametrize("name", ["lfsr", "loss_sign", "prng_pool"])
def test_the_commands_for_devices_without_initial_values(name, tmp_path, kept):
    page = Path(__file__).parents[2] / "docs" / "interfaces.md"
    (script,) = re.findall(r"```text\n(read_verilog .*?)```", page.read_text(), re.DOTALL)
    assert "setattr -unset init" in script
    write(CORES[name], mapped.params(name), tmp_path, kept=kept)
    script = re.sub(r"\blfsr\b", name, script)
    synth.yosys(tmp_path, "microchip", f"{script}\nselect -assert-min 1 t:SLE\n")
    with pytest.raises(RuntimeError, match="initialized D flip-flops are not supported"):
        synth.yosys(tmp_path, "refused", re.sub("setattr.*", "", script))


@pytest.mark.parametrize("target", netlists.MODELS)
def test_a_netlist_that_does_something_else_is_noticed(target, tmp_path, kept):
    core = CORES["lfsr"]
    netlist = netlists.map_logic(write(core, {}, tmp_path, kept=kept), core.name, target, tmp_path)

    def play():
        return netlists.play(netlist, core, core.configure(), target, tmp_path, cycles=1000)

    assert play() >= 1000
    text = netlist.read_text()
    # The function of the first LUT, inverted.
    first = re.compile(r"(\.INIT\(\d+'h)([0-9a-f]+)")
    other = first.sub(
        lambda lut: f"{lut[1]}{int(lut[2], 16) ^ (1 << 4 * len(lut[2])) - 1:x}", text, count=1
    )
    assert other != text
    netlist.write_text(other)
    with pytest.raises(Mismatch, match="o, phase"):
        play()


MEMORY = """
module core(input clk, input [3:0] a, input [17:0] x, y,
    output reg [17:0] read, output reg [35:0] product);
  (* syn_ramstyle = "block_ram" *) (* ram_style = "block" *) reg [17:0] words [0:15];
  always @(posedge clk) begin
    words[a] <= x;
    read <= words[a];
    product <= x * y;
  end
endmodule
"""


def test_memories_and_multipliers_are_mapped_to_logic(tmp_path):
    path = tmp_path / "memory.v"
    path.write_text(MEMORY)
    blocks = ("DP16KD", "MULT18X18D")
    folder = synth.map_core(path, "core", target="ecp5", build=tmp_path)
    text = (folder / "netlist.v").read_text()
    assert all(cell in text for cell in blocks)
    text = netlists.map_logic(path, "core", "ecp5", tmp_path).read_text()
    assert not any(cell in text for cell in blocks)
