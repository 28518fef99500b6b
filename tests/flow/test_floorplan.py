"""Holds the floorplan to what it says: lanes in columns, each multiplier by its memory."""

import json
import re

import pytest

from seedbed.flow.cores.registry import find
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import synth, targets
from seedbed.flow.fpga.ecp5 import floorplan

COLUMNS = targets.find("ecp5").columns


LANES = 8
#: What an engine has of them, in parameters of two memories a pair of lanes, one way.
ENGINE = """\
module memory(input clk, we, input [9:0] a, b, input [35:0] d, output reg [{all}:0] o);
{memory}
endmodule
module store(input clk, we, input [9:0] a, b, input [35:0] d, output reg [{all}:0] o);
{store}
endmodule
module mac(input clk, input [{all}:0] w, x, output reg [{products}:0] p);
  reg [{all}:0] again, v, y;
  always @(posedge clk) begin again <= w; v <= again; y <= x; end
{mac}
endmodule
module engine(
    input clk, we, input [9:0] a, b, input [35:0] d, output [{products}:0] p);
  wire [{all}:0] w, x;
  memory memory(clk, we, a, b, d, w);
  store store(clk, we, a, b, d, x);
  mac mac(clk, w, x, p);
endmodule
module lanes(input clk, we, input [9:0] a, b, input [35:0] d, output [{products}:0] p);
  engine pipeline(clk, we, a, b, d, p);
endmodule
"""
MEMORY = """\
  (* no_rw_check *) reg [{top}:0] {name} [0:1023];
  always @(posedge clk) begin if (we) {name}[a] <= d; o[{low} +: {top}+1] <= {name}[b]; end"""
PRODUCT = """\
  always @(posedge clk)
    p[{k}*36 +: 36] <= $signed(v[{low} +: {weight}]) * $signed(y[{k}*18 +: 18]);"""


def map_lanes(build, weight):
    """Return an engine's netlist, its parameters of ``weight`` bits, two of them in a row."""
    pairs = [
        MEMORY.format(name=f"pair_{k}", top=2 * weight - 1, low=36 * k) for k in range(LANES // 2)
    ]
    banks = [MEMORY.format(name=f"bank_{k}", top=17, low=18 * k) for k in range(LANES)]
    products = [PRODUCT.format(k=k, low=18 * k if weight == 18 else 36 * (k // 2) + k % 2 * weight,
                               weight=weight) for k in range(LANES)]  # fmt: skip
    path = build / "lanes.v"
    path.write_text(
        ENGINE.format(
            all=18 * LANES - 1, products=36 * LANES - 1, memory="\n".join(pairs),
            store="\n".join(banks), mac="\n".join(products),
        )
    )  # fmt: skip
    folder = synth.map_core(path, "lanes", target="ecp5", build=build)
    return json.loads((folder / "mapped.json").read_text())["modules"]["lanes"]


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    return map_lanes(tmp_path_factory.mktemp("build"), 18)


def test_cores_have_an_engine_of_these_names(tmp_path, kept):
    core = find("lora")
    text = verilog.write(core, core.small, tmp_path, kept=kept).read_text()
    modules = dict(re.findall(r"^module (\w+)(.*?)^endmodule", text, re.DOTALL | re.MULTILINE))
    for path in ("engine", "engine.pipeline", "engine.pipeline.memory", "engine.pipeline.store"):
        assert f"\n  lora_{path.replace('.', '_')} {path.split('.')[-1]} (" in text
    assert " pair_0 [" in modules["lora_engine_pipeline_memory"]
    assert " bank_0 [" in modules["lora_engine_pipeline_store"]


def test_each_multiplier_stands_by_the_memory_of_its_lane(mapped):
    sites = floorplan.arrange(mapped, COLUMNS)
    assert len(sites) == len(set(sites.values())) == 16
    found = {n: re.fullmatch(r"X(\d+)/Y(\d+)/(\w+)", s).groups() for n, s in sites.items()}
    memories = {name: place for name, place in found.items() if "pair_" in name}
    assert len(memories) == 8
    below = {str(y): str(z) for y, z in COLUMNS.rows}
    columns = {}
    for name, (x, y, _) in found.items():
        kind = mapped["cells"][name]["type"]
        columns.setdefault((int(x) // 9, below.get(y, y)), []).append(kind)
    assert all(sorted(set(kinds)) == ["DP16KD", "MULT18X18D"] for kinds in columns.values())
    # One way: four lanes in the first row, and four in the second, from left to right.
    for row, pairs in ((0, (0, 1)), (1, (2, 3))):
        line = [memories[f"pipeline.memory.pair_{k}.0.{n}"] for k in pairs for n in (0, 1)]
        assert {int(y) for _, y, _ in line} == {COLUMNS.rows[row][1]}
        assert [int(x) for x, _, _ in line] == sorted({int(x) for x, _, _ in line})


def test_multipliers_of_one_memory_are_neighbours_above_it(tmp_path):
    module = map_lanes(tmp_path, 9)
    sites = floorplan.arrange(module, COLUMNS)
    kinds = {name: module["cells"][name]["type"] for name in sites}
    memories = [name for name, kind in kinds.items() if kind == "DP16KD"]
    assert len(memories) == LANES // 2
    assert len(sites) == len(set(sites.values())) == LANES * 3 // 2
    rows = [COLUMNS.sites(row) for row in range(len(COLUMNS.rows))]
    line = {bel: (row, k) for row, bels in enumerate(rows) for k, pair in enumerate(bels)
            for bel in pair}  # fmt: skip
    places = {name: line[bel] for name, bel in sites.items()}
    driven = floorplan._multipliers(module["cells"], memories)
    for memory in memories:
        row, k = places[memory]
        assert [places[name] for name in driven[memory]] == [(row, k), (row, k + 1)]


def test_a_memory_with_another_number_of_multipliers_is_left_alone(tmp_path):
    module = map_lanes(tmp_path, 9)
    del module["cells"][next(n for n, c in module["cells"].items() if c["type"] == "MULT18X18D")]
    assert floorplan.arrange(module, COLUMNS) == {}


def test_what_has_another_shape_is_left_alone(mapped):
    del mapped["cells"]["pipeline.memory.pair_3.0.1"]
    assert floorplan.arrange(mapped, COLUMNS) == {}


def test_sites_are_those_of_the_device():
    """Of an LFE5U-85F: 52 of either kind in a row, as nextpnr's database has them."""
    sites = [COLUMNS.sites(row) for row in range(3)]
    assert [len(row) for row in sites] == [52] * 3
    assert sites[0][0] == ("X4/Y10/MULT18_0", "X4/Y22/EBR0")
    assert sites[2][-1] == ("X119/Y58/MULT18_5", "X120/Y70/EBR3")
