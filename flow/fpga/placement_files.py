"""Writes down a placement: the design, the site of every cell, and the command that routes it."""

import json
import shlex
from pathlib import Path
from typing import Any

from seedbed.flow.files import write_atomic
from seedbed.flow.fpga import harness, nextpnr
from seedbed.flow.fpga.place import AGAIN, ASKED, Placement
from seedbed.sim import tools

__all__ = ["write"]

_SCRIPT = """\
#!/bin/sh
# {top} on {title}, seed {seed}: {mhz} MHz.
# {names}
set -e
cd "$(dirname "$0")"
{commands}
"""


def write(placement: Placement, seed: int, *, of: int, folder: Path) -> list[Path]:
    """Write the placement of one of so many seeds, which has a result, to ``folder``.

    Returns the paths of four files. ``harness.v``: what the core is in. ``design.json``: the core
    in its harness, mapped, with the sites of its floorplan, if there is one; of a large core also
    with all others. ``sites.json``: the site of each of the core's own cells, by its
    name in that design below ``core``. ``place.sh``: the command that reaches the
    figure again. A core that is not large is placed once more. Raises ``RuntimeError`` where that
    does not give the figure again.
    """
    target, here = placement.target, placement.folder
    assert target.place is not None
    result = placement.result(seed, of=of)
    options = [*placement.arguments, "--seed", str(seed), "--report", "report.json"]
    design = here / placement.design()
    files = {"harness.v": (here / "harness.v").read_text()}
    if placement.large:
        design = here / placement.placed(seed)
        asked = result["asked"]
        options += nextpnr.ROUTE if asked == ASKED else (*nextpnr.ROUTE, *AGAIN)
        with nextpnr.asked(design, asked) as copy:
            files["design.json"] = (here / copy).read_text()
        sites = _sites(json.loads(files["design.json"]))
    else:
        written = here / f"sites-{seed}.json"
        again = ["--json", design.name, "--log", f"sites-{seed}.log", "--write", written.name]
        found = nextpnr.run(target, [*placement.arguments, *again], here, seed)
        if found["mhz"] != result["mhz"]:
            both = f"{found['mhz']} MHz, and gave {result['mhz']} MHz before"
            raise RuntimeError(f"seed {seed} of {placement.top} gives {both}")
        files["design.json"] = design.read_text()
        sites = _sites(json.loads(written.read_text()))
        written.unlink()
    files["sites.json"] = json.dumps(sites, indent=1) + "\n"
    command = [Path(tools.find(target.place)).name, "--json", "design.json", *options]
    files["place.sh"] = _SCRIPT.format(
        top=placement.top,
        title=target.title,
        seed=seed,
        mhz=result["mhz"],
        names=", ".join(placement.tools.values()),
        commands=shlex.join(command),
    )
    return [write_atomic(folder / name, text) for name, text in files.items()]


def _sites(design: dict[str, Any]) -> dict[str, str]:
    """Return the sites of the core's cells in a placed design."""
    start = f"{harness.INSTANCE}."
    # The tool has a name of its own for the module.
    ((_, module),) = design["modules"].items()
    cells = module["cells"]
    found = {name: cell["attributes"].get("NEXTPNR_BEL") for name, cell in cells.items()}
    return {name.removeprefix(start): bel for name, bel in found.items() if name.startswith(start)}
