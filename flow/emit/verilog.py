"""Emits a core as Verilog."""

import re
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from textwrap import wrap
from typing import Any

from amaranth.back import rtlil, verilog

from seedbed.flow import settings
from seedbed.flow.cache import code, memo
from seedbed.flow.core import Core
from seedbed.flow.emit import module_header, port_docs, source_lines, split_fields
from seedbed.flow.emit.deduplicate import deduplicate
from seedbed.flow.emit.identifiers import legalize
from seedbed.flow.emit.postprocess import postprocess
from seedbed.flow.files import write_atomic
from seedbed.sim import tools
from seedbed.sim.ports import packed, ports

__all__ = ["emit", "write", "write_packed"]

_WRITERS = tuple(
    f"seedbed.{name}"
    for name in (
        "flow.emit.deduplicate", "flow.emit.identifiers", "flow.emit.module_header",
        "flow.emit.port_docs", "flow.emit.postprocess", "flow.emit.source_lines",
        "flow.emit.split_fields", "flow.settings", "sim.ports",
    )
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z]\w*")


def emit(core: Core, params: Mapping[str, Any], *, name: str = "", sources: bool = False) -> str:
    """Return the Verilog of ``core`` with ``params`` set, with ``name`` for its top module.

    By default it is called as the core. All modules' names begin with it, so that configurations
    with different names can be in one design. With ``sources``, a comment at each signal names the
    line of Python that made it. The text depends on the arguments and the versions of seedbed,
    Amaranth and Yosys alone: no absolute paths, no dates. Raises
    :class:`~seedbed.sim.tools.ToolMissing` without a Yosys, ``ValueError`` for a name that Verilog
    does not take, and what the configuration refuses.
    """
    # Amaranth calls it, and would speak of a package of its own if it is missing.
    tools.find("YOSYS")
    top = name or core.name
    if not _NAME.fullmatch(top):
        raise ValueError(f"name must be letters, digits and underscores, not {name!r}")
    config = core.configure(params)
    component = core.component(config)
    signature = component.signature
    # In the two steps of Amaranth's verilog.convert, with work on the modules in between.
    text = deduplicate(rtlil.convert(component, name=top, emit_src=sources))
    text = legalize(split_fields.split(text, top, ports(signature)))
    converted = verilog._convert_rtlil_text(text, strip_internal_attrs=True)
    # The first line, of Yosys, names folders of the machine on which Yosys was built.
    _, _, modules = converted.partition("\n")
    says = port_docs.comments(core.name, signature)
    made = module_header.declare(postprocess(modules), top, ports(signature), says)
    if sources:
        made = source_lines.annotate(made, source_lines.positions(text))
    return _head(core, params, top, config, component) + made


def _head(core: Core, params: Mapping[str, Any], top: str, config: Any, component: Any) -> str:
    """Return the comment above all modules."""
    command = ["seedbed", "verilog", core.name]
    command += [f"--set {name}={settings.text(value)}" for name, value in params.items()]
    command += ["--name", top] if top != core.name else []
    effective = (
        f"{f.name}={settings.text(getattr(config, f.name))}"
        for f in dataclass_fields(core.config)
        if f.init
    )
    latency, throughput = port_docs.timing(core.name, component)
    lines = [
        f"{core.name} of seedbed {version('seedbed')}: {core.title}",
        "",
        f"Command: {' '.join(command)}",
        f"Parameters: {', '.join(effective)}",
        f"Latency: {latency}",
        f"Throughput: {throughput}",
        "SPDX-License-Identifier: Apache-2.0",
        "",
        "Streams: a beat is transferred at each rising edge with valid and ready both high.",
    ]
    wrapped = (line for long in lines for line in wrap(long, 97, subsequent_indent="  ") or [""])
    return "".join(f"// {line}".rstrip() + "\n" for line in wrapped)


def write(
    core: Core,
    params: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "",
    sources: bool = False,
    kept: Path | None = None,
) -> Path:
    """Write :func:`emit`'s text to ``folder``, whole or not at all, and return the file's path.

    With ``kept``, a folder of results that hold as long as nothing changes that they depend on, it
    is elaborated once.
    """
    path = folder / f"{name or core.name}.v"
    if kept is None:
        return write_atomic(path, emit(core, params, name=name, sources=sources))
    assert not sources
    found = memo(
        kept, "verilog", _key(core, params, name), lambda: {"text": emit(core, params, name=name)}
    )
    return write_atomic(path, found["text"])


def write_packed(verilog: Path, core: Core, config: Any) -> Path:
    """Write a core's Verilog and :func:`packed` after it to one file, beside the core's own.

    The file is called as its top module is. Returns its path.
    """
    text = f"{verilog.read_text()}\n{packed(core.name, core.signature(config))}"
    return write_atomic(verilog.with_name(f"{core.name}_packed.v"), text)


def _key(core: Core, params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return all that the text depends on; of the registry, which knows all cores, the entry."""
    parts = [code(name) for name in (core.component.__module__, *_WRITERS)]
    parts += [Path(__file__).read_text(), port_docs.TABLE.read_text()]
    return {
        "core": [core.name, core.title, name, repr(sorted(params.items()))],
        "code": sha256("".join(parts).encode()).hexdigest(),
        "versions": {
            "seedbed": version("seedbed"),
            "amaranth": version("amaranth"),
            "yosys": tools.version("YOSYS"),
        },
    }
