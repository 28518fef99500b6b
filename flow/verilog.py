"""Emits a core as Verilog."""

from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.back import rtlil, verilog

from seedbed.flow import names, twins
from seedbed.flow.cache import code, memo
from seedbed.flow.files import write_atomic
from seedbed.flow.polish import polish
from seedbed.flow.registry import Core
from seedbed.sim import tools

__all__ = ["emit", "write"]

_WRITERS = (twins.__name__, names.__name__, "seedbed.flow.polish")


def emit(core: Core, params: Mapping[str, Any]) -> str:
    """Return the Verilog of ``core`` with ``params`` set; its top module is called as the core.

    The text depends on the configuration and the versions of Amaranth and Yosys alone: no paths,
    no dates. Raises :class:`~seedbed.sim.tools.ToolMissing` without a Yosys, and what the
    configuration refuses.
    """
    # Amaranth calls it, and would speak of a package of its own if it is missing.
    tools.find("YOSYS")
    component = core.component(core.configure(params))
    # In the two steps of Amaranth's verilog.convert, with work on the modules in between.
    text = names.plain(twins.merge(rtlil.convert(component, name=core.name, emit_src=False)))
    text = verilog._convert_rtlil_text(text, strip_internal_attrs=True)
    # The first line, of Yosys, names folders of the machine on which Yosys was built.
    _, _, modules = text.partition("\n")
    settings = ", ".join(f"{name}={value!r}" for name, value in params.items())
    return f"// {core.name}({settings}) of seedbed: {core.title}\n{polish(modules)}"


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
    parts = [code(name) for name in (core.component.__module__, *_WRITERS)]
    parts.append(Path(__file__).read_text())
    return {
        "core": [core.name, core.title, repr(sorted(params.items()))],
        "code": sha256("".join(parts).encode()).hexdigest(),
        "versions": {"amaranth": version("amaranth"), "yosys": tools.version("YOSYS")},
    }
