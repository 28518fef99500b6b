"""Gives everything in a design a name that Verilog needs no escape for."""

import re
from collections.abc import Iterator

__all__ = ["legalize"]

_NAME = re.compile(r"[\\$]\S+")
_CONNECT = re.compile(r"( *connect )(\S+)(.*)")
_MEMORY = re.compile(r'( *parameter \\MEMID )"\\(\\\S+)"')


def legalize(rtlil: str) -> str:
    r"""Return Amaranth's RTLIL text with plain identifiers for names.

    The port ``i__payload`` becomes ``i_payload``, the signal ``values$3`` ``values_3``, and the
    unnamed ``$3`` ``_3_``, which yosys takes for unnamed as well. Wires that repeat a field of
    another one are left out: for yosys, a wire ``\word[0]`` is also a bit of the wire ``\word``,
    and commands that split vectors stop there.

    Raises ``ValueError`` where two ports of the top module would have one name.
    """
    lines = rtlil.splitlines()
    modules = _declared(lines)
    called = _distinct([], list(modules))
    return "\n".join(_renamed(lines, called, {m: _distinct(*n) for m, n in modules.items()})) + "\n"


def _is_field(name: str) -> bool:
    return "." in name or "[" in name


def _declared(lines: list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Return, of each module, the names of the top's ports, and of all else."""
    modules: dict[str, tuple[list[str], list[str]]] = {}
    for line in lines:
        match line.split():
            case ["module", module]:
                firm, others = modules[module] = [], []
            case ["wire", *kind, name] if {"input", "output"} & {*kind} and "." not in module:
                firm.append(name)
            case ["wire" | "memory", *_, name] if not _is_field(name):
                others.append(name)
            case ["cell", kind, name] if kind.startswith("\\"):
                others.append(name)
    return modules


def _legalize(name: str) -> str:
    return f"_{name[1:]}_" if name[0] == "$" else re.sub(r"[\W_]+", "_", name[1:]).strip("_")


def _distinct(firm: list[str], others: list[str]) -> dict[str, str]:
    """Return plain names; where two of the ``others`` would be the same, one has a number."""
    found: dict[str, str] = {}
    owners: dict[str, str] = {}
    # A name that is plain stays.
    for name in [*firm, *sorted(others, key=lambda name: _legalize(name) != name[1:])]:
        new, number = _legalize(name), 1
        while new in owners:
            if name in firm:
                both = f"{owners[new][1:]} and {name[1:]}"
                raise ValueError(f"the ports {both} would both be called {new}: rename one of them")
            number += 1
            new = f"{_legalize(name)}_{number}"
        owners[new] = name
        found[name] = f"\\{new}"
    return found


def _renamed(
    lines: list[str], modules: dict[str, str], inside: dict[str, dict[str, str]]
) -> Iterator[str]:
    names: dict[str, str] = {}

    def renamed(text: str) -> str:
        return _NAME.sub(lambda found: names[found[0]], text)

    # What the lines are in: a cell's type, whose pins are its own; and attributes of what follows.
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
                names = inside[name]
                line = f"module {modules[name]}"
            case ["cell", kind, name]:
                cell = kind
                if kind in modules:
                    line = f"  cell {modules[kind]} {names[name]}"
            case ["connect", pin, *_] if cell:
                connect = _CONNECT.fullmatch(line)
                assert connect, line
                head, _, rest = connect.groups()
                line = f"{head}{inside[cell][pin] if cell in inside else pin}{renamed(rest)}"
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
