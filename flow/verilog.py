"""Emits a core as Verilog."""

import re
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.back import rtlil, verilog

from seedbed.flow import twins
from seedbed.flow.cache import code, memo
from seedbed.flow.files import write_atomic
from seedbed.flow.registry import Core
from seedbed.sim import tools

__all__ = ["emit", "write"]

#: What Yosys makes of a constant part of a signal that is assigned in several.
_CONSTANT = re.compile(r"^  always @\*\n    (\S.* = \d+'\w+;)\n", re.MULTILINE)
#: A block of initial values, and the most lines that one gets.
_INITIAL = re.compile(r"^  initial begin\n((?:    .*;\n)+)  end\n", re.MULTILINE)
BLOCK = 1024


def _woken(text: str) -> str:
    """Return Verilog whose constant assignments happen in simulation too.

    ``always @*`` waits for a change of what it reads, and would never run where that is nothing.
    Yosys helps the others so, with a register that is 0 from the start.
    """
    count = 0

    def wake(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        name = f"\\$constant${count} "
        lines = [f"reg {name} = 0;", "always @* begin", f"  if ({name}) begin end"]
        return "".join(f"  {line}\n" for line in [*lines, f"  {found[1]}", "end"])

    return _CONSTANT.sub(wake, text)


def _apart(text: str) -> str:
    """Return Verilog whose long ``initial`` blocks are several.

    Yosys takes apart what a memory holds in a time that grows with the square of the block's lines:
    16,384 of them take half a minute.
    """

    def split(found: re.Match[str]) -> str:
        lines = found[1].splitlines(keepends=True)
        parts = ["".join(lines[k : k + BLOCK]) for k in range(0, len(lines), BLOCK)]
        return "".join(f"  initial begin\n{part}  end\n" for part in parts)

    return _INITIAL.sub(split, text)


def emit(core: Core, params: Mapping[str, Any]) -> str:
    """Return the Verilog of ``core`` with ``params`` set; its top module is called as the core.

    The text depends on the configuration and the versions of Amaranth and Yosys alone: no paths,
    no dates. Raises :class:`~seedbed.sim.tools.ToolMissing` without a Yosys, and what the
    configuration refuses.
    """
    # Amaranth calls it, and would speak of a package of its own if it is missing.
    tools.find("YOSYS")
    component = core.component(core.configure(params))
    # In the two steps of Amaranth's verilog.convert, with equal modules merged in between.
    text = twins.merge(rtlil.convert(component, name=core.name, emit_src=False))
    text = verilog._convert_rtlil_text(text, strip_internal_attrs=True)
    # The first line, of Yosys, names folders of the machine on which Yosys was built.
    _, _, modules = text.partition("\n")
    settings = ", ".join(f"{name}={value!r}" for name, value in params.items())
    return f"// {core.name}({settings}) of seedbed: {core.title}\n{_apart(_woken(modules))}"


def write(core: Core, params: Mapping[str, Any], folder: Path, *, kept: Path | None = None) -> Path:
    """Write :func:`emit`'s text to ``folder``, whole or not at all, and return the file's path.

    With ``kept``, a folder of results that hold as long as nothing changes that they depend on, it
    is elaborated once.
    """

    path = folder / f"{core.name}.v"
    if kept is None:
        return write_atomic(path, emit(core, params))
    found = memo(kept, "verilog", _key(core, params), lambda: {"text": emit(core, params)})
    return write_atomic(path, found["text"])


def _key(core: Core, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that the text depends on; of the registry, which knows all cores, the entry."""
    parts = [code(core.component.__module__), code(twins.__name__), Path(__file__).read_text()]
    return {
        "core": [core.name, core.title, repr(sorted(params.items()))],
        "code": sha256("".join(parts).encode()).hexdigest(),
        "versions": {"amaranth": version("amaranth"), "yosys": tools.version("YOSYS")},
    }
