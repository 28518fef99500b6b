"""Renames the signals, cells and modules of a design to plain Verilog identifiers."""

import re
from collections.abc import Iterator

__all__ = ["legalize"]

_NAME = re.compile(r"[\\$]\S+")
_CONNECT = re.compile(r"( *connect )(\S+)(.*)")
_MEMORY = re.compile(r'( *parameter \\MEMID )"\\(\\\S+)"')


def legalize(rtlil: str) -> str:
    r"""Return Amaranth's RTLIL text with plain Verilog identifiers.

    The port ``i__payload`` becomes ``i_payload``, the signal ``values$3`` becomes ``values_3``, and
    the unnamed signal ``$3`` becomes ``_3_``, which yosys treats as unnamed as well. Wires that
    duplicate a field of another wire are removed: for yosys, a wire ``\word[0]`` is also a bit of
    the wire ``\word``, and commands that split vectors fail on it.

    Raises ``ValueError`` if two ports of the top module would get the same name.
    """
    lines = rtlil.splitlines()
    modules = _declared(lines)
    module_names = _unique([], list(modules), {})
    # A signal of the top module's name would hide it, and Verilator warns.
    tops = {module[1:]: module for module in modules if "." not in module}
    names = {module: _unique(*found, tops) for module, found in modules.items()}
    return "\n".join(_renamed(lines, module_names, names)) + "\n"


def _is_field(name: str) -> bool:
    return "." in name or "[" in name


def _declared(lines: list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Return two lists of names for each module: ports of the top, and everything else."""
    modules: dict[str, tuple[list[str], list[str]]] = {}
    for line in lines:
        match line.split():
            case ["module", module]:
                port_names, others = modules[module] = [], []
            case ["wire", *kind, name] if {"input", "output"} & {*kind} and "." not in module:
                port_names.append(name)
            case ["wire" | "memory", *_, name] if not _is_field(name):
                others.append(name)
            case ["cell", kind, name] if kind.startswith("\\"):
                others.append(name)
    return modules


def _legalize(name: str) -> str:
    return f"_{name[1:]}_" if name[0] == "$" else re.sub(r"[\W_]+", "_", name[1:]).strip("_")


def _unique(port_names: list[str], others: list[str], taken: dict[str, str]) -> dict[str, str]:
    """Return plain names that are not ``taken``; ``others`` get a numeric suffix where needed."""
    found: dict[str, str] = {}
    owners = dict(taken)
    # Names that are plain already are unchanged.
    for name in [*port_names, *sorted(others, key=lambda name: _legalize(name) != name[1:])]:
        new, number = _legalize(name), 1
        while new in owners:
            if name in port_names:
                both = f"{owners[new][1:]} and {name[1:]}"
                raise ValueError(f"the ports {both} would both be named {new}: rename one of them")
            number += 1
            new = f"{_legalize(name)}_{number}"
        owners[new] = name
        found[name] = f"\\{new}"
    return found


def _renamed(
    lines: list[str], modules: dict[str, str], names_of: dict[str, dict[str, str]]
) -> Iterator[str]:
    names: dict[str, str] = {}

    def renamed(text: str) -> str:
        return _NAME.sub(lambda found: names[found[0]], text)

    # The type of the cell that the line is in, which names its pins; pending attributes.
    cell = ""
    attributes: list[str] = []
    for line in lines:
        match line.split():
            case ["attribute", *_]:
                attributes.append(line)
                continue
            case ["wire", *_, name] if _is_field(name):
                attributes.clear()
                continue
            case ["connect", name, *_] if not cell and _is_field(name):
                continue
            case ["module", name]:
                names = names_of[name]
                line = f"module {modules[name]}"
            case ["cell", kind, name]:
                cell = kind
                if kind in modules:
                    line = f"  cell {modules[kind]} {names[name]}"
            case ["connect", pin, *_] if cell:
                connect = _CONNECT.fullmatch(line)
                assert connect, line
                head, _, rest = connect.groups()
                line = f"{head}{names_of[cell][pin] if cell in names_of else pin}{renamed(rest)}"
            case ["parameter", *_]:
                if memory := _MEMORY.fullmatch(line):
                    line = f'{memory[1]}"\\{names[memory[2]]}"'
            case ["process", _]:
                pass
            case ["end"]:
                cell = ""
            case _:
                line = renamed(line)
        yield from attributes
        attributes.clear()
        yield line
