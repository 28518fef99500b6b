"""The list of cores, used by the command line, the tests, the docs and the reports."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from typing import Any

from seedbed.flow.cores.core import Core, UnknownCore, Variant, suggestion

__all__ = [
    "CORES",
    "FAMILIES",
    "WRAPPERS",
    "Core",
    "UnknownCore",
    "Variant",
    "find",
    "find_verilog",
    "grouped",
    "suggestion",
]

#: Families of cores, each a module beside this one and a room of ``hw``, and their titles.
FAMILIES = {
    "generators": "Generators of random numbers",
    "weights": "Formats of weights",
    "products": "Products",
    "engine": "Inference engine",
    "vectors": "Vectors",
    "stream": "Programs in external memory",
    "loss": "Losses",
    "adapters": "Training of adapters",
    "zeroth_order": "Zeroth-order training",
    "tail": "Backpropagation of the last layers",
    "kept": "Training of kept weights",
    "memory": "External memory",
    "host": "Host",
    "parts": "Parts",
}


def _tuples(value: Any) -> Any:
    """Return a value of TOML with tuples in place of lists, as configurations have them."""
    if isinstance(value, dict):
        return {name: _tuples(each) for name, each in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _family(name: str) -> dict[str, Core]:
    """Return the cores of a family, with their configurations from the table beside its module."""
    table = tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))
    found = {}
    for core in import_module(f"{__package__}.{name}").CORES:
        measured = _tuples(table.pop(core.name, {}))
        small = measured.pop("small", {})
        variants = {each: Variant(**values) for each, values in measured.items()}
        found[core.name] = replace(core, family=name, variants=variants, small=small)
    if table:
        raise ValueError(f"{name}.toml has configurations of {', '.join(table)}: no such core")
    return found


CORES: dict[str, Core] = {
    name: core for family in FAMILIES for name, core in _family(family).items()
}
#: AXI wrappers of cores.
WRAPPERS: dict[str, Core] = _family("axi")


def grouped(cores: Iterable[Core]) -> Iterator[tuple[str, Core]]:
    """Yield each core with the title of its family, which is "" after the family's first core."""
    last = ""
    for core in cores:
        yield (FAMILIES.get(core.family, "AXI wrappers") if core.family != last else ""), core
        last = core.family


def find(name: str, cores: Mapping[str, Core] = CORES) -> Core:
    """Return the core ``name`` of ``cores``, or raise :class:`UnknownCore`."""
    if name in WRAPPERS and name not in cores:
        raise UnknownCore(
            f"{name} is an AXI wrapper, for 'verilog', 'ports', 'cocotb' and 'synth'; this "
            f"command takes the core inside, {WRAPPERS[name].inside!r}"
        )
    if name not in cores:
        raise UnknownCore(
            f"no core is called {name!r}{suggestion(name, cores)}; there are {', '.join(cores)}"
        )
    return cores[name]


def find_verilog(name: str) -> Core:
    """Return the core or wrapper ``name``, or raise :class:`UnknownCore`."""
    return find(name, CORES | WRAPPERS)
