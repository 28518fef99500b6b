"""Place and route of a mapped core: Fmax by the tools' static timing analysis."""

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

from seedbed.flow.fpga import harness, targets
from seedbed.flow.fpga.ecp5 import floorplan, linear_placement, ring_placement
from seedbed.flow.fpga.nextpnr import RIP_UP, ROUTE, Job
from seedbed.flow.fpga.synth import Progress, complete, digest, keep, map_core, yosys
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools
from seedbed.sim.verilog.checksum import intact

__all__ = ["Placement", "place", "require_ready"]

HARNESS = "seedbed_harness"
#: Target frequency in MHz: above the Fmax of any core, so that the tool keeps optimising.
TARGET_MHZ = 400
#: Drivers of an input named ready.
READY = ("register", "logic")
#: The second routing of a large design rips up nets that miss their timing. Its target frequency is
#: the Fmax of the first routing times this factor: at 400 MHz, every net would be ripped up.
REROUTE_FACTOR = 1.2

# The core is a black box while the harness is mapped, so that the counted netlist is placed.
_WRAP = """\
read_verilog harness.v
{synth} -top {name}
delete ={top}
read_rtlil ../mapped.il
hierarchy -check -top {name}
flatten
opt_clean
write_json design.part
"""


class Placement:
    """A mapped core in its harness, to be placed and routed with one seed or several.

    Parameters
    ----------
    verilog, top
        A file of Verilog, and the core in it.
    target
        A target with a place and route tool.
    build
        Folder of cached results.
    ready
        Driver of inputs named ready, see :func:`harness.wrap`.
    floorplanned
        Whether the core's floorplan, if any, is used.
    progress
        Called with a description of each step.

    Raises as :func:`map_core`.
    """

    def __init__(
        self,
        verilog: Path,
        top: str,
        *,
        target: targets.Target,
        build: Path,
        ready: str = "register",
        floorplanned: bool = True,
        progress: Progress = None,
    ):
        tools.find(target.place)
        self.top, self.target, self.progress = top, target, progress
        self.cache = build / "cache"
        self.tools = {
            "yosys": tools.version("YOSYS"),
            target.place.lower(): tools.version(target.place),
        }
        mapped = map_core(verilog, top, target=target.name, build=build, progress=progress)
        module = json.loads((mapped / "mapped.json").read_text())["modules"][top]
        ff = re.compile(target.ff)
        self._harness = harness.wrap(
            top,
            module,
            name=HARNESS,
            is_register=lambda cell: ff.fullmatch(cell) is not None,
            ready=ready,
        )
        self._script = _WRAP.format(top=top, name=HARNESS, synth=target.synth_core)
        self.large = target.is_large(module)
        self.arguments = (*target.device, "--freq", str(TARGET_MHZ), "--timing-allow-fail", "-q")
        self.arguments += target.large() if self.large else ()
        self.key: dict[str, Any] = {
            "mapped": digest((mapped / "mapped.il").read_bytes()),
            "harness": digest(self._harness),
            "script": self._script,
            "arguments": self.arguments,
            "tools": self.tools,
        }
        self.places: dict[str, str] = {}
        if self.large:
            if target.columns and floorplanned:
                self.places = floorplan.arrange(module, target.columns)
            # Two calls of the tool, see `Job.placement`.
            self.key |= {"pins": target.pins, "places": self.places, "steps": 2}
        elif floorplanned and target.ring:
            self.places = ring_placement.arrange(module, target.ring)
            self.places = self.places or linear_placement.arrange(module, target.ring)
            if self.places:
                self.key |= {"places": self.places}
        # Other placements of the same core may run at the same time.
        self.folder = mapped / f"place-{digest(repr(self.key))[:16]}"

    def design(self) -> str:
        """Return the name of the design in ``folder``: core, harness and site constraints."""
        path = self.folder / "design.json"
        if self.large:
            write_atomic(self.folder / "pins.lpf", self.target.pins)
        if not intact(path):
            write_atomic(self.folder / "harness.v", self._harness)
            yosys(self.folder, "wrap", self._script)
            complete(self.folder / "design.part")
            if self.places:
                _arrange(self.folder / "design.part", self.places)
            keep(self.folder, "design.part", path.name)
        return path.name

    def measure(self, seeds: int) -> dict[str, Any]:
        """Return the Fmax of the core over the seeds 1 .. ``seeds``, in MHz.

        Keys: ``median``, ``min``, ``max``, ``seeds`` and ``mhz`` (one value per seed, by the tool),
        ``median_seed``, ``critical`` (critical path of that seed: start, end and share of routing
        delay), ``harness`` (true), ``device`` and ``tools``.
        """
        numbers = list(range(1, seeds + 1))
        results = [self.job(seed, of=seeds).result() for seed in numbers]
        mhz = [result["mhz"] for result in results]
        middle = min(range(seeds), key=lambda k: abs(mhz[k] - median(mhz)))
        return {
            "median": median(mhz),
            "min": min(mhz),
            "max": max(mhz),
            "seeds": numbers,
            "mhz": mhz,
            "median_seed": numbers[middle],
            "critical": results[middle]["critical"],
            "harness": True,
            "device": " ".join(self.target.device),
            "tools": self.tools,
        }

    def job(self, seed: int, *, of: int) -> Job:
        """Return the placement with a seed, one of ``of``: ``mhz`` and ``critical``."""

        def routing(log: str, *words: str) -> tuple[str, ...]:
            files = "--log", f"{log}-{seed}.log", "--report", f"report-{seed}.json"
            return *words, *files, "--seed", str(seed)

        files = "--log", f"place-{seed}.log", "--lpf", "pins.lpf", "--lpf-allow-unconstrained"
        write = "--no-route", "--write", f"placed-{seed}-design.json"
        return Job(
            title=f"{self.top} on {self.target.name}, seed {seed} of {of}",
            tool=self.target.place,
            words=self.arguments,
            folder=self.folder,
            design=self.design,
            cache=self.cache,
            key={**self.key, "seed": seed},
            mhz=TARGET_MHZ,
            read=_read,
            place=("--seed", str(seed), *files, *write) if self.large else (),
            route=routing("route", *ROUTE) if self.large else routing("place"),
            again=routing("again", *ROUTE, *RIP_UP),
            factor=REROUTE_FACTOR,
            progress=self.progress,
        )


def place(
    verilog: Path,
    top: str,
    *,
    target: str,
    seeds: int,
    build: Path,
    ready: str = "register",
    floorplanned: bool = True,
    progress: Progress = None,
) -> dict[str, Any] | None:
    """Return the result of :meth:`Placement.measure`, or ``None`` without an open tool.

    The core is ``top`` of the file ``verilog``; the other arguments are those of
    :class:`Placement`. Raises ``ValueError`` for less than one seed.
    """
    found = targets.find(target)
    require_ready(ready)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise ValueError(f"seeds must be an integer of 1 or more, not {seeds!r}")
    if not found.has_fmax:
        return None
    placement = Placement(
        verilog, top, target=found, build=build, ready=ready, floorplanned=floorplanned,
        progress=progress,
    )  # fmt: skip
    return placement.measure(seeds)


def require_ready(ready: str) -> None:
    """Raise ``ValueError`` for a value that is not in :data:`READY`."""
    if ready not in READY:
        raise ValueError(f"ready must be one of {', '.join(READY)}, not {ready!r}")


def _arrange(path: Path, places: dict[str, str]) -> None:
    """Assign sites to the core's cells in a design."""
    design = json.loads(path.read_text())
    cells = design["modules"][HARNESS]["cells"]
    for name, site in places.items():
        cells[f"{harness.INSTANCE}.{name}"]["attributes"]["BEL"] = site
    path.write_text(json.dumps(design))


def _read(report: dict[str, Any]) -> dict[str, Any]:
    """Return ``mhz`` of the only clock of nextpnr's report, and its critical path."""
    clocks = report["fmax"]
    if len(clocks) != 1:
        raise RuntimeError(f"expected one clock in the placer's report, not {len(clocks)}")
    (clock, fmax), *_ = clocks.items()
    path = next(
        p["path"]
        for p in report["critical_paths"]
        if p["from"].endswith(clock) and p["to"].endswith(clock)
    )
    total = sum(step["delay"] for step in path)
    routing = sum(step["delay"] for step in path if step["type"] == "routing")
    return {
        "mhz": round(fmax["achieved"], 1),
        "critical": {
            "from": path[0]["from"]["cell"],
            "to": path[-1]["to"]["cell"],
            "routing_share": round(routing / total, 2),
        },
    }
