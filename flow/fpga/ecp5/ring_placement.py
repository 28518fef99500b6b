"""Folded ring placement of the lanes of a generator array.

A placer that minimises wire length does not place the clock enable logic of a lane near its
registers: ready is then routed over four to nine tiles to a LUT, and over four to nine tiles from
it, in one cycle.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean
from typing import Any

__all__ = ["Area", "arrange"]

_STATE = re.compile(r"state_(\d+)")
_VALID_NET = re.compile(r"valid_\d+")
_REGISTER = "TRELLIS_FF"
#: A LUT6 is four LUT4 and multiplexers, in two slices; its register is in the second.
_LUT6 = {
    ("D1", "BLUT"): "SLICEC.K0",
    ("D1", "ALUT"): "SLICEC.K1",
    ("D0", "BLUT"): "SLICED.K0",
    ("D0", "ALUT"): "SLICED.K1",
}
#: A LUT5 is two LUT4 in the slice of that register.
_LUT5 = {"BLUT": "SLICED.K0", "ALUT": "SLICED.K1"}
#: An LFSR with two taps needs one LUT4, in the same slice.
_LUT4 = "SLICED.K1"
_LUT_REGISTER = "SLICED.FF1"
#: Free registers of a tile with a LUT6, and of a tile without one.
_WITH_LUT6 = [f"SLICE{name}.FF{k}" for name in "AB" for k in (0, 1)]
_WITHOUT_LUT6 = [f"SLICE{name}.FF{k}" for name in "ABCD" for k in (0, 1)]
#: The LUT of the clock enable of lanes, and the register of their valid bit.
_ENABLE, _VALID = "SLICED.K0", "SLICED.FF0"


@dataclass(frozen=True)
class Area:
    """A rectangle of logic tiles: its corner and its size."""

    x: int
    y: int
    columns: int
    rows: int


def arrange(module: dict[str, Any], area: Area, path: str = "") -> dict[str, str]:
    """Return a site for each register, LUT and clock enable of an array's lanes, by cell name.

    ``module`` is yosys's JSON of a mapped :class:`~seedbed.hw.generators.urng_array.UrngArray`,
    ``serial``, with ``leap`` 1, or of a flat design with such an array as its instance ``path``.
    Each lane is adjacent to the lane that receives its state: one half runs from left to right
    above a middle row of tiles, the other half runs back below it. The middle row holds the clock
    enables, each in the centre of its lanes, and free tiles for connected logic. A clock enable
    that is merged with other logic of the design is not constrained. Returns an empty dictionary if
    the core is another one or does not fit.
    """
    cells = module["cells"]
    before = f"{path}." if path else ""
    nets = {
        name.removeprefix(before): net["bits"]
        for name, net in module["netnames"].items()
        if name.startswith(before)
    }
    drivers = {
        bit: name
        for name, cell in cells.items()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit in bits
    }

    def driver(name: str, port: str) -> str:
        bits = cells[name]["connections"].get(port) if name else None
        return drivers.get(bits[0], "") if bits else ""

    named = ((_STATE.fullmatch(name), bits) for name, bits in nets.items())
    states = {
        (int(lane[1]), bit): drivers[net]
        for lane, bits in named
        if lane
        for bit, net in enumerate(bits)
        if net in drivers and cells[drivers[net]]["type"] == _REGISTER
    }
    if not states:
        return {}
    lanes, width = (1 + max(axis) for axis in zip(*states, strict=True))
    half = -(-lanes // 2)
    if len(states) != lanes * width or half > area.columns or 2 * _rows(width) + 1 > area.rows:
        return {}
    shifted = set(states.values())
    middle = area.y + area.rows // 2
    places: dict[str, str] = {}
    enabled: dict[str, list[int]] = {}
    for lane in range(lanes):
        column, side = (lane, -1) if lane < half else (lanes - 1 - lane, 1)
        x = area.x + column
        last = states[lane, width - 1]
        # A bit with separate input logic would have to be next to that logic.
        if any(driver(states[lane, bit], "DI") not in shifted for bit in range(width - 1)):
            return {}
        logic = driver(last, "DI")
        match cells[logic]["type"] if logic else "":
            case "LUT4":
                luts = {logic: _LUT4}
            case "L6MUX21":
                luts = {driver(driver(logic, data), i): site for (data, i), site in _LUT6.items()}
            case "PFUMX":
                luts = {driver(logic, lut): site for lut, site in _LUT5.items()}
            case _:
                return {}
        # A LUT may be missing, for example in a design that loads constants.
        luts.pop("", None)
        places |= {name: f"X{x}/Y{middle + side}/{site}" for name, site in luts.items()}
        for bit, (row, site) in zip(reversed(range(width)), _registers(side), strict=False):
            places[states[lane, bit]] = f"X{x}/Y{middle + row}/{site}"
        enabled.setdefault(driver(last, "CE"), []).append(column)
    if len(enabled) > half:
        return {}
    valids = {drivers.get(bits[0], "") for name, bits in nets.items() if _VALID_NET.fullmatch(name)}
    free = list(range(half))
    for enable, columns in enabled.items():
        centre = mean(columns)
        column = min(free, key=lambda k: abs(k - centre))
        free.remove(column)
        at = f"X{area.x + column}/Y{middle}"
        if enable and cells[enable]["type"] == "LUT4":
            valid = valids & {driver(enable, port) for port in "ABCD"} - {""}
            places |= {enable: f"{at}/{_ENABLE}"} if valid else {}
            places |= {name: f"{at}/{_VALID}" for name in valid}
    return places if _fits(cells, places) else {}


def _rows(width: int) -> int:
    """Return the rows of tiles above the middle row, and below it."""
    return 1 + max(0, -(-(width - 3 - len(_WITH_LUT6)) // len(_WITHOUT_LUT6)))


def _registers(side: int) -> Iterator[tuple[int, str]]:
    """Yield rows, from the middle one, and registers for a lane's bits, the last bit first."""
    yield side, _LUT_REGISTER
    # Two in the middle row, which both sides share.
    yield from ((0, site) for site in (_WITH_LUT6[:2] if side < 0 else _WITH_LUT6[2:]))
    yield from ((side, site) for site in _WITH_LUT6)
    for row in itertools.count(2):
        yield from ((side * row, site) for site in _WITHOUT_LUT6)


def _fits(cells: dict[str, Any], places: dict[str, str]) -> bool:
    """Return whether each cell is of the type of its site."""
    kinds = {True: "TRELLIS_FF", False: "LUT4"}
    return all(
        name in cells and cells[name]["type"] == kinds[".FF" in site]
        for name, site in places.items()
    )
