"""What a component's docstring says of its ports, and of its latency and throughput.

``Members`` has an entry for each port, and in it a line for each field of its payload::

    i : In(stream of struct)
        input vector. Each vector begins in a new beat.
        lanes (n x signed(8)) : next elements of the vector
        last : last beat of the vector
    s_axis_samples_* : In
        AXI4-Stream, images

The section ends at an empty line. The first sentence of a text is the comment in the emitted
Verilog and the description in tables. A name that ends in ``*`` is a prefix of several ports.
Lines that begin with ``Latency:`` and ``Throughput:`` are read in the same way: in their first
sentence, a name in double backticks is a property of the component.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from itertools import takewhile
from typing import Any

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data, wiring

from seedbed.sim.ports import Port, ports

__all__ = [
    "FIELD", "HEADER", "PINS", "PortDoc",
    "comments", "describe", "locate", "members", "pins", "table_rows", "timing",
]  # fmt: skip

#: Clock and reset, which are no members of a component.
COMMON = {"clk": "clock, rising edge", "rst": "reset, synchronous, active high"}
#: A line of a field: its name, its format if there is one, and its description.
FIELD = re.compile(r" {4}(\w+)(?: \((.+?)\))? : (\S.*)")
_ENTRY = re.compile(r"(\w+\*?) : \S.*")
_FIRST_SENTENCE = re.compile(r"(.+?)(?:(?<!\.)\.(?= |$)|$)")
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
def members(component: type) -> Mapping[str, Mapping[str, str]]:
    """Return the texts of a component's ``Members``: by entry, and by field, "" for the port.

    There are none without that section. Raises ``LookupError`` for a line that is none of an entry.
    """
    lines = cleandoc(component.__doc__ or "").splitlines()
    start = lines.index("Members") + 2 if "Members" in lines else len(lines)
    found: dict[str, dict[str, str]] = {}
    name = field = ""
    for line in takewhile(bool, lines[start:]):
        own, part = _ENTRY.fullmatch(line), FIELD.fullmatch(line)
        if own and own[1] not in found:
            name, field = own[1], ""
            found[name] = {"": ""}
        elif part and name and part[1] not in found[name]:
            field = part[1]
            found[name][field] = part[3]
        elif name and line.startswith("        " if field else "    "):
            found[name][field] = f"{found[name][field]} {line.strip()}".lstrip()
        else:
            raise LookupError(f"{component.__name__}: Members has a wrong line, {line.strip()!r}")
    return found


def locate(component: type, port: Port) -> tuple[str, str]:
    """Return the entry and the field that describe a port.

    Raises ``LookupError`` for a port that ``Members`` does not describe.
    """
    top = port.member.partition("__")[0]
    rest = port.name.removeprefix(top).removeprefix("_")
    for name, fields in members(component).items():
        if name == top or (name.endswith("*") and top.startswith(name[:-1])):
            if rest in fields:
                return name, rest
            if rest in ("payload", *HANDSHAKE):
                return name, ""
    raise LookupError(f"{component.__name__}: Members does not describe {port.name}")


def describe(component: type, signature: wiring.Signature) -> list[PortDoc]:
    """Return a component's ports in order, without clock and reset.

    The descriptions are empty if the docstring has no ``Members``. Raises ``LookupError`` for a
    port that they do not describe.
    """
    return [
        PortDoc(port=port, format=_format(port.shape), description=_description(component, port))
        for port in ports(signature)
    ]


def comments(component: type, signature: wiring.Signature) -> dict[str, str]:
    """Return a comment for each port, clock and reset included."""
    found = dict(COMMON)
    for each in describe(component, signature):
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
    common = {} if "aclk" in [each.port.name for each in found] else COMMON
    rows = [[name, "", "in", "1", "unsigned(1)", text] for name, text in common.items()]
    for each, row in zip(found, table_rows(found), strict=True):
        rows.append([*row[:3], str(each.port.width), *row[3:]])
    return rows


def timing(component: Any) -> tuple[str, str]:
    """Return latency and throughput of a component as text; "not stated" without those lines."""
    latency, throughput = (_timing(component, name) for name in ("Latency", "Throughput"))
    return latency, throughput


def _timing(component: Any, name: str) -> str:
    found = re.search(rf"^{name}: (.*)", cleandoc(type(component).__doc__ or ""), re.M | re.S)
    if not found:
        return "not stated"
    text = _first_sentence(" ".join(found[1].split()))
    text = re.sub(r"``(\w+)``", lambda match: str(getattr(component, match[1])), text)
    return re.sub(r"\b1 cycles", "1 cycle", text)


def _first_sentence(text: str) -> str:
    found = _FIRST_SENTENCE.match(text)
    return found[1] if found else ""


def _description(component: type, port: Port) -> str:
    if not members(component):
        return ""
    name, field = locate(component, port)
    text = _first_sentence(members(component)[name][field])
    signal = port.member.partition("__")[2]
    return f"{text}: {signal}" if signal in HANDSHAKE else text


def _format(shape: ShapeLike) -> str:
    """Return a number format as text, such as ``31 x signed(8), element 0 lowest``."""
    if isinstance(shape, data.ArrayLayout):
        return f"{shape.length} x {_format(shape.elem_shape)}, element 0 lowest"
    cast = Shape.cast(shape)
    return f"{'signed' if cast.signed else 'unsigned'}({cast.width})"
