"""Source annotations: the line of Python that declares each signal of an emitted module."""

import re
from collections.abc import Mapping
from pathlib import Path

import amaranth

from seedbed import hw

__all__ = ["annotate", "positions"]

_SOURCE = re.compile(r'attribute \\src "(.*):(\d+)"')
_WIRE = re.compile(r"  wire .*\\(\w+)")
_DECLARED = re.compile(
    r"  (?:(?:in|out)put )?(?:wire|reg) (?:signed )?(?:\[\S+\] )?(\w+)(?: = \S+)?(?: \[\S+\])?[;,]?"
)
_MODULE = re.compile(r"module \\?(\w+)")

#: Path prefixes in comments, by the folders of packages.
_PACKAGES = {
    Path(hw.__file__).parent: Path("seedbed/hw"),
    Path(amaranth.__file__).parent: Path("amaranth"),
}


def positions(rtlil: str) -> dict[str, dict[str, str]]:
    """Return ``FILE:LINE`` of each wire that has a source position, by module and name.

    Paths begin with the package's name and are the same on every machine. For a file outside
    seedbed and Amaranth, the file name is given without its folder.
    """
    found: dict[str, dict[str, str]] = {}
    module: dict[str, str] = {}
    position = ""
    for line in rtlil.splitlines():
        text = line.strip()
        if source := _SOURCE.fullmatch(text):
            position = f"{_relative(Path(source[1]))}:{source[2]}"
        elif text.startswith("attribute "):
            continue
        else:
            if start := _MODULE.match(line):
                module = found.setdefault(start[1], {})
            elif (wire := _WIRE.fullmatch(line)) and position:
                module[wire[1]] = position
            position = ""
    return found


def _relative(path: Path) -> Path:
    for folder, package in _PACKAGES.items():
        if path.is_relative_to(folder):
            return package / path.relative_to(folder)
    return Path(path.name)


def annotate(verilog: str, positions: Mapping[str, Mapping[str, str]]) -> str:
    """Return Verilog text with a comment after the declaration of each signal with a position."""
    module: Mapping[str, str] = {}
    lines = []
    for line in verilog.splitlines():
        if start := _MODULE.match(line):
            module = positions.get(start[1], {})
        elif (declared := _DECLARED.fullmatch(line)) and declared[1] in module:
            line = f"{line}  // {module[declared[1]]}"
        lines.append(line)
    return "\n".join(lines) + "\n"
