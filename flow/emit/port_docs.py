"""Port descriptions of a core: number formats and meanings; its latency and throughput."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data, wiring

from seedbed.sim.ports import Port, ports

__all__ = ["HEADER", "PINS", "PortDoc", "comments", "describe", "pins", "table_rows", "timing"]

TABLE = Path(__file__).with_name("ports.toml")
#: Clocks and resets: of every core, and of cores with AXI ports.
COMMON = {
    "clk": "clock, rising edge",
    "rst": "reset, synchronous, active high",
    "aclk": "clock, rising edge",
    "aresetn": "reset, synchronous, active low",
}
#: Columns of a port table: the names in Verilog and in Amaranth come first.
HEADER = ["Verilog", "Amaranth", "direction", "format", "description"]
#: The same for all pins of a module, with their widths.
PINS = [*HEADER[:3], "width", *HEADER[3:]]
HANDSHAKE = ("valid", "ready")


@dataclass(frozen=True, kw_only=True)
class PortDoc:
    """A port with its number format and its description."""

    port: Port
    format: str
    description: str


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(TABLE.read_text())


def describe(core: str, signature: wiring.Signature) -> list[PortDoc]:
    """Return a core's ports in order, without clock and reset.

    The ports of a core that is not in ``ports.toml`` have empty descriptions. Raises
    ``LookupError`` for a port that is missing from the table of its core.
    """
    table = _table()[core]["ports"] if core in _table() else None
    return [
        PortDoc(port=port, format=_format(port.shape), description=_description(port.name, table))
        for port in ports(signature)
    ]


def comments(core: str, signature: wiring.Signature) -> dict[str, str]:
    """Return a comment for each port, clock and reset included."""
    found = dict(COMMON)
    for each in describe(core, signature):
        words = [each.description, *([each.format] if each.port.width > 1 else [])]
        found[each.port.name] = "; ".join(filter(None, words))
    return found


def table_rows(found: Sequence[PortDoc]) -> list[list[str]]:
    """Return ports as rows of a table with the columns :data:`HEADER`."""
    return [
        [
            each.port.name,
            each.port.path,
            "in" if each.port.is_input else "out",
            each.format,
            each.description,
        ]
        for each in found
    ]


def pins(found: Sequence[PortDoc]) -> list[list[str]]:
    """Return all ports as rows, clock and reset included, with the columns :data:`PINS`."""
    rows = [
        [name, "", "in", "1", "unsigned(1)", COMMON[name]]
        for name in ("clk", "rst")
        if not {each.port.name for each in found} & {"aclk", "aresetn"}
    ]
    for each, row in zip(found, table_rows(found), strict=True):
        rows.append([*row[:3], str(each.port.width), *row[3:]])
    return rows


def timing(core: str, component: Any) -> tuple[str, str]:
    """Return latency and throughput of a component as text; "not stated" if not in the table."""
    entry = _table().get(core, {"latency": "not stated", "throughput": "not stated"})
    texts = entry["latency"], entry["throughput"]
    numbers = {name: getattr(component, name) for name in re.findall(r"{(\w+)}", "".join(texts))}
    latency, throughput = (
        re.sub(r"\b1 cycles", "1 cycle", text.format(**numbers)) for text in texts
    )
    return latency, throughput


def _description(name: str, table: Mapping[str, str] | None) -> str:
    if name in COMMON:
        return COMMON[name]
    if table is None:
        return ""
    if name in table:
        return table[name]
    stem, _, last = name.rpartition("_")
    if last == "payload" and stem in table:
        return table[stem]
    if last in HANDSHAKE and stem in table:
        return f"{table[stem]}: {last}"
    known = [prefix for prefix in table if name.startswith(f"{prefix}_")]
    if not known:
        raise LookupError(f"{name} has no description in {TABLE.name}")
    return table[max(known, key=len)]


def _format(shape: ShapeLike) -> str:
    """Return a number format as text, such as ``31 x signed(8), element 0 lowest``."""
    if isinstance(shape, data.ArrayLayout):
        return f"{shape.length} x {_format(shape.elem_shape)}, element 0 lowest"
    cast = Shape.cast(shape)
    return f"{'signed' if cast.signed else 'unsigned'}({cast.width})"
