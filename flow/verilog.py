"""Emits a core as Verilog."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amaranth.back import rtlil, verilog

from seedbed.flow.files import write_atomic
from seedbed.flow.registry import Core
from seedbed.flow.twins import merge
from seedbed.sim import tools

__all__ = ["emit", "write"]

#: What Yosys makes of a constant part of a signal that is assigned in several.
_CONSTANT = re.compile(r"^  always @\*\n    (\S.* = \d+'\w+;)\n", re.MULTILINE)


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
    text = merge(rtlil.convert(component, name=core.name, emit_src=False))
    text = verilog._convert_rtlil_text(text, strip_internal_attrs=True)
    # The first line, of Yosys, names folders of the machine on which Yosys was built.
    _, _, modules = text.partition("\n")
    settings = ", ".join(f"{name}={value!r}" for name, value in params.items())
    return f"// {core.name}({settings}) of seedbed: {core.title}\n{_woken(modules)}"


def write(core: Core, params: Mapping[str, Any], folder: Path) -> Path:
    """Write :func:`emit`'s text to ``folder``, whole or not at all, and return the file's path."""
    return write_atomic(folder / f"{core.name}.v", emit(core, params))
