"""Small configurations: every core in every sort."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from seedbed.flow.cores.registry import CORES, Core

__all__ = ["small_configurations"]


def _sort(config: Any) -> list[Any]:
    """Return what a configuration has, and not how large: of numbers, whether they exceed one."""
    values = (getattr(config, f.name) for f in fields(config) if f.init)
    return [min(v, 2) if isinstance(v, int) else v if isinstance(v, str) else 0 for v in values]


@cache
def small_configurations() -> tuple[tuple[Core, str, dict[str, Any]], ...]:
    """Return core, name and parameters of each sort, once where it is the same in other widths.

    What is too large for that has more of the same modules.
    """
    made = []
    for core in CORES.values():
        found: list[Any] = []
        variants: dict[str, Mapping[str, Any]] = {"plain": {}}
        variants |= {n: v.params for n, v in core.variants.items() if "simulation" in v.kinds}
        for name, variant in variants.items():
            params = {**variant, **core.small}
            try:
                sort = _sort(core.configure(params))
            except ValueError:
                # A sort that needs more than the small sizes has its own ones.
                params = dict(variant)
                sort = _sort(core.configure(params))
            if sort not in found:
                found.append(sort)
                made.append((core, name, params))
    return tuple(made)
