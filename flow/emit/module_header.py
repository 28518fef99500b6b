"""The header of an emitted module: ANSI port declarations with a comment each."""

import re
from collections.abc import Mapping, Sequence

from seedbed.sim.ports import Port

__all__ = ["declare"]

_HEADER = r"^module {top}\((?P<ports>[^;]*)\);\n(?P<body>.*?)^endmodule\n"


def declare(text: str, top: str, ports: Sequence[Port], comments: Mapping[str, str]) -> str:
    """Return Yosys's Verilog with the ports of the module ``top`` declared in its header.

    Yosys lists only the names in the header and declares direction and type in the body.
    ``comments`` maps port names to comments. Vector widths become local parameters.
    """
    found = re.search(_HEADER.format(top=top), text, re.MULTILINE | re.DOTALL)
    assert found is not None
    body = found["body"]
    declared: dict[str, str] = {}
    for name in (name.strip() for name in found["ports"].split(",")):
        port = re.search(
            rf"^  (input|output) (?:signed )?(?:\[.*?\] )?{name};\n", body, re.MULTILINE
        )
        kind = re.search(
            rf"^  ((?:wire|reg) (?:signed )?(?:\[.*?\] )?{name}(?: = [^;]*)?);\n",
            body, re.MULTILINE,
        )  # fmt: skip
        assert port is not None
        assert kind is not None
        body = body.replace(port[0], "", 1).replace(kind[0], "", 1)
        declared[name] = f"{port[1]} {kind[1]}"
    lines = []
    for number, (name, line) in enumerate(declared.items()):
        comma = "," if number < len(declared) - 1 else ""
        comment = f"  // {comments[name]}" if comments.get(name) else ""
        lines.append(f"  {line}{comma}{comment}\n")
    widths = [
        f"  localparam {port.name.upper()}_WIDTH = {port.width};\n"
        for port in ports
        if port.width > 1
    ]
    header = f"module {top} (\n{''.join(lines)});\n{''.join(widths)}{body}endmodule\n"
    return text[: found.start()] + header + text[found.end() :]
