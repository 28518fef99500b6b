"""Reads of memories at the address of a write, for tools that read RTLIL."""

import re

__all__ = ["unordered"]

_MODULE = re.compile(r"^module \S+\n(?:.*\n)*?end\n", re.MULTILINE)
_MEMORY = re.compile(
    r"^  attribute \\no_rw_check 1\n(?:  attribute .*\n)*  memory .*(\\\S+)\n", re.MULTILINE
)
_READ = re.compile(
    r'(parameter \\MEMID "\\(\\\S+)"\n(?:    parameter .*\n)*?    parameter \\COLLISION_X_MASK )'
    r"(\d+)'[01]+\n"
)


def unordered(rtlil: str) -> str:
    """Return the RTLIL text with reads whose value is any, where memories have ``no_rw_check``.

    Yosys regards the attribute when it finds the register of a read in Verilog. Amaranth's RTLIL
    has reads with their clock, of which yosys keeps the order: on ECP5, a register for each bit
    that is written, and a multiplexer for each bit that is read.
    """

    def module(found: re.Match[str]) -> str:
        names = set(_MEMORY.findall(found[0]))

        def read(port: re.Match[str]) -> str:
            if port[2] not in names:
                return port[0]
            width = int(port[3])
            return f"{port[1]}{width}'{'1' * width}\n"

        return _READ.sub(read, found[0])

    return _MODULE.sub(module, rtlil)
