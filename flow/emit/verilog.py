"""Verilog generation of a core."""

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from textwrap import wrap
from typing import Any

from amaranth.back import rtlil

from seedbed.flow.cores import settings
from seedbed.flow.cores.core import Core
from seedbed.flow.emit import module_header, port_docs, source_lines, split_fields
from seedbed.flow.emit.convert import convert
from seedbed.flow.emit.deduplicate import deduplicate
from seedbed.flow.emit.identifiers import legalize
from seedbed.flow.emit.names import require_name
from seedbed.flow.emit.postprocess import name_next_values, postprocess
from seedbed.flow.emit.readable import readable
from seedbed.flow.run.cache import code, memo
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools
from seedbed.sim.ports import packed, ports

__all__ = ["EMITTER", "emit", "write", "write_packed"]

#: Modules that the text of a core depends on, beside this one; comments may depend on others.
EMITTER = tuple(
    f"seedbed.{name}"
    for name in (
        "flow.emit.convert", "flow.emit.deduplicate", "flow.emit.expressions",
        "flow.emit.identifiers", "flow.emit.module_header", "flow.emit.names",
        "flow.emit.port_docs", "flow.emit.postprocess", "flow.emit.processes",
        "flow.emit.readable", "flow.emit.reader", "flow.emit.split_fields",
        "flow.emit.statements", "flow.emit.writer", "sim.ports",
    )
)  # fmt: skip
_EMIT_MODULES = (*EMITTER, "seedbed.flow.emit.source_lines", "seedbed.flow.cores.settings")


def emit(
    core: Core,
    params: Mapping[str, Any],
    *,
    name: str = "",
    sources: bool = False,
    plain: bool = False,
) -> str:
    """Return the Verilog of ``core`` with the parameters ``params``.

    ``name`` is the name of the top module, by default that of the core. It prefixes the names of
    all modules, so that configurations with different names can be in one design. With
    ``sources``, a comment at each signal names the line of Python that declares it. With ``plain``,
    operators are assignments to numbered signals, as Yosys writes them: figures of synthesis are of
    that text. The text depends only on the arguments and on the versions of seedbed, Amaranth and
    Yosys; it holds no absolute paths and no dates.

    Raises :class:`~seedbed.sim.tools.ToolMissing` without a Yosys, ``ValueError`` for a name that
    :func:`~seedbed.flow.emit.names.require_name` refuses, and the errors of the configuration.
    """
    # Before the elaboration, which takes longer.
    tools.find("YOSYS")
    config = core.configure(params)
    signature = core.signature(config)
    pins = ["clk", "rst", *(port.name for port in ports(signature))]
    top = require_name(name or core.name, pins)
    component = core.component(config)
    # As Amaranth's verilog.convert does it, with RTLIL passes in between.
    text = deduplicate(rtlil.convert(component, name=top, emit_src=sources))
    text = legalize(split_fields.split(text, top, ports(signature)))
    converted = convert(text)
    # The first line, by Yosys, names folders of the machine on which Yosys was built.
    _, _, modules = converted.partition("\n")
    comments = port_docs.comments(type(component), signature)
    modules = postprocess(modules)
    modules = name_next_values(modules) if plain else modules
    result = module_header.declare(modules, top, ports(signature), comments)
    if not plain:
        # With sources, each declaration has its own comment.
        result = readable(result, grouped=not sources)
    if sources:
        result = source_lines.annotate(result, source_lines.positions(text))
    return _file_header(core, params, top, config, component) + _without_timescale(result)


def _without_timescale(modules: str) -> str:
    """Return modules about which Verilator does not warn where others have a timescale.

    They have no delays. A timescale of their own would be that of files that come after, and a
    warning about files without one that come before.
    """
    off, on = (f"// verilator lint_{word} TIMESCALEMOD\n" for word in ("off", "on"))
    return f"\n{off}{modules.lstrip()}{on}"


def _file_header(
    core: Core, params: Mapping[str, Any], top: str, config: Any, component: Any
) -> str:
    """Return the comment at the top of the file."""
    command = ["seedbed", "verilog", core.name]
    command += [f"--set {name}={settings.text(value)}" for name, value in params.items()]
    command += ["--name", top] if top != core.name else []
    effective = (
        f"{f.name}={settings.text(getattr(config, f.name))}"
        for f in dataclass_fields(core.config)
        if f.init
    )
    latency, throughput = port_docs.timing(component)
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
    plain: bool = False,
    kept: Path | None = None,
) -> Path:
    """Write the text of :func:`emit` to ``folder`` atomically, and return the file's path.

    ``kept`` is a folder of cached results: the core is elaborated again only if an input changed.
    """
    path = folder / f"{name or core.name}{'_plain' if plain else ''}.v"

    def compute() -> dict[str, str]:
        return {"text": emit(core, params, name=name, sources=sources, plain=plain)}

    if kept is None:
        return write_atomic(path, compute()["text"])
    found = memo(kept, "verilog", _key(core, params, name, sources, plain), compute)
    return write_atomic(path, found["text"])


def write_packed(verilog: Path, core: Core, config: Any) -> Path:
    """Write a core's Verilog, followed by :func:`packed`, to a file in the same folder.

    The file has the name of its top module. Returns its path.
    """
    text = f"{verilog.read_text()}\n{packed(core.name, core.signature(config))}"
    return write_atomic(verilog.with_name(f"{core.name}_packed.v"), text)


def _key(
    core: Core, params: Mapping[str, Any], name: str, sources: bool, plain: bool
) -> dict[str, Any]:
    """Return everything that the text depends on; of the registry only the core's entry."""
    parts = [code(name) for name in (core.component.__module__, *_EMIT_MODULES)]
    parts.append(Path(__file__).read_text())
    return {
        "core": [core.name, core.title, name, sources, plain, repr(sorted(params.items()))],
        "code": sha256("".join(parts).encode()).hexdigest(),
        "versions": {
            "seedbed": version("seedbed"),
            "amaranth": version("amaranth"),
            "yosys": tools.version("YOSYS"),
        },
    }
