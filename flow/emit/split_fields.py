"""Splits payloads into one port per field, in a fixed order."""

import re
from collections.abc import Iterator, Sequence

from seedbed.sim.ports import Port

__all__ = ["split"]

_PORT = re.compile(r"  wire(?: width \d+)?(?: signed)? (?:input|output) \d+ +\\(\S+)")


def split(rtlil: str, top: str, ports: Sequence[Port]) -> str:
    r"""Return Amaranth's RTLIL text in which the module ``top`` has the ports ``ports``.

    A signal ``o__payload`` with fields becomes an internal wire; the ports ``o__values`` and
    ``o__last`` are slices of it. Clock and reset come first, then ``ports`` in the given order.
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
            direction = rf" \g<1> {order[found[1]]}" if found[1] in order else ""
            line = re.sub(r" (input|output) \d+", direction, line)
        elif line == "end":
            yield from _field_ports([port for port in ports if _is_field(port)], order)
            inside = False
        yield line


def _is_field(port: Port) -> bool:
    return port.name != port.signal


def _name(port: Port) -> str:
    """Return a port's name before :func:`~seedbed.flow.emit.identifiers.legalize`."""
    return port.name if _is_field(port) else port.member


def _field_ports(fields: list[Port], order: dict[str, int]) -> Iterator[str]:
    for port in fields:
        direction = "input" if port.is_input else "output"
        yield f"  wire width {port.width} {direction} {order[port.name]} \\{port.name}"
    for port in fields:
        high = port.offset + port.width - 1
        bits = f"{high}:{port.offset}" if port.width > 1 else f"{high}"
        ends = f"\\{port.member} [{bits}]", f"\\{port.name}"
        left, right = ends if port.is_input else ends[::-1]
        yield f"  connect {left} {right}"
