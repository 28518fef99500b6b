"""Holds the ring of lanes to what it says: neighbours, enables in the middle, real sites."""

import json
import re

import pytest

from seedbed.flow.cores.registry import find
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import place, synth, targets
from seedbed.flow.fpga.ecp5 import ring_placement

AREA = targets.find("ecp5").ring
LANES, WIDTH = 15, 13


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


def mapped(build, **settings):
    path = verilog.write(
        find("urng_array"), {"lanes": LANES, "width": WIDTH, **settings}, build, plain=True
    )
    folder = synth.map_core(path, "urng_array", target="ecp5", build=build)
    return json.loads((folder / "mapped.json").read_text())["modules"]["urng_array"]


def register(module, lane, bit):
    """Name of the flip-flop that has a bit of a lane's state."""
    net = module["netnames"][f"state_{lane}"]["bits"][bit]
    cells = module["cells"].items()
    (name,) = (n for n, c in cells if c["type"] == "TRELLIS_FF" and c["connections"]["Q"] == [net])
    return name


def where(places):
    """Column, row and name of each site."""
    found = {n: re.fullmatch(r"X(\d+)/Y(\d+)/(SLICE[A-D]\.\w+)", s) for n, s in places.items()}
    return {n: (int(site[1]), int(site[2]), site[3]) for n, site in found.items()}


def test_each_lane_stands_by_the_one_that_its_state_goes_to(build):
    module = mapped(build)
    places = ring_placement.arrange(module, AREA)
    # Registers, four LUT4 a lane, and two enables with a register each.
    assert len(places) == len(set(places.values())) == LANES * WIDTH + LANES * 4 + 2 * 2
    sites = where(places)
    lanes = [{sites[register(module, j, k)][0] for k in range(WIDTH)} for j in range(LANES)]
    assert all(len(columns) == 1 for columns in lanes)
    columns = [min(one) - AREA.x for one in lanes]
    assert columns == [*range(8), *reversed(range(7))]
    for j in range(LANES):
        logic = {s[:2] for n, s in sites.items() if n.startswith(register(module, j, 12))}
        assert len(logic) == 1
    middle = AREA.y + AREA.rows // 2
    enables = [s for n, s in sites.items() if "valid" in n]
    assert sorted({x - AREA.x for x, _, _ in enables}) == [1, 5]
    assert {y for _, y, _ in enables} == {middle}
    assert {abs(y - middle) for _, y, _ in sites.values()} == {0, 1, 2}


def test_what_has_another_shape_is_left_alone(build):
    module = mapped(build)
    assert ring_placement.arrange({"cells": {}, "netnames": {}}, AREA) == {}
    for columns, rows in ((7, 11), (8, 4)):
        narrow = ring_placement.Area(AREA.x, AREA.y, columns, rows)
        assert ring_placement.arrange(module, narrow) == {}
    assert ring_placement.arrange(module, ring_placement.Area(AREA.x, AREA.y, 8, 5))
    del module["cells"][register(module, 4, 3)]
    assert ring_placement.arrange(module, AREA) == {}


def test_lanes_from_elsewhere_or_with_an_enable_each_are_left_alone(build):
    module = mapped(build)
    last = module["cells"][register(module, 0, WIDTH - 1)]["connections"]
    last["DI"], driven = module["ports"]["rst"]["bits"], last["DI"]
    assert ring_placement.arrange(module, AREA) == {}
    last["DI"] = driven
    assert ring_placement.arrange(module, AREA)
    enable = module["cells"]["valid_0_LUT4_B"]
    for j in range(LANES):
        bit = f"enable {j}"
        connections = enable["connections"] | {"Z": [bit]}
        module["cells"][bit] = enable | {"connections": connections}
        module["cells"][register(module, j, WIDTH - 1)]["connections"]["CE"] = [bit]
    assert ring_placement.arrange(module, AREA) == {}


@pytest.mark.parametrize("settings", [{"leap": WIDTH}, {"seeding": "grown"}])
def test_lanes_with_more_logic_or_less_are_left_alone(build, settings):
    assert ring_placement.arrange(mapped(build, **settings), AREA) == {}


def test_every_width_has_its_rows_and_the_sites_are_free_for_it(build):
    """The placer refuses what is no site, or not one for the cell."""
    free = set()
    # All columns, and all rows; the others stand where those have.
    for lanes, width in ((63, 15), (7, 24), (7, 4), (7, 16)):
        settings = {"lanes": lanes, "width": width}
        module = mapped(build, **settings)
        places = ring_placement.arrange(module, AREA)
        rows = [y for _, y, _ in where(places).values()]
        assert max(rows) - min(rows) == 2 * (1 + max(0, -(-(width - 7) // 8)))
        sites = {(module["cells"][name]["type"], site) for name, site in places.items()}
        if sites <= free:
            continue
        path = verilog.write(find("urng_array"), settings, build, plain=True)
        assert place.place(path, "urng_array", target="ecp5", seeds=1, build=build)["mhz"][0] > 0
        folder = synth.map_core(path, "urng_array", target="ecp5", build=build)
        (design,) = folder.glob("place-*/design.json")
        cells = json.loads(design.read_text())["modules"][place.HARNESS]["cells"]
        fixed = {n: c["attributes"]["BEL"] for n, c in cells.items() if "BEL" in c["attributes"]}
        assert fixed == {f"core.{name}": site for name, site in places.items()}
        free |= sites
