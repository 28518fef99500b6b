"""Files that reproduce a placement: the design, the sites of the cells, and the command."""

import json
import shlex
from pathlib import Path
from typing import Any

from seedbed.flow.fpga import harness, nextpnr
from seedbed.flow.fpga.place import TARGET_MHZ, Placement
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools

__all__ = ["NAMES", "write"]

#: The files of a placement.
NAMES = ("harness.v", "design.json", "sites.json", "place.sh")

_SCRIPT = """\
#!/bin/sh
# {top} on {title}, seed {seed}: {mhz} MHz.
# {names}
set -e
cd "$(dirname "$0")"
{commands}
"""


def write(placement: Placement, seed: int, *, of: int, folder: Path) -> list[Path]:
    """Write the placement of ``seed``, one of ``of`` seeds with results, to ``folder``.

    Returns the paths of four files:

    - ``harness.v``: the harness of the core.
    - ``design.json``: the mapped core in its harness, with the sites of its floorplan, if any. For
      a large core, it has the sites of all cells.
    - ``sites.json``: the site of each cell of the core, by its name below ``core``.
    - ``place.sh``: the command that reproduces the frequency.

    A core that is not large is placed again. Raises ``RuntimeError`` if the frequency differs.
    """
    here, job = placement.folder, placement.job(seed, of=of)
    result = job.result()
    options = [*job.words, "--seed", str(seed), "--report", "report.json"]
    design = here / placement.design()
    files = {"harness.v": (here / "harness.v").read_text()}
    if placement.large:
        job.placement()
        asked = result["asked"]
        options += (*nextpnr.ROUTE, *(() if asked == TARGET_MHZ else nextpnr.RIP_UP))
        with nextpnr.with_target_frequency(job.placed, asked) as copy:
            files["design.json"] = (here / copy).read_text()
        sites = _sites(json.loads(files["design.json"]))
    else:
        written = here / f"sites-{seed}.json"
        again = ["--json", design.name, "--log", f"sites-{seed}.log", "--write", written.name]
        again += ["--report", f"report-{seed}.json", "--seed", str(seed)]
        found = job.read(nextpnr.call(job.tool, [*job.words, *again], here))
        if found["mhz"] != result["mhz"]:
            both = f"{found['mhz']} MHz, and reached {result['mhz']} MHz before"
            raise RuntimeError(f"seed {seed} of {placement.top} reaches {both}")
        files["design.json"] = design.read_text()
        sites = _sites(json.loads(written.read_text()))
        written.unlink()
    files["sites.json"] = json.dumps(sites, indent=1) + "\n"
    command = [Path(tools.find(job.tool)).name, "--json", "design.json", *options]
    files["place.sh"] = _SCRIPT.format(
        top=placement.top,
        title=placement.target.title,
        seed=seed,
        mhz=result["mhz"],
        names=", ".join(placement.tools.values()),
        commands=shlex.join(command),
    )
    return [write_atomic(folder / name, files[name]) for name in NAMES]


def _sites(design: dict[str, Any]) -> dict[str, str]:
    """Return the sites of the core's cells in a placed design."""
    start = f"{harness.INSTANCE}."
    # The tool renames the module.
    ((_, module),) = design["modules"].items()
    cells = module["cells"]
    found = {name: cell["attributes"].get("NEXTPNR_BEL") for name, cell in cells.items()}
    return {name.removeprefix(start): bel for name, bel in found.items() if name.startswith(start)}
