import json
from collections import Counter

import pytest

from seedbed.flow.cores.registry import find
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import synth, targets
from seedbed.flow.fpga.ecp5 import linear_placement, ring_placement
from seedbed.flow.fpga.ecp5.ring_placement import Area

AREA = targets.TARGETS["ecp5"].ring


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """Return a function from a core and settings to the mapped module."""
    build = tmp_path_factory.mktemp("mapped")

    def module(core, settings):
        path = verilog.write(find(core), settings, build, plain=True)
        folder = synth.map_core(path, core, target="ecp5", build=build)
        return json.loads((folder / "mapped.json").read_text())["modules"][core]

    return module


@pytest.fixture(scope="module")
def generator(mapped):
    return mapped("lutopt", {"lanes": 32, "width": 5})


def test_every_register_is_in_the_slice_of_its_lut(generator):
    places = linear_placement.arrange(generator, AREA)
    cells = generator["cells"]
    kinds = Counter(cells[name]["type"] for name in places)
    enables = -(-160 // 64)
    assert kinds == {"TRELLIS_FF": 160 + enables, "LUT4": 160 + enables}
    assert len(set(places.values())) == len(places)
    outputs = {
        cell["connections"]["Z"][0]: n for n, cell in cells.items() if cell["type"] == "LUT4"
    }
    for name, place in places.items():
        if cells[name]["type"] != "TRELLIS_FF":
            continue
        connections = cells[name]["connections"]
        if "DI" in connections and connections["DI"][0] in outputs:
            lut = outputs[connections["DI"][0]]
            if lut in places and "SLICED.FF" not in place:
                assert places[lut] == place.replace("FF", "K")
        # The row of tiles is that of its clock enable.
        enable = outputs[connections["CE"][0]]
        if enable in places:
            assert places[enable].split("/")[1] == place.split("/")[1]


def test_rows_of_tiles_are_in_the_area(generator):
    area = Area(x=5, y=7, columns=8, rows=3)
    places = linear_placement.arrange(generator, area)
    tiles = {tuple(place.split("/")[:2]) for place in places.values()}
    assert {y for _, y in tiles} == {"Y7", "Y8", "Y9"}
    assert {int(x[1:]) for x, _ in tiles} <= set(range(5, 13))


@pytest.mark.parametrize("area", [Area(5, 7, 8, 2), Area(5, 7, 6, 3)], ids=str)
def test_too_small_an_area(generator, area):
    assert linear_placement.arrange(generator, area) == {}


def test_other_cores_are_not_placed(mapped, generator):
    array = mapped("urng_array", {"lanes": 7, "width": 5})
    assert ring_placement.arrange(array, AREA)
    assert linear_placement.arrange(array, AREA) == {}
    assert linear_placement.arrange(mapped("lfsr", {}), AREA) == {}
    assert ring_placement.arrange(generator, AREA) == {}
