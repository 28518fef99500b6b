"""Emits a core as Verilog."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amaranth.back import verilog

from seedbed.flow.files import write_atomic
from seedbed.flow.registry import Core

__all__ = ["emit", "write"]


def emit(core: Core, params: Mapping[str, Any]) -> str:
    """Return the Verilog of ``core`` with ``params`` set; its top module is called as the core.

    The text depends on the configuration and the version of Amaranth alone: no paths, no dates.
    """
    component = core.component(core.configure(params))
    return verilog.convert(component, name=core.name, emit_src=False, strip_internal_attrs=True)


def write(core: Core, params: Mapping[str, Any], folder: Path, stem: str | None = None) -> Path:
    """Write :func:`emit`'s text to ``folder``, whole or not at all, and return the file's path."""
    return write_atomic(folder / f"{stem or core.name}.v", emit(core, params))
