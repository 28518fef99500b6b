"""Module deduplication: one module in place of all that are equal but for their names."""

import re

__all__ = ["deduplicate"]

_MODULE = re.compile(r"^(?:attribute .*\n)*module (\S+)\n((?:.*\n)*?)end\n", re.MULTILINE)
_CELL = re.compile(r"^(  cell )(\S+)", re.MULTILINE)


def deduplicate(rtlil: str) -> str:
    """Return the RTLIL text with one module for all that differ in nothing but their name.

    Amaranth elaborates every submodule for itself. A thousand equal ones would be read, mapped and
    simulated a thousand times; users would find as many modules in their file.
    """
    while True:
        first: dict[str, str] = {}
        duplicates: dict[str, str] = {}

        def keep(module: re.Match[str], first=first, duplicates=duplicates) -> str:
            name, body = module.groups()
            original = first.setdefault(body, name)
            if original == name:
                return module[0]
            duplicates[name] = original
            return ""

        rtlil = _MODULE.sub(keep, rtlil)
        if not duplicates:
            return rtlil

        # What used duplicates may have become equal now.
        def named(cell: re.Match[str], duplicates=duplicates) -> str:
            return cell[1] + duplicates.get(cell[2], cell[2])

        rtlil = _CELL.sub(named, rtlil)
