"""Writes a module once that Amaranth wrote as often as it is used."""

import re

__all__ = ["merge"]

_MODULE = re.compile(r"^(?:attribute .*\n)*module (\S+)\n((?:.*\n)*?)end\n", re.MULTILINE)
_CELL = re.compile(r"^(  cell )(\S+)", re.MULTILINE)


def merge(rtlil: str) -> str:
    """Return the RTLIL text with one module for all that differ in nothing but their name.

    Amaranth elaborates every submodule for itself. A thousand equal ones would be read, mapped and
    simulated a thousand times; users would find as many modules in their file.
    """
    while True:
        first: dict[str, str] = {}
        twins: dict[str, str] = {}

        def keep(module: re.Match[str], first=first, twins=twins) -> str:
            name, body = module.groups()
            original = first.setdefault(body, name)
            if original == name:
                return module[0]
            twins[name] = original
            return ""

        rtlil = _MODULE.sub(keep, rtlil)
        if not twins:
            return rtlil

        # What used twins may have become equal now.
        def named(cell: re.Match[str], twins=twins) -> str:
            return cell[1] + twins.get(cell[2], cell[2])

        rtlil = _CELL.sub(named, rtlil)
