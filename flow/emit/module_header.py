"""The header of an emitted module: a comment for each port, and the widths of vectors."""

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap

from seedbed.sim.ports import Port

__all__ = ["declare"]

_PORT = re.compile(r"^  (?:input|output) .*?(\w+)(?: = \S+?)?,?$", re.MULTILINE)
#: A comment that makes a line longer has a line before the port.
_COLUMNS = 119


def declare(text: str, top: str, ports: Sequence[Port], comments: Mapping[str, str]) -> str:
    """Return Verilog with comments at the ports of the module ``top``.

    ``comments`` maps port names to comments. Vector widths become local parameters.
    """
    head, start, rest = text.partition(f"module {top} (\n")
    declared, end, body = rest.partition("\n);\n")

    def commented(port: re.Match[str]) -> str:
        comment = comments.get(port[1])
        if not comment:
            return port[0]
        line = f"{port[0]}  // {comment}"
        if len(line) <= _COLUMNS:
            return line
        return "".join(f"  // {part}\n" for part in wrap(comment, 95)) + port[0]

    widths = [
        f"  localparam {port.name.upper()}_WIDTH = {port.width};\n"
        for port in ports
        if port.width > 1
    ]
    return f"{head}{start}{_PORT.sub(commented, declared)}{end}{''.join(widths)}{body}"
