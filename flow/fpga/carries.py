"""The look-up tables that carry chains take, and that no cell of the netlist stands for.

A carry cell is beside look-up tables, and some of its inputs come through them alone. Where what
drives such an input is not a look-up table that can be placed there, one is taken to pass it on.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["Module", "beside_carry4", "none"]

#: A module as yosys's ``write_json`` has it.
Module = Mapping[str, Any]

#: Outputs that a look-up table of UltraScale+ has at O6.
_O6 = {**{f"LUT{inputs}": "O" for inputs in range(1, 7)}, "LUT6_2": "O6", "INV": "O"}


def none(module: Module) -> int:
    """Return 0, where a carry cell reaches its inputs, or holds its look-up tables, itself.

    A CCU2C of ECP5 holds two LUT4, an ALU of Gowin is one: they are counted as cells. An SB_CARRY
    of iCE40 has the inputs of the LUT beside it, which may then be any with inputs to spare.
    """
    return 0


def beside_carry4(module: Module) -> int:
    """Return the LUTs of UltraScale+ that pass a signal on to the S input of a carry cell.

    S[k] comes from O6 of the LUT at the same place, and from nowhere else. So one is taken where a
    flip-flop, a port or a carry drives it, and where its LUT is at another place: one LUT is at one
    place. DI[k] comes from O5 of that LUT, or from the slice's bypass input, and CI from the carry
    below, or from the bypass input of the first place: neither takes a LUT. A constant is not
    counted: no signal is passed on. Source: AMD, UltraScale Architecture CLB (UG574).
    """
    cells = module["cells"].values()
    free = {cell["connections"][_O6[cell["type"]]][0] for cell in cells if cell["type"] in _O6}
    taken = 0
    for cell in cells:
        if cell["type"] not in ("CARRY4", "CARRY8"):
            continue
        for bit in cell["connections"]["S"]:
            if bit in free:
                free.remove(bit)
            elif not isinstance(bit, str):
                taken += 1
    return taken
