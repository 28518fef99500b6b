"""Makes a payload's fields ports of their own, in a fixed order."""

import re
from collections.abc import Iterator, Sequence

from seedbed.sim.ports import Port

__all__ = ["split"]

_PORT = re.compile(r"  wire(?: width \d+)?(?: signed)? (?:input|output) \d+ +\\(\S+)")


def split(rtlil: str, top: str, ports: Sequence[Port]) -> str:
    r"""Return Amaranth's RTLIL text with ``ports`` for the ports of its module ``top``.

    A signal ``o__payload`` with fields stays as a wire, and ``o__values`` and ``o__last`` are parts
    of it. Clock and reset come first, then ``ports`` as they are given.
    """
    return "\n".join(_lines(rtlil.splitlines(), top, ports)) + "\n"


def _lines(lines: list[str], top: str, ports: Sequence[Port]) -> Iterator[str]:
    inside = False
    order: dict[str, int] = {}
    for line in lines:
        if line.startswith("module "):
            inside = line == f"module \\{top}"
        if not inside:
            yield line
            continue
        if line.startswith("module "):
            members = {port.member for port in ports}
            first = [name for name in ("clk", "rst") if name not in members]
            order = {name: k for k, name in enumerate([*first, *map(_name, ports)], 1)}
        if found := _PORT.match(line):
            way = rf" \g<1> {order[found[1]]}" if found[1] in order else ""
            line = re.sub(r" (input|output) \d+", way, line)
        elif line == "end":
            yield from _connected([port for port in ports if _is_part(port)], order)
            inside = False
        yield line


def _is_part(port: Port) -> bool:
    return port.name != port.signal


def _name(port: Port) -> str:
    """Return what a port is called before names are made plain."""
    return port.name if _is_part(port) else port.member


def _connected(parts: list[Port], order: dict[str, int]) -> Iterator[str]:
    for port in parts:
        way = "input" if port.is_input else "output"
        yield f"  wire width {port.width} {way} {order[port.name]} \\{port.name}"
    for port in parts:
        high = port.offset + port.width - 1
        bits = f"{high}:{port.offset}" if port.width > 1 else f"{high}"
        ends = f"\\{port.member} [{bits}]", f"\\{port.name}"
        left, right = ends if port.is_input else ends[::-1]
        yield f"  connect {left} {right}"
