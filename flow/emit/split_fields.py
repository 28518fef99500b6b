"""Splits payloads into one port per field, in a fixed order; declares signed ports."""

import re
from collections.abc import Iterator, Sequence

from seedbed.sim.ports import Port

__all__ = ["split"]

_PORT = re.compile(r"(  wire(?: width \d+)?) (input|output) \d+ +\\(\S+)")
_SIGNED = re.compile(r"^(  wire .*?) *signed (?=\\)", re.MULTILINE)


def split(rtlil: str, top: str, ports: Sequence[Port]) -> str:
    r"""Return Amaranth's RTLIL text in which the module ``top`` has the ports ``ports``.

    A signal ``o__payload`` with fields becomes an internal wire; the ports ``o__values`` and
    ``o__last`` are slices of it. So does a signed signal. Clock and reset come first, then
    ``ports`` in the given order.

    Only ports are declared signed, and no expression has one as an operand: yosys writes an
    unsigned comparison of two signals as ``a < b``, which is a signed one where both are declared
    signed.
    """
    return "\n".join(_lines(_SIGNED.sub(r"\1 ", rtlil).splitlines(), top, ports)) + "\n"


def _lines(lines: list[str], top: str, ports: Sequence[Port]) -> Iterator[str]:
    inside = False
    order: dict[str, int] = {}
    parts = [port for port in ports if _is_part(port)]
    inner = {port.member: _inner(port) for port in parts if not _is_field(port)}
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
            start, direction, name = found.groups()
            direction = f"{direction} {order[name]} " if name in order and name not in inner else ""
            line = f"{start} {direction}\\{inner.get(name, name)}"
        elif line == "end":
            yield from _part_ports(parts, order)
            inside = False
        elif inner:
            line = _renamed(line, inner)
        yield line


def _renamed(line: str, names: dict[str, str]) -> str:
    """Return a line with other names of signals; pins, parameters and attributes keep theirs."""
    if line.lstrip().startswith(("attribute ", "parameter ")):
        return line
    pin = re.match(r"    connect \S+ ", line)
    head = pin[0] if pin else ""
    return head + re.sub(
        r"\\(\S+)", lambda name: f"\\{names.get(name[1], name[1])}", line.removeprefix(head)
    )


def _is_field(port: Port) -> bool:
    return port.name != port.signal


def _is_part(port: Port) -> bool:
    """Return whether a port is joined with a signal of the module, and not one itself."""
    return port.signed or _is_field(port)


def _inner(port: Port) -> str:
    """Return the name of the signal that a port is a part of."""
    return port.member if _is_field(port) else f"{port.member}$bits"


def _name(port: Port) -> str:
    """Return a port's name before :func:`~seedbed.flow.emit.identifiers.legalize`."""
    return port.name if _is_part(port) else port.member


def _part_ports(parts: list[Port], order: dict[str, int]) -> Iterator[str]:
    for port in parts:
        sign = " signed" if port.signed else ""
        direction = "input" if port.is_input else "output"
        yield f"  wire width {port.width}{sign} {direction} {order[port.name]} \\{port.name}"
    for port in parts:
        high = port.offset + port.width - 1
        bits = f"{high}:{port.offset}" if port.width > 1 else f"{high}"
        ends = f"\\{_inner(port)} [{bits}]", f"\\{port.name}"
        left, right = ends if port.is_input else ends[::-1]
        yield f"  connect {left} {right}"
