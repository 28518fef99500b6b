"""The hash of an elaborated design, which figures carry so that one knows what they are of."""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from amaranth.back import rtlil

from seedbed.flow.cores.core import Core

__all__ = ["canonical", "netlist"]

#: Attributes that say where a thing is from, and nothing of what it is.
_TEXT = re.compile(r"attribute \\(src|generator|enum_\w+|amaranth\.\S+) ")
#: What an "end" ends.
_BLOCKS = ("module", "cell", "process", "switch")
_NAME = re.compile(r'"(?:\\.|[^"])*"|[\\$][^\s]+')


def canonical(text: str) -> str:
    """Return RTLIL without the names of wires, cells, memories and modules.

    Each is numbered in the order of its declaration, and ports are numbered as the design numbers
    them. What is left is what synthesis sees: widths, cells, parameters, connections, initial
    values and attributes such as ``keep``.
    """
    modules = list(_modules(text))
    order = {name: f"m{k}" for k, (name, _) in enumerate(modules)}
    ports = {name: _declared(lines) for name, lines in modules}
    return "\n".join(
        line for name, lines in modules for line in _renamed(order[name], lines, order, ports, name)
    )


def netlist(core: Core, params: Mapping[str, Any]) -> str:
    """Return the hash of a core's elaborated design, 16 hexadecimal digits.

    It is taken before names and text are polished: a better comment, name or line leaves it
    unchanged. Raises the errors of the configuration.
    """
    component = core.component(core.configure(params))
    text = rtlil.convert(component, name=core.name, emit_src=False)
    return sha256(canonical(text).encode()).hexdigest()[:16]


def _modules(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield name and lines of each module, without attributes that are text."""
    name, depth = "", 0
    lines: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        first = line.split(maxsplit=1)[0]
        if first == "module":
            name, lines, depth = line.split()[1], [], 0
        depth += first in _BLOCKS
        depth -= first == "end"
        if not depth and name:
            yield name, lines
            name = ""
        elif name and not _TEXT.match(line):
            lines.append(line)


def _declared(lines: list[str]) -> dict[str, str]:
    """Return the canonical name of everything that a module declares."""
    found: dict[str, str] = {}
    for words in map(str.split, lines):
        port = next((word for word in words[1:-1] if word in ("input", "output", "inout")), None)
        if words[0] == "wire" and port:
            found[words[-1]] = f"{port}{words[words.index(port) + 1]}"
        elif words[0] in ("wire", "cell", "memory", "process"):
            found[words[-1]] = f"{words[0][0]}{len(found)}"
    return found


def _renamed(
    number: str, lines: list[str], order: dict[str, str], ports: dict[str, dict], name: str
) -> Iterator[str]:
    own, inner = ports[name], {}
    for line in lines:
        words = line.split(maxsplit=2)
        if words[0] == "module":
            yield f"module {number}"
        elif words[0] == "cell":
            inner = ports.get(words[1], {})
            yield f"cell {order.get(words[1], words[1])} {own[words[2]]}"
        elif words[0] == "parameter" and words[1] == "\\MEMID":
            yield f"parameter MEMID {own[json.loads(words[2])]}"
        elif words[0] == "parameter":
            yield line
        elif words[0] == "connect" and words[1] in inner:
            yield f"connect {inner[words[1]]} {_names(words[2], own)}"
        else:
            yield _names(line, own)


def _names(text: str, own: dict[str, str]) -> str:
    return _NAME.sub(lambda m: own.get(m[0], m[0]), text)
