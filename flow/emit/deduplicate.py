"""Module deduplication: modules that differ only in name become one module."""

import re

__all__ = ["deduplicate"]

_MODULE = re.compile(r"^(?:attribute .*\n)*module (\S+)\n((?:.*\n)*?)end\n", re.MULTILINE)
_CELL = re.compile(r"^(  cell )(\S+)", re.MULTILINE)


def deduplicate(rtlil: str) -> str:
    """Return the RTLIL text with one module in place of all that differ only in name.

    Amaranth elaborates every submodule separately. Without this step, the tools would read, map
    and simulate a thousand equal modules, and the file would hold a thousand copies.
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

        # Modules that instantiate duplicates may be equal now.
        def renamed(cell: re.Match[str], duplicates=duplicates) -> str:
            return cell[1] + duplicates.get(cell[2], cell[2])

        rtlil = _CELL.sub(renamed, rtlil)
