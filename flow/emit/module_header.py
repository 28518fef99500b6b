"""The head of an emitted module: its ports in order, each with what it means."""

import re
from collections.abc import Mapping, Sequence

from seedbed.sim.ports import Port

__all__ = ["declare"]

_HEAD = r"^module {top}\((?P<ports>[^;]*)\);\n(?P<body>.*?)^endmodule\n"


def declare(text: str, top: str, ports: Sequence[Port], says: Mapping[str, str]) -> str:
    """Return Yosys's Verilog with the ports of the module ``top`` declared in its head.

    Yosys writes their names there, and a declaration and a wire or register of each in the body.
    ``says`` has a comment for a port by its name. The lengths of vectors are local parameters.
    """
    found = re.search(_HEAD.format(top=top), text, re.MULTILINE | re.DOTALL)
    assert found is not None
    body = found["body"]
    declared: dict[str, str] = {}
    for name in (name.strip() for name in found["ports"].split(",")):
        way = re.search(rf"^  ((?:input|output) (?:\[.*?\] )?){name};\n", body, re.MULTILINE)
        kind = re.search(
            rf"^  (wire|reg) (?:signed )?(?:\[.*?\] )?{name}( = [^;]*)?;\n", body, re.MULTILINE
        )
        assert way is not None
        assert kind is not None
        body = body.replace(way[0], "", 1).replace(kind[0], "", 1)
        direction, _, size = way[1].partition(" ")
        declared[name] = f"{direction} {kind[1]} {size}{name}{kind[2] or ''}"
    lines = []
    for number, (name, line) in enumerate(declared.items()):
        comma = "," if number < len(declared) - 1 else ""
        comment = f"  // {says[name]}" if says.get(name) else ""
        lines.append(f"  {line}{comma}{comment}\n")
    sizes = [
        f"  localparam {port.name.upper()}_WIDTH = {port.width};\n"
        for port in ports
        if port.width > 1
    ]
    head = f"module {top} (\n{''.join(lines)});\n{''.join(sizes)}{body}endmodule\n"
    return text[: found.start()] + head + text[found.end() :]
