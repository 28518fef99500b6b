"""Readable Verilog from what Yosys writes, which all supported tools read alike."""

import re

from seedbed.flow.emit.readable import make_readable
from seedbed.flow.emit.statements import read, write

__all__ = ["postprocess"]

#: Escaped identifiers: Verilog keywords, and names that Yosys generated.
_ESCAPED = re.compile(r"\\(?:(\w+)|\$\S+?:(\w+)\$(\d+)) ")


def postprocess(text: str, *, grouped: bool = True) -> str:
    """Return the modules that Yosys wrote, with expressions in place of temporaries.

    With ``grouped``, one line declares several signals. Raises ``ValueError`` for a statement that
    Yosys writes for no design of Amaranth.
    """
    modules = read(_unescape(text))
    for module in modules:
        make_readable(module)
    return "\n".join(write(module, grouped=grouped) for module in modules)


def _unescape(text: str) -> str:
    """Rename escaped identifiers to plain ones that end in an underscore.

    Names from :func:`seedbed.flow.emit.identifiers.legalize` do not end in an underscore.
    """
    return _ESCAPED.sub(lambda n: f"{n[1]}_" if n[1] else f"_{n[2]}_{n[3]}_", text)
