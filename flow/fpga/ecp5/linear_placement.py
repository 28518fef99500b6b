"""Placement of the state of a LUT-optimised generator, by clock enable.

Every bit taps bits of all lanes, so that a placer mixes the bits of all clock enables. ready is
then routed over six tiles to a LUT, and over six tiles from it, in one cycle.
"""

import re
from typing import Any

from seedbed.flow.fpga.ecp5.ring_placement import Area

__all__ = ["arrange"]

_STATE = re.compile(r"state_\d+")
_VALID = re.compile(r"valid_\d+")
#: Places of a LUT and its register in a tile.
_PLACES = [(f"SLICE{name}.K{k}", f"SLICE{name}.FF{k}") for name in "ABCD" for k in (0, 1)]


def arrange(module: dict[str, Any], area: Area) -> dict[str, str]:
    """Return a site for each register and LUT of a generator's state, by cell name.

    ``module`` is yosys's JSON of a mapped :class:`~seedbed.hw.generators.lutopt.Lutopt`. The bits
    of one clock enable are in a row of tiles, each register in the slice of its LUT. The slice in
    the middle of the row has the LUT of the enable and the copy of `valid`. Returns an empty
    dictionary if the core is another one or does not fit.
    """
    cells = module["cells"]
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

    def named(pattern: re.Pattern[str]) -> list[str]:
        nets = [net["bits"] for name, net in module["netnames"].items() if pattern.fullmatch(name)]
        found = [drivers.get(bit, "") for bits in nets for bit in bits]
        return [name for name in found if name and cells[name]["type"] == "TRELLIS_FF"]

    states, valids = named(_STATE), set(named(_VALID))
    enabled: dict[str, list[tuple[str, str]]] = {}
    for state in states:
        enabled.setdefault(driver(state, "CE"), []).append((driver(state, "DI"), state))
    # Each LUT drives one register. The last two places of the middle tile are the enable's.
    longest = max(map(len, enabled.values()), default=0) + 2
    columns = -(-longest // len(_PLACES))
    luts = {lut for row in enabled.values() for lut, _ in row} | set(enabled)
    fits = columns <= area.columns and len(enabled) <= area.rows
    if not states or not fits or len(luts) != len(states) + len(enabled):
        return {}
    if any(not lut or cells[lut]["type"] != "LUT4" for lut in luts):
        return {}
    places: dict[str, str] = {}
    for y, (enable, row) in enumerate(enabled.items(), area.y):
        middle = area.x + columns // 2
        sites = [
            (f"X{x}/Y{y}/{lut}", f"X{x}/Y{y}/{register}")
            for x in range(area.x, area.x + columns)
            for lut, register in _PLACES
        ]
        reserved = [at for at in sites if at[0].startswith(f"X{middle}/Y{y}/SLICED.")]
        free = [at for at in sites if at not in reserved]
        for cell_names, at in zip(row, free, strict=False):
            places |= dict(zip(cell_names, at, strict=True))
        places[enable] = reserved[0][0]
        valid = {driver(enable, port) for port in "ABCD"} & valids
        places |= dict(zip(valid, (at[1] for at in reserved), strict=False))
    return places
