"""Combinational paths of a core, from its inputs to the handshakes of its streams."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.hdl import Fragment, Value
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import FlipFlop, Net, Netlist
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim.ports import ports

__all__ = ["TABLE", "handshake_paths", "listed"]

#: What the pages list, by core, or by core and a setting other than the default.
TABLE = Path(__file__).with_name("paths.toml")


@cache
def listed() -> Mapping[str, Any]:
    """Return the table that the pages list: of each core, what :func:`handshake_paths` returns."""
    return tomllib.loads(TABLE.read_text())


def handshake_paths(component: wiring.Component) -> dict[str, list[str]]:
    """Return the inputs on which each ``valid`` and ``ready`` of a component depends in its cycle.

    Both are names of ports in the emitted Verilog. An output that depends on registers only is
    missing. The paths are those of the elaborated design, before a tool simplifies it: a path in
    a netlist is always among them.
    """
    found, tops = ports(component.signature), {}
    for path, member, value in component.signature.flatten(component):
        direction = PortDirection.Input if member.flow is In else PortDirection.Output
        tops["__".join(map(str, path))] = (Value.cast(value), direction)
    netlist = build_netlist(Fragment.get(component, None), ports=tops)
    names: dict[Net, str] = {}
    for port in (port for port in found if port.is_input):
        start = netlist.top.ports_i[port.member][0] + port.offset
        names |= {Net.from_cell(0, bit): port.name for bit in range(start, start + port.width)}
    order, paths = [port.name for port in found], {}
    for port in found:
        if not port.is_input and port.name.endswith(("valid", "ready")):
            reached = set(_inputs(netlist, netlist.top.ports_o[port.member]))
            depends = {names[net] for net in reached if net in names}
            if depends:
                paths[port.name] = sorted(depends, key=order.index)
    return paths


def _inputs(netlist: Netlist, nets: Iterable[Net]) -> Iterator[Net]:
    """Yield the inputs on which ``nets`` depend in the same cycle."""
    seen = set(nets)
    left = list(seen)
    while left:
        net = left.pop()
        if net.is_const:
            continue
        if net.cell == 0:
            yield net
            continue
        cell = netlist.cells[net.cell]
        # Of a register, the edges are those of its clock.
        for other, _ in () if isinstance(cell, FlipFlop) else cell.comb_edges_to(net.bit):
            if other not in seen:
                seen.add(other)
                left.append(other)
