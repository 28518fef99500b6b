"""What the ports of a core mean, in which formats, and how long the core takes."""

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

__all__ = ["HEADER", "Described", "comments", "described", "lines", "timing"]

TABLE = Path(__file__).with_name("ports.toml")
#: Of every core, and of those with AXI ports.
COMMON = {
    "clk": "clock, rising edge",
    "rst": "reset, synchronous, active high",
    "aclk": "clock, rising edge",
    "aresetn": "reset, synchronous, active low",
}
#: In Verilog, in Amaranth, and what a port is.
HEADER = ["Verilog", "Amaranth", "direction", "format", "what it is"]
HANDSHAKE = {"valid": "a beat is offered", "ready": "the beat is accepted"}


@dataclass(frozen=True, kw_only=True)
class Described:
    """A port with its number format and its meaning."""

    port: Port
    format: str
    meaning: str


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(TABLE.read_text())


def described(core: str, signature: wiring.Signature) -> list[Described]:
    """Return a core's ports in their order, without clock and reset.

    Those of a core that the table does not have mean nothing. Raises ``LookupError`` for a port
    that the table of its core does not have.
    """
    says = _table()[core]["ports"] if core in _table() else None
    return [
        Described(port=port, format=_format(port.shape), meaning=_meaning(port.name, says))
        for port in ports(signature)
    ]


def comments(core: str, signature: wiring.Signature) -> dict[str, str]:
    """Return a line for each port, clock and reset too."""
    found = dict(COMMON)
    for each in described(core, signature):
        words = [each.meaning, *([each.format] if each.port.width > 1 else [])]
        found[each.port.name] = "; ".join(filter(None, words))
    return found


def lines(found: Sequence[Described]) -> list[list[str]]:
    """Return ports as lines of a table with the columns :data:`HEADER`."""
    return [
        [
            each.port.name,
            each.port.path,
            "in" if each.port.is_input else "out",
            each.format,
            each.meaning,
        ]
        for each in found
    ]


def timing(core: str, component: Any) -> tuple[str, str]:
    """Return latency and throughput of a component in words, where the table has them."""
    says = _table().get(core, {"latency": "not stated", "throughput": "not stated"})
    numbers = {
        name: getattr(component, name)
        for name in ("latency", "plain_latency", "miss_latency")
        if hasattr(component, name)
    }
    latency = says["latency"].format(**numbers)
    return re.sub(r"\b1 cycles", "1 cycle", latency), says["throughput"]


def _meaning(name: str, says: Mapping[str, str] | None) -> str:
    if name in COMMON:
        return COMMON[name]
    if says is None:
        return ""
    if name in says:
        return says[name]
    stem, _, last = name.rpartition("_")
    if last == "payload" and stem in says:
        return says[stem]
    if last in HANDSHAKE and stem in says:
        return f"{says[stem]}: {HANDSHAKE[last]}"
    known = [prefix for prefix in says if name.startswith(f"{prefix}_")]
    if not known:
        raise LookupError(f"{name} has no meaning in {TABLE.name}")
    return says[max(known, key=len)]


def _format(shape: ShapeLike) -> str:
    """Return a number format in words, such as ``31 x signed(8), element 0 lowest``."""
    if isinstance(shape, data.ArrayLayout):
        return f"{shape.length} x {_format(shape.elem_shape)}, element 0 lowest"
    cast = Shape.cast(shape)
    return f"{'signed' if cast.signed else 'unsigned'}({cast.width})"
