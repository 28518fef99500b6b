"""Route-through LUTs of carry chains, which are not cells of the netlist.

Some inputs of a carry cell are reachable only through the LUT in the same site. If the driver of
such an input is not a LUT that can be placed there, the placer uses that LUT as a route-through.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["Module", "carry4_route_throughs", "no_route_throughs"]

#: A module in the format of yosys's ``write_json``.
Module = Mapping[str, Any]

#: Name of the O6 output, by LUT cell of UltraScale+.
_O6 = {**{f"LUT{inputs}": "O" for inputs in range(1, 7)}, "LUT6_2": "O6", "INV": "O"}


def no_route_throughs(module: Module) -> int:
    """Return 0: carry cells of the family need no route-through LUTs.

    A CCU2C of ECP5 contains two LUT4 and an ALU of Gowin contains one; both are counted as cells.
    An SB_CARRY of iCE40 shares the inputs of the LUT in its logic cell.
    """
    return 0


def carry4_route_throughs(module: Module) -> int:
    """Return the number of route-through LUTs at the S inputs of UltraScale+ carry cells.

    S[k] is driven only by O6 of the LUT in the same position. A route-through is needed if a
    flip-flop, a port or a carry drives it, or if the driving LUT is in another position. DI[k] is
    driven by O5 of that LUT or by the slice's bypass input, CI by the previous carry or by the
    bypass input of the first position: neither needs a LUT. Constants are not counted. Source:
    AMD, UltraScale Architecture CLB (UG574).
    """
    cells = module["cells"].values()
    free = {cell["connections"][_O6[cell["type"]]][0] for cell in cells if cell["type"] in _O6}
    count = 0
    for cell in cells:
        if cell["type"] not in ("CARRY4", "CARRY8"):
            continue
        for bit in cell["connections"]["S"]:
            if bit in free:
                free.remove(bit)
            elif not isinstance(bit, str):
                count += 1
    return count
