import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from seedbed.flow.fpga import harness, parts, place, placement_files, synth, targets
from seedbed.sim import tools

# Eight flip-flops and one XOR of four: a look-up table in every family.
LFSR = """\
module lfsr(input clk, input rst, output [7:0] o_payload);
  reg [7:0] state;
  always @(posedge clk)
    if (rst) state <= 8'h01;
    else state <= {state[0] ^ state[2] ^ state[3] ^ state[4], state[7:1]};
  assign o_payload = state;
endmodule
"""
# No reset and one tap: on UltraScale+ a shift-register LUT.
DELAY = """\
module delay(input clk, input d, output q);
  reg [19:0] s;
  always @(posedge clk) s <= {s, d};
  assign q = s[19];
endmodule
"""
# Outputs of all sorts: a register, logic, an input passed on, a constant, and one net twice.
MIXED = """\
module mixed(input clk, input [5:0] a, output r, output y, output p, output one, output [1:0] rr);
  reg [1:0] s;
  always @(posedge clk) s <= {^a, &a[2:0]};
  assign r = s[0];
  assign y = s[1] & a[5];
  assign p = a[3];
  assign one = 1'b1;
  assign rr = {2{s[0]}};
endmodule
"""
# A multiplier between registers.
PRODUCT = """\
module product(input clk, input signed [15:0] a, input signed [15:0] b, output signed [31:0] o);
  reg signed [15:0] x, y;
  reg signed [31:0] p;
  always @(posedge clk) begin x <= a; y <= b; p <= x * y; end
  assign o = p;
endmodule
"""


# A block memory.
STORE = """\
module store(
    input clk, input we, input [10:0] a, input [10:0] b, input [7:0] d, output reg [7:0] q);
  reg [7:0] bits [0:2047];
  always @(posedge clk) begin
    if (we) bits[a] <= d;
    q <= bits[b];
  end
endmodule
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return tmp_path_factory.mktemp("with space")


def write(folder, text):
    path = folder / f"{text.split('(')[0].split()[1]}.v"
    path.write_text(text)
    return path


def run(build, text, target):
    path = write(build, text)
    return synth.synthesize(path, path.stem, target=target, build=build)


def test_registers_around_a_multiplier_are_in_it(build):
    result = run(build, PRODUCT, "ecp5")
    assert {k: result[k] for k in ("lut", "ff", "bram", "dsp")} == {
        "lut": 0, "ff": 0, "bram": 0, "dsp": 1,
    }  # fmt: skip


@pytest.mark.parametrize("target", sorted(targets.TARGETS))
def test_an_lfsr_is_eight_flip_flops_and_one_lut(build, target):
    result = run(build, LFSR, target)
    assert {k: result[k] for k in ("lut", "ff", "bram", "dsp")} == {
        "lut": 1, "ff": 8, "bram": 0, "dsp": 0,
    }  # fmt: skip
    assert sum(result["cells"].values()) >= 9
    assert result["tools"]["yosys"].startswith("Yosys")


def test_a_shift_register_lut_is_a_lut(build):
    result = run(build, DELAY, "xcup")
    assert result["lut"] == 1
    assert result["ff"] <= 1


def test_a_memory_is_seen_where_cores_without_one_leave_its_step_out(build):
    assert run(build, STORE, "xcup")["bram"] == 1
    (script,) = build.glob("store-xcup-*/map.ys")
    assert "-run" not in script.read_text()
    run(build, LFSR, "xcup")
    (script,) = build.glob("lfsr-xcup-*/map.ys")
    assert "-run map_ffram:" in script.read_text()


def test_luts_that_hold_bits_or_carry_count_what_they_occupy():
    xcup = {"RAM32M16": 1, "SRLC32E": 2, "LUT2": 1, "INV": 1, "CARRY8": 3, "FDSE": 4, "MUXF7": 1}
    assert targets.find("xcup").count({**xcup, "RAMB18E2": 1, "RAMB36E2": 1, "DSP48E2": 1}) == {
        "lut": 8 + 2 + 1 + 1, "ff": 4, "bram": 2, "dsp": 1,
    }  # fmt: skip
    ecp5 = {"LUT4": 3, "CCU2C": 2, "TRELLIS_DPR16X4": 1, "PFUMX": 1, "TRELLIS_FF": 5, "DP16KD": 1}
    assert targets.find("ecp5").count(ecp5) == {"lut": 13, "ff": 5, "bram": 1, "dsp": 0}


def test_the_page_of_targets_has_every_field():
    page = (Path(__file__).parents[2] / "docs/howto/target.md").read_text()
    named = re.findall(r"^    (\w+)=", page, re.MULTILINE)
    for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE):
        named += re.findall(r"`(\w+)`", row)
    assert set(named) == {field.name for field in fields(targets.Target)}


def test_a_cell_in_no_table_is_refused():
    with pytest.raises(RuntimeError, match="2 cells LUT7 of UltraScale\\+ are in no table"):
        targets.find("xcup").count({"LUT7": 2})


def test_a_second_run_starts_no_tool(build, monkeypatch):
    first = run(build, LFSR, "xcup")
    monkeypatch.setattr(tools, "run", lambda *a, **k: pytest.fail("a tool was started"))
    assert run(build, LFSR, "xcup") == first


@pytest.mark.parametrize("target", ["ecp5", "ice40"])
def test_place_gives_median_and_range_over_seeds(build, target):
    path = write(build, LFSR)
    said = []
    result = place.place(path, "lfsr", target=target, seeds=2, build=build, progress=said.append)
    low, high = sorted(result["mhz"])
    assert result["seeds"] == [1, 2]
    assert (result["min"], result["max"], result["median"]) == (low, high, (low + high) / 2)
    assert 50 < low <= high
    assert result["harness"] is True
    assert said[-1] == f"placing lfsr on {target}, seed 2 of 2"
    (log,) = build.glob(f"lfsr-{target}-*/place-*/place-1.log")
    assert "HeAP" in log.read_text()


def test_the_placed_core_is_the_core_that_was_counted(build):
    path = write(build, MIXED)
    count = run(build, MIXED, "ecp5")["cells"]
    place.place(path, "mixed", target="ecp5", seeds=1, build=build)
    (design,) = build.glob("mixed-ecp5-*/place-*/design.json")
    cells = json.loads(design.read_text())["modules"][place.HARNESS]["cells"]
    placed = [c["type"] for c in cells.values() if c["attributes"].get("hdlname", "")[:4] == "core"]
    assert {kind: placed.count(kind) for kind in count} == count


def test_large_designs_have_another_placer_and_router(build, monkeypatch):
    # Other tests route the same core.
    build = build / "large"
    build.mkdir()
    path = write(build, LFSR)
    monkeypatch.setattr(targets, "LARGE", 1)
    # Some cores of a few cells meet 400 MHz.
    monkeypatch.setattr(place, "TARGET_MHZ", 2000)
    found = place.place(path, "lfsr", target="ecp5", seeds=1, build=build)
    (route,) = build.glob("lfsr-ecp5-*/place-*/route-1.log")
    log = route.with_name("place-1.log")
    assert "HeAP" not in log.read_text()
    once, again = (log.with_name(f"{n}-1.log").read_text() for n in ("route", "again"))
    assert "router2" in once
    # Routed once more, for a frequency that is to be reached, and the better one counts.
    (first, second) = (
        re.findall(r"([\d.]+) MHz \(\w+ at ([\d.]+) MHz", t)[-1] for t in (once, again)
    )
    assert float(first[1]) == place.TARGET_MHZ
    assert float(second[1]) == round(place.REROUTE_FACTOR * round(float(first[0]), 1))
    assert found["mhz"] == [round(max(float(first[0]), float(second[0])), 1)]
    assert not list(log.parent.glob("*-mhz-*"))


def test_published_figures_are_of_these_arguments(build, monkeypatch):
    """Another argument is another placement: its figures would have to be measured again."""
    path, target = write(build, LFSR), targets.find("ecp5")
    always = "--85k --package CABGA381 --speed 6 --freq 400 --timing-allow-fail -q"
    report = "--report report-2.json --seed 2"
    job = place.Placement(path, "lfsr", target=target, build=build).job(2, of=3)
    assert " ".join(job.words) == always
    assert not job.place
    assert " ".join(job.route) == f"--log place-2.log {report}"
    monkeypatch.setattr(targets, "LARGE", 1)
    job = place.Placement(path, "lfsr", target=target, build=build).job(2, of=3)
    assert " ".join(job.words) == f"{always} --placer static --router router2"
    assert " ".join(job.place) == (
        "--seed 2 --log place-2.log --lpf pins.lpf --lpf-allow-unconstrained "
        "--no-route --write placed-2-design.json"
    )
    assert " ".join(job.route) == f"--no-pack --no-place --log route-2.log {report}"
    assert " ".join(job.again) == f"--no-pack --no-place --tmg-ripup --log again-2.log {report}"
    assert job.patience is None


@pytest.mark.parametrize("large", [False, True])
def test_a_placement_is_written_with_what_gives_it_again(build, tmp_path, monkeypatch, large):
    monkeypatch.setattr(targets, "LARGE", 1 if large else 10_000)
    path = write(build, LFSR)
    placement = place.Placement(path, "lfsr", target=targets.find("ecp5"), build=build)
    found = placement.measure(1)
    written = placement_files.write(placement, found["median_seed"], of=1, folder=tmp_path)
    assert {p.name for p in written} == {"harness.v", "design.json", "sites.json", "place.sh"}
    cells = json.loads((placement.folder.parent / "mapped.json").read_text())
    cells = cells["modules"]["lfsr"]["cells"]
    printed = json.loads((tmp_path / "sites.json").read_text())
    assert set(printed) == set(cells)
    assert all(re.match(r"X\d+/Y\d+/SLICE", site) for site in printed.values())
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    subprocess.run(["sh", tmp_path / "place.sh"], check=True, capture_output=True)
    (clock,) = json.loads((tmp_path / "report.json").read_text())["fmax"].values()
    assert round(clock["achieved"], 1) == found["median"]


def test_the_harness_folds_every_net_once_and_registers_logic_first(build):
    path = write(build, MIXED)
    folder = synth.map_core(path, "mixed", target="ecp5", build=build)
    module = json.loads((folder / "mapped.json").read_text())["modules"]["mixed"]
    text = harness.wrap(
        "mixed", module, name="harness", is_register=lambda cell: cell == "TRELLIS_FF"
    )
    lines = [line.strip() for line in text.splitlines()]
    assert "reg [5:0] s;" in lines
    assert "always @(posedge clk) c <= {p[0], y[0]};" in lines
    assert "f0[0] <= rr[1] ^ c[0] ^ c[1];" in lines
    assert lines[-2] == "always @(posedge clk) q <= f0[0];"


def test_ready_comes_from_a_register_or_from_logic(build):
    ports = {
        "clk": {"direction": "input", "bits": [2]},
        "i_payload": {"direction": "input", "bits": [3, 4]},
        "i_valid": {"direction": "input", "bits": [5]},
        "o_ready": {"direction": "input", "bits": [6]},
        "o_valid": {"direction": "output", "bits": [7]},
    }
    module = {"ports": ports, "cells": {}}

    def wrapped(**ready):
        return harness.wrap("m", module, name="h", is_register=lambda cell: False, **ready)

    assert ".i_payload({s[3], s[0]}), .i_valid({s[1]}), .o_ready({s[2]})," in wrapped()
    behind = wrapped(ready="logic")
    assert ".i_payload({s[6], s[0]}), .i_valid({s[1]})," in behind
    assert ".o_ready(^{s[5], s[4], s[3], s[2]})," in behind
    with pytest.raises(ValueError, match="ready must be one of register, logic, not 'fast'"):
        place.place(build / "no.v", "m", target="ecp5", seeds=1, build=build, ready="fast")


def test_where_no_frequency_can_be_had_there_is_none(build):
    path = write(build, LFSR)
    assert place.place(path, "lfsr", target="xcup", seeds=3, build=build) is None
    assert place.place(path, "lfsr", target="gowin", seeds=3, build=build) is None


@pytest.mark.parametrize("seeds", [0, -1, True, 1.5])
def test_less_than_one_seed_is_refused(build, seeds):
    with pytest.raises(ValueError, match="seeds must be an integer of 1 or more"):
        place.place(build / "none.v", "none", target="ecp5", seeds=seeds, build=build)


def test_an_unknown_target_is_refused(build):
    with pytest.raises(
        targets.UnknownTarget, match="no target is called 'virtex2'; there are xcup"
    ):
        run(build, LFSR, "virtex2")


def test_a_missing_tool_is_named_with_what_brings_it(tmp_path, monkeypatch):
    path = write(tmp_path, LFSR)
    monkeypatch.setenv("NEXTPNR_ECP5", "no-such-placer")
    with pytest.raises(tools.ToolMissing, match="no-such-placer is not installed: pip"):
        place.place(path, "lfsr", target="ecp5", seeds=1, build=tmp_path)
    monkeypatch.setenv("YOSYS", "no-such-yosys")
    with pytest.raises(tools.ToolMissing, match="no-such-yosys is not installed: pip"):
        run(tmp_path, LFSR, "xcup")


def test_what_yosys_says_of_bad_verilog_comes_through(tmp_path):
    with pytest.raises(RuntimeError, match=r"yosys failed: .*syntax error"):
        run(tmp_path, LFSR.replace("assign o_payload", "assign wrong("), "xcup")
    assert not list(tmp_path.glob("cache/*"))


# Two instances of a module with eight flip-flops, one of another that has one more, and a LUT.
NESTED = """\
module nested(input clk, input [7:0] d, output q);
  wire [7:0] a, b;
  wire c;
  nested_bank first (
    .clk(clk), .d(d), .q(a)
  );
  nested_bank second (
    .clk(clk), .d(~a), .q(b)
  );
  nested_last third (
    .clk(clk), .d(b), .q(c)
  );
  assign q = c ^ ^d[3:0];
endmodule
module nested_bank(input clk, input [7:0] d, output reg [7:0] q);
  always @(posedge clk) q <= d;
endmodule
module nested_last(input clk, input [7:0] d, output reg q);
  wire [7:0] a;
  nested_bank bank (
    .clk(clk), .d(d), .q(a)
  );
  always @(posedge clk) q <= ^a[3:0];
endmodule
"""


@pytest.mark.parametrize("target", sorted(targets.TARGETS))
def test_resources_by_part(tmp_path, target):
    """A part has what it contains; two of a module have as much each; the rest is the top's."""
    path = tmp_path / "nested.v"
    path.write_text(NESTED)
    found = parts.by_part(path, "nested", target=target, build=tmp_path / "synth")
    assert list(found) == ["first", "second", "third", parts.REST]
    assert found["first"] == found["second"] == {"lut": 0, "ff": 8, "bram": 0, "dsp": 0}
    assert found["third"] == {"lut": 1, "ff": 9, "bram": 0, "dsp": 0}
    assert found[parts.REST]["ff"] == 0
    # An inverter for each bit, and an XOR of five.
    assert found[parts.REST]["lut"] == 8 + (1 if "LUT5" in targets.find(target).lut else 2)
