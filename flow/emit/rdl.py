"""Register maps as SystemRDL, from which other tools make headers, pages, accessors and models."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Shape

from seedbed.flow.cores.core import Core
from seedbed.flow.cores.registry import CORES
from seedbed.spec.axi_registers import AXI_REGISTERS, held
from seedbed.spec.registers import Field, Register, addresses

__all__ = ["core_rdl", "rdl", "registers_of"]

#: The field of a register whose word is one value.
VALUE = "value"
_ACCESS = {"read": ("r", "w"), "write": ("rw", "r"), "strobe": ("w", "r")}


def registers_of(core: Core, config: Any) -> tuple[Register, ...]:
    """Return the map at the AXI4-Lite port of a core; raise ``ValueError`` if there is none."""
    if core.inside not in AXI_REGISTERS:
        names = ", ".join(f"{name}_axi" for name in AXI_REGISTERS)
        raise ValueError(f"{core.name} has no registers; {names} have some")
    return held(core.inside, config)


def core_rdl(core: Core, params: Mapping[str, Any], *, name: str = "") -> str:
    """Return the map at the AXI4-Lite port of a core as SystemRDL.

    A register has as many bits as the field of the core's command that has its name. A signed one
    has 32, as it is sign-extended.
    """
    config = core.configure(params)
    registers = registers_of(core, config)
    commands = CORES[core.inside].signature(config).members["i"].signature
    command = commands.members["payload"].shape
    shapes = {field: Shape.cast(each.shape) for field, each in command}
    widths = {field: 32 if shape.signed else shape.width for field, shape in shapes.items()}
    # Of a register with fields that the command lacks, there is only its address.
    there = [
        each
        for each in registers
        if each.access != "write" or not each.fields or {f.name for f in each.fields} <= {*shapes}
    ]
    return rdl(
        name or core.name,
        f"{core.title}: registers at s_axi_control",
        there,
        offsets=addresses(registers, 4),
        widths=widths,
    )


def rdl(
    name: str,
    title: str,
    registers: Sequence[Register],
    *,
    offsets: Mapping[str, int],
    widths: Mapping[str, int] = MappingProxyType({}),
    resets: Mapping[str, int | None] = MappingProxyType({}),
) -> str:
    """Return a map as SystemRDL.

    Parameters
    ----------
    name, title
        Of the address map.
    registers
        The map.
    offsets
        Byte addresses by name.
    widths
        Bits of a register that is one value, by name; by default 32, or 1 for a ``strobe``.
    resets
        Values of a register with access ``read`` that does not change, by name, where they are not
        0; ``None`` for one that depends on the build.
    """
    body = [f"name = {_text(name)};", f"desc = {_text(title)};"]
    body += ["default regwidth = 32;", "default accesswidth = 32;"]
    for each in registers:
        body += ["", *_register(each, offsets[each.name], widths, resets)]
    head = f"// Registers of seedbed {version('seedbed')}: {name}\n"
    lines = textwrap.indent("\n".join(body), "    ")
    return f"{head}addrmap {name} {{\n{lines}\n}};\n"


def _register(
    register: Register, offset: int, widths: Mapping[str, int], resets: Mapping[str, int | None]
) -> Iterator[str]:
    width = widths.get(register.name, 1 if register.access == "strobe" else 32)
    whole = Field(VALUE, register.zeros, width - register.zeros, register.meaning, register.values)
    fields = register.fields or (whole,)
    for field in fields:
        yield from _enumeration(register, field)
    yield "reg {"
    yield f"    name = {_text(register.name)};"
    yield f"    desc = {_text(register.meaning)};"
    # A write of single bits acts once and is then 0; that of a word has an effect of its own.
    acts = "singlepulse" if all(field.width == 1 for field in fields) else "swmod"
    for field in fields:
        software, hardware = _ACCESS[register.access]
        if resets.get(register.name):
            hardware = "na"
        yield "    field {"
        yield f"        sw = {software}; hw = {hardware};"
        if register.access == "strobe":
            yield f"        {acts};"
        if field.values:
            yield f"        encode = {_enumerated(register, field)};"
        yield f"        desc = {_text(field.meaning)};"
        value = resets.get(register.name, 0)
        reset = "" if value is None else f" = {value}"
        yield f"    }} {field.name}[{field.low + field.width - 1}:{field.low}]{reset};"
    yield f"}} {register.name} @ 0x{offset:X};"


def _enumerated(register: Register, field: Field) -> str:
    return f"{register.name}_{field.name}"


def _enumeration(register: Register, field: Field) -> Iterator[str]:
    if field.values:
        yield f"enum {_enumerated(register, field)} {{"
        # Fewer values than names have a place where an option is missing.
        for code, value in enumerate(field.values[: 1 << field.width]):
            yield f"    {value} = {field.width}'d{code};"
        yield "};"


def _text(text: str) -> str:
    # Of JSON's escapes, SystemRDL has those of quotation marks and backslashes.
    return json.dumps(text, ensure_ascii=False)
