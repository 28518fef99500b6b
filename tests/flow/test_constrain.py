"""Sites in a design of a user's, by plain yosys."""

import json
from collections import Counter

import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.flow.fpga import synth
from seedbed.flow.fpga.constrain import constrain
from seedbed.sim import tools

LANES, WIDTH = 15, 8
# Ready is behind logic, and seeds never come: what enables lanes is no longer the core's alone.
DESIGN = """\
module top(input clk, input rst, input [3:0] stop, input seed, input load, output reg [119:0] q);
  reg [3:0] s;
  wire [119:0] words;
  always @(posedge clk) begin s <= stop; q <= q ^ words; end
  part first(clk, rst, READY, words, seed, load);
endmodule
module part(input clk, input rst, input ready, output [119:0] words, input seed, input load);
  urng_array noise (
    .clk(clk), .rst(rst), .o_payload(words), .o_valid(), .o_ready(ready),
    .i_seeds_bits({15{seed}}), .i_seeds_last(seed), .i_seeds_valid(load), .i_seeds_ready());
endmodule
"""


def design(folder, kept, *, ready="s[0]", load="load"):
    core = CORES["urng_array"]
    write(core, {"lanes": LANES, "width": WIDTH}, folder, kept=kept)
    text = DESIGN.replace("READY", ready)
    (folder / "top.v").write_text(text.replace("(load)", f"({load})"))
    script = "read_verilog urng_array.v top.v\nsynth_ecp5 -top top -json design.json\n"
    synth.yosys(folder, "user", script)
    return folder / "design.json"


@pytest.mark.parametrize(("ready", "load"), [("s[0]", "load"), ("^s", "1'b0"), ("1'b1", "load")])
def test_lanes_of_a_users_design_get_sites_that_the_placer_takes(ready, load, tmp_path, kept):
    netlist = design(tmp_path, kept, ready=ready, load=load)
    out = tmp_path / "out.json"
    count = constrain(netlist, "first.noise", target="ecp5", at=(80, 24), out=out)
    cells = json.loads(out.read_text())["modules"]["top"]["cells"]
    sites = {n: c["attributes"]["BEL"] for n, c in cells.items() if "BEL" in c["attributes"]}
    assert len(sites) == len(set(sites.values())) == count
    kinds = Counter(cells[name]["type"] for name in sites)
    assert kinds["TRELLIS_FF"] >= LANES * WIDTH
    assert kinds["LUT4"] >= LANES
    assert all(80 <= int(site.split("/")[0][1:]) < 80 + 32 for site in sites.values())
    tools.run(
        "NEXTPNR_ECP5", "--85k", "--json", out.name, "--no-route", "-q", "--timing-allow-fail",
        cwd=tmp_path,
    )  # fmt: skip
    # A second array there would be in its way.
    other = {"type": "LUT4", "attributes": {"BEL": min(sites.values())}}
    taken = json.loads(netlist.read_text())
    taken["modules"]["top"]["cells"]["other"] = {**other, "connections": {}, "port_directions": {}}
    (tmp_path / "taken.json").write_text(json.dumps(taken))
    with pytest.raises(ValueError, match="is the site of other: choose another corner"):
        constrain(tmp_path / "taken.json", "first.noise", target="ecp5", at=(80, 24), out=out)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a mapped design of yosys's write_json"),
        ('{"modules": {}}', "is not a mapped design of yosys's write_json"),
        (
            '{"modules": {"m": {"attributes": {"top": "1"}, "cells": {}, "netnames": {}}}}',
            "no lanes of a urng_array are found at 'first.noise'. It must be serial",
        ),
    ],
)
def test_other_files_are_refused(text, sentence, tmp_path, called):
    (tmp_path / "design.json").write_text(text)
    words = ["constrain", "design.json", "--instance", "first.noise", "-o", "out.json"]
    code, _, printed = called(words, tmp_path)
    assert code == 2
    assert "design.json" in printed
    assert sentence in " ".join(printed.split())
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (("--target", "xcup"), "target must be one of ecp5, ecp5-8, which have a floorplan"),
        (("--at", "80"), "at must be a column and a row, such as 80,11, not '80'"),
    ],
)
def test_bad_options_are_refused(option, sentence, tmp_path, called):
    words = ["constrain", "design.json", "--instance", "a", "-o", "out.json", *option]
    code, _, printed = called(words, tmp_path)
    assert code == 2
    assert sentence in " ".join(printed.split())
