"""Where the lanes of a generator array stand on a device: on a ring that is folded once.

A placer that looks for short lines has no reason to put what enables a lane near its registers:
ready then goes four to nine tiles to a LUT, and four to nine tiles from it, in one cycle.
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
#: A LUT6 is four LUT4 and the multiplexers between them: in two slices, as is the register behind.
_LUT6 = {
    ("D1", "BLUT"): "SLICEC.K0",
    ("D1", "ALUT"): "SLICEC.K1",
    ("D0", "BLUT"): "SLICED.K0",
    ("D0", "ALUT"): "SLICED.K1",
}
#: A LUT5 is two, in the slice of that register.
_LUT5 = {"BLUT": "SLICED.K0", "ALUT": "SLICED.K1"}
#: With two taps it is one, in that slice as well.
_LUT4 = "SLICED.K1"
_BEHIND = "SLICED.FF1"
#: Registers in the slices beside a LUT6, and in a tile without one.
_BESIDE = [f"SLICE{name}.FF{k}" for name in "AB" for k in (0, 1)]
_ALONE = [f"SLICE{name}.FF{k}" for name in "ABCD" for k in (0, 1)]
#: What enables lanes, and the register that says whether their state is valid.
_ENABLE, _VALID = "SLICED.K0", "SLICED.FF0"


@dataclass(frozen=True)
class Area:
    """A rectangle of tiles that have slices and nothing else: its corner, and its size."""

    x: int
    y: int
    columns: int
    rows: int


def arrange(module: dict[str, Any], area: Area, path: str = "") -> dict[str, str]:
    """Return a site for each register, LUT and enable of an array's lanes, by their names.

    ``module`` is yosys's JSON of a mapped :class:`~seedbed.hw.urng_array.UrngArray`, ``serial``,
    with one new bit a lane: ``leap`` 1; or of a flat design that has one as its instance ``path``.
    Each lane stands by the one that its state goes to: half of them from left to right above a row
    of tiles, the others back again below it. In that row are the enables, each in the middle of its
    lanes, and room for what the array is connected with. An enable that is merged with logic of the
    design is left to the placer. Nothing is given where the core is another one or does not fit.
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
        # A bit behind logic of its own would have to stand by that.
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
        # In a design that loads constants, say, one is not there.
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
    """Return the rows of tiles above the one in the middle, and below it."""
    return 1 + max(0, -(-(width - 3 - len(_BESIDE)) // len(_ALONE)))


def _registers(side: int) -> Iterator[tuple[int, str]]:
    """Yield rows, from the middle one, and registers for a lane's bits, the last one's first."""
    yield side, _BEHIND
    # Two in the row that both sides share.
    yield from ((0, site) for site in (_BESIDE[:2] if side < 0 else _BESIDE[2:]))
    yield from ((side, site) for site in _BESIDE)
    for row in itertools.count(2):
        yield from ((side * row, site) for site in _ALONE)


def _fits(cells: dict[str, Any], places: dict[str, str]) -> bool:
    """Return whether each is a cell for its site."""
    kinds = {True: "TRELLIS_FF", False: "LUT4"}
    return all(
        name in cells and cells[name]["type"] == kinds[".FF" in site]
        for name, site in places.items()
    )
