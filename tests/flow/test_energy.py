"""Energy: toggles of a waveform, the power of cells, and a core in the tools where they are."""

import json

import pytest

from seedbed.flow.cores import registry
from seedbed.flow.fpga import energy
from seedbed.flow.report.energy_table import energy_table
from seedbed.sim import tools

VCD = """\
$scope module dut $end
$var wire 1 ! clk $end
$var wire 1 " o_valid $end
$var wire 1 # o_ready $end
$var wire 2 $ o_payload [1:0] $end
$var reg 1 % net_0 $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
0!
0"
1#
bx $
x%
$end
#5
1!
1"
b1 $
0%
#10
0!
#15
1!
b10 $
1%
#20
0!
#25
1!
0"
b11 $
0%
"""
SCRIPT = """\
#!/bin/sh
echo 'worst slack 9.1500'
echo ' 1.0e-05 0.0e+00 1.0e-10 1.0e-05 cell_0'
echo ' 0.0e+00 0.0e+00 2.0e-10 2.0e-10 cell_1'
echo ' 2.0e-05 1.0e-05 1.0e-10 3.0e-05 cell_0'
echo ' 3.0e-06 1.0e-06 2.0e-10 4.0e-06 cell_1'
"""
TIMED = """\
  DFFPOSX1 cell_0 (
    .CLK(clk),
    .D(net_1),
    .Q(o_payload[0])
  );
  INVX1 cell_1 (
    .A(o_payload[0]),
    .Y(\\a$b )
  );
"""


def test_toggles_and_beats_are_those_before_the_edge():
    """A change from unknown is no toggle; a beat is what registers see at the edge."""
    toggles, cycles, beats = energy._counts(VCD.splitlines(keepends=True), "o")
    assert toggles == {
        "o_valid": 2, "o_ready": 0, "o_payload[0]": 2, "o_payload[1]": 1, "net_0": 2,
    }  # fmt: skip
    assert (cycles, beats) == (3, 2)


def test_the_power_is_that_of_the_toggles(tmp_path, monkeypatch):
    script = tmp_path / "sta"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    monkeypatch.setenv("OPENSTA", str(script))
    (tmp_path / "timed.v").write_text(TIMED)
    cells, slack, power = energy._power(tmp_path, "top", {"o_payload[0]": 0.5, "\\a$b": 0.25}, 100)
    assert (cells, slack) == (2, 9.15)
    assert power == pytest.approx(1.0e-5 + 2.0e-5 * 0.5 + 2.0e-10 + (4.0e-6 - 2.0e-10) * 0.25)


def test_cells_without_power_are_an_error(tmp_path, monkeypatch):
    script = tmp_path / "sta"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    monkeypatch.setenv("OPENSTA", str(script))
    (tmp_path / "timed.v").write_text(TIMED.replace("cell_1", "cell_2"))
    with pytest.raises(RuntimeError, match="OpenSTA printed no power of top"):
        energy._power(tmp_path, "top", {}, 100)


def test_the_numbers_of_a_beat():
    def numbers(core, **params):
        found = registry.find(core)
        return energy.numbers(found.signature(found.configure(params)))

    assert numbers("lfsr") == 1
    assert numbers("urng_array", lanes=7) == 7
    assert numbers("perturbation", lanes=7, width=8) == 7


@pytest.mark.parametrize(
    ("tool", "library", "said"),
    [
        ("no-such-sta", "/", "no-such-sta is not installed: apt-get install opensta"),
        ("sh", "/no/such", "the cell library osu018 is not installed: apt-get install qflow-tech"),
    ],
)
def test_a_missing_package_is_named(tool, library, said, monkeypatch, tmp_path, called):
    monkeypatch.setenv("OPENSTA", tool)
    monkeypatch.setenv("IVERILOG", "sh")
    monkeypatch.setenv("VVP", "sh")
    monkeypatch.setattr(energy, "LIBRARY", energy.Path(library))
    code, out, err = called(["energy", "lfsr"], tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {said}")
    assert list(tmp_path.iterdir()) == []


def row(core, config, beat, number, **params):
    figures = {
        "cells": 1, "area_um2": 2.0, "memory_bits": 0, "path_ns": 1.0, "power_mw": 1.0,
        "beat_pj": beat, "numbers": 1, "number_pj": number,
    }  # fmt: skip
    return {"core": core, "config": config, "kind": "energy", "params": params, "figures": figures}


def test_the_saving_is_that_of_1024_numbers():
    rows = [
        row("urng_array", "31 x 14", 102.4, 3.3),
        row("tree_grng", "published", 0.5, 0.5),
        row("seedlm_decompress", "small", 9.0, 9.0),
    ]
    table = energy_table(rows, "Energy", "")
    assert [line[-2] for line in table.lines] == ["80.0", "", ""]
    assert energy_table([], "Energy", "") is None


@pytest.mark.skipif(
    not (tools.there("OPENSTA") and tools.there("IVERILOG") and energy.LIBRARY.is_dir()),
    reason="needs opensta, qflow-tech-osu018 and iverilog",
)
def test_a_core_in_the_tools(tmp_path, called):
    """At twice the clock, a beat takes the same energy, without that of leakage."""
    found = []
    for clock in ("100", "200"):
        code, out, _ = called(["energy", "lfsr", "--clock", clock, "--json"], tmp_path)
        assert code == 0
        found.append(json.loads(out))
    slow, fast = found
    assert fast["beat_pj"] < slow["beat_pj"] == pytest.approx(fast["beat_pj"], rel=1e-3)
    assert slow["power_mw"] < fast["power_mw"]
    assert slow["cells"] == fast["cells"] > 0
    assert slow["memory_bits"] == 0
    assert slow["path_ns"] == pytest.approx(fast["path_ns"], abs=1e-3)
