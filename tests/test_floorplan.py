"""Holds the floorplan to what it says: lanes in columns, each multiplier by its memory."""

import json
import re

import pytest

from seedbed.flow import floorplan, synth, targets, verilog
from seedbed.flow.registry import find

COLUMNS = targets.find("ecp5").columns


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """Adapters whose parameters take a memory a multiplier: 8 lanes, one way, 3 x 320 rows."""
    build = tmp_path_factory.mktemp("build")
    settings = {"widths": (512,), "classes": 5, "rank": 4, "lanes": 8, "ways": 1}
    path = verilog.write(find("lora"), settings, build)
    folder = synth.map_core(path, "lora", target="ecp5", build=build)
    return json.loads((folder / "mapped.json").read_text())["modules"]["lora"]


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
        line = [memories[f"engine.memory.pair_{k}.0.{n}"] for k in pairs for n in (0, 1)]
        assert {int(y) for _, y, _ in line} == {COLUMNS.rows[row][1]}
        assert [int(x) for x, _, _ in line] == sorted({int(x) for x, _, _ in line})


def test_what_has_another_shape_is_left_alone(mapped):
    del mapped["cells"]["engine.memory.pair_3.0.1"]
    assert floorplan.arrange(mapped, COLUMNS) == {}


def test_sites_are_those_of_the_device():
    """Of an LFE5U-85F: 52 of either kind in a row, as nextpnr's database has them."""
    sites = [COLUMNS.sites(row) for row in range(3)]
    assert [len(row) for row in sites] == [52] * 3
    assert sites[0][0] == ("X4/Y10/MULT18_0", "X4/Y22/EBR0")
    assert sites[2][-1] == ("X119/Y58/MULT18_5", "X120/Y70/EBR3")
