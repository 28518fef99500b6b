"""Placement constraints for a core inside a user's design."""

import json
from pathlib import Path
from typing import Any

from seedbed.flow.fpga import targets
from seedbed.flow.fpga.ecp5 import ring_placement
from seedbed.flow.fpga.synth import top_module
from seedbed.flow.run.files import write_atomic

__all__ = ["constrain"]


def constrain(
    netlist: Path, instance: str, *, target: str, at: tuple[int, int] | None, out: Path
) -> int:
    """Assign sites to the lanes of a generator array in a design; return the number of cells.

    Parameters
    ----------
    netlist
        The mapped, flat design as JSON: ``synth_ecp5 -json``.
    instance
        The path of the :class:`~seedbed.hw.generators.urng_array.UrngArray` in it, such as
        ``train.noise``.
    target
        A target with an area for a ring (:mod:`seedbed.flow.fpga.ecp5.ring_placement`).
    at
        Column and row of the corner tile; by default the target's.
    out
        The output file: the design with a ``BEL`` attribute on each of these cells.

    Raises ``ValueError`` for a file that is no such design, if no lanes are found, and if a site
    is assigned to another cell already.
    """
    area = targets.find(target).ring
    if area is None:
        known = ", ".join(t.name for t in targets.TARGETS.values() if t.ring)
        raise ValueError(f"target must be one of {known}, which have a floorplan, not {target!r}")
    if at is not None:
        area = ring_placement.Area(*at, columns=area.columns, rows=area.rows)
    design, module = _read(netlist)
    places = ring_placement.arrange(module, area, instance)
    if not places:
        raise ValueError(
            f"{netlist}: no lanes of a urng_array are found at {instance!r}. It must be serial, "
            "with leap 1 and 63 lanes at most, and the design flat, as synth_ecp5 leaves it"
        )
    cells = module["cells"]
    taken = {cell["attributes"].get("BEL"): name for name, cell in cells.items()}
    for name, site in places.items():
        if taken.get(site, name) != name:
            raise ValueError(
                f"{netlist}: {site} is the site of {taken[site]}: choose another corner"
            )
        cells[name]["attributes"]["BEL"] = site
    write_atomic(out, json.dumps(design, indent=1))
    return len(places)


def _read(netlist: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a design and its top module."""
    try:
        design = json.loads(netlist.read_text())
        top = top_module(design)
        assert {"cells", "netnames"} <= set(top)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError) as problem:
        raise ValueError(f"{netlist} is not a mapped design of yosys's write_json") from problem
    return design, top
