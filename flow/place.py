"""From a mapped core to MHz: placed and routed, by the tools' own timing."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from seedbed.flow import floorplan, lane_ring, place_harness, targets
from seedbed.flow.cache import memo
from seedbed.flow.files import write_atomic
from seedbed.flow.synth import Progress, complete, digest, keep, map_core, tell, yosys
from seedbed.sim import tools
from seedbed.sim.checksum import intact

__all__ = ["place", "require_ready"]

HARNESS = "seedbed_harness"
#: Asked of the placer, in MHz: more than any core reaches, so that it never stops trying.
ASKED = 400
#: What an input called ready comes from.
READY = ("register", "logic")
#: From so many cells on, a target's arguments for large designs are used.
LARGE = 30_000
#: In a second routing of a large design lines that are late are taken apart and routed again. It is
#: asked for so much more than the first one reached: at 400 MHz every line is late, and none stays.
MORE = 1.2
AGAIN = ("--tmg-ripup",)
ROUTE = ("--no-pack", "--no-place")
_FREQUENCY = re.compile(r'("target_freq": ")\d+')

# The harness is mapped around a black box, so that what is placed is the very netlist counted.
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
    """Return the clock frequency that ``top`` of ``verilog`` reaches on ``target``, in MHz.

    The mapped core is placed and routed inside a harness (:mod:`seedbed.flow.place_harness`) with
    the placer's seeds 1 .. ``seeds``, ``ready`` as it says, and with the core's floorplan, where it
    has one, or without. Returns ``median``, ``min``, ``max``, ``seeds`` and ``mhz``
    (a value a seed, the tool's own), ``critical`` (the slowest path of the median seed: start, end
    and which part of it is routing), ``harness`` (true), ``device`` and ``tools``; or ``None``
    where no open place and route gives one. A large design is routed twice, and the faster one
    counts. Results are kept in ``build`` and found again. Raises ``ValueError`` for less than one
    seed, and as :func:`map_core`.
    """
    chosen = targets.find(target)
    require_ready(ready)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise ValueError(f"seeds must be an integer of 1 or more, not {seeds!r}")
    if chosen.place is None:
        return None
    tools.find(chosen.place)
    versions = {"yosys": tools.version("YOSYS"), chosen.place.lower(): tools.version(chosen.place)}
    folder = map_core(verilog, top, target=target, build=build, progress=progress)
    module = json.loads((folder / "mapped.json").read_text())["modules"][top]
    ff = re.compile(chosen.ff)
    text = place_harness.wrap(
        top,
        module,
        name=HARNESS,
        is_register=lambda cell: ff.fullmatch(cell) is not None,
        ready=ready,
    )
    script = _WRAP.format(top=top, name=HARNESS, synth=chosen.synth)
    arguments = [*chosen.device, "--freq", str(ASKED), "--timing-allow-fail", "-q"]
    key = {
        "mapped": digest((folder / "mapped.il").read_bytes()),
        "harness": digest(text),
        "script": script,
        "arguments": arguments,
        "tools": versions,
    }
    places = {}
    large = bool(chosen.large) and len(module["cells"]) >= LARGE
    if large:
        arguments += chosen.large
        if chosen.columns and floorplanned:
            places = floorplan.arrange(module, chosen.columns)
        # Two calls of the tool, see `_placed`.
        key |= {"pins": chosen.pins, "places": places, "steps": 2}
    elif floorplanned and chosen.ring and (places := lane_ring.arrange(module, chosen.ring)):
        key |= {"places": places}

    # The same core may be placed in another way at the same time.
    here = folder / f"place-{digest(repr(key))[:16]}"

    def design() -> str:
        path = here / "design.json"
        if not intact(path):
            write_atomic(here / "harness.v", text)
            yosys(here, "wrap", script)
            complete(here / "design.part")
            if places:
                _arrange(here / "design.part", places)
            keep(here, "design.part", path.name)
        return path.name

    def run(seed: int) -> dict[str, Any]:
        name = design()
        tell(progress, f"placing {top} on {target}, seed {seed} of {seeds}")
        if large:
            placed = _placed(chosen, arguments, here, name, seed)
            files = ["--json", placed, *ROUTE, "--log", f"route-{seed}.log"]
        else:
            files = ["--json", name, "--log", f"place-{seed}.log"]
        return _run(chosen, [*arguments, *files], here, seed)

    def again(seed: int, asked: int) -> dict[str, Any]:
        placed = _placed(chosen, arguments, here, design(), seed)
        tell(progress, f"routing {top} on {target} for {asked} MHz, seed {seed} of {seeds}")
        with _asked(here / placed, asked) as name:
            files = ["--json", name, *ROUTE, *AGAIN, "--log", f"again-{seed}.log"]
            return _run(chosen, [*arguments, *files], here, seed)

    results = []
    for seed in range(1, seeds + 1):
        place_key = {**key, "seed": seed}
        found = memo(build / "cache", "place", place_key, lambda seed=seed: run(seed))
        if large:
            asked = round(MORE * found["mhz"])
            route_key = {**place_key, "again": AGAIN, "asked": asked}
            second = memo(
                build / "cache", "route", route_key, lambda seed=seed, mhz=asked: again(seed, mhz)
            )
            found = max(found, second, key=lambda result: result["mhz"])
        results.append(found)
    mhz = [result["mhz"] for result in results]
    middle = min(results, key=lambda result: abs(result["mhz"] - median(mhz)))
    return {
        "median": median(mhz),
        "min": min(mhz),
        "max": max(mhz),
        "seeds": list(range(1, seeds + 1)),
        "mhz": mhz,
        "critical": middle["critical"],
        "harness": True,
        "device": " ".join(chosen.device),
        "tools": versions,
    }


def require_ready(ready: str) -> None:
    """Refuse what is not in :data:`READY`, with ``ValueError``."""
    if ready not in READY:
        raise ValueError(f"ready must be one of {', '.join(READY)}, not {ready!r}")


def _run(target: targets.Target, arguments: list[str], folder: Path, seed: int) -> dict[str, Any]:
    """Run the tool in ``folder`` to a timing report, and return what it says."""
    report = folder / f"report-{seed}.json"
    with suppress(FileNotFoundError):
        report.unlink()
    assert target.place is not None
    files = ["--report", report.name, "--seed", str(seed)]
    tools.run(target.place, *arguments, *files, cwd=folder)
    try:
        return _report(json.loads(report.read_text()))
    except (OSError, ValueError) as problem:
        raise RuntimeError(f"{report} is truncated: is the disk full?") from problem


def _placed(
    target: targets.Target, arguments: list[str], folder: Path, design: str, seed: int
) -> str:
    """Place a large design, and return the name of the file that has it.

    Routed in a second call, so that a placement is not lost with a routing that is stopped.
    Router 2 ended so with LeNet-5's fine-tuning core, and did not in a call that had placed it.
    """
    name = f"placed-{seed}-{design}"
    if not intact(folder / name):
        write_atomic(folder / "pins.lpf", target.pins)
        files = ["--json", design, "--seed", str(seed), "--log", f"place-{seed}.log"]
        files += ["--lpf", "pins.lpf", "--lpf-allow-unconstrained"]
        files += ["--no-route", "--write", f"placed-{seed}.part"]
        assert target.place is not None
        tools.run(target.place, *arguments, *files, cwd=folder)
        complete(folder / f"placed-{seed}.part")
        keep(folder, f"placed-{seed}.part", name)
    return name


@contextmanager
def _asked(placed: Path, mhz: int) -> Iterator[str]:
    """Give the name of a copy of a placed design that asks for another frequency.

    The tool takes the one that stands in the file, whatever its command says.
    """
    copy = placed.with_name(f"asked-{placed.name}")
    text, found = _FREQUENCY.subn(rf"\g<1>{mhz}000000", placed.read_text(), count=1)
    if not found:
        raise RuntimeError(f"no frequency is asked for in {placed}")
    try:
        copy.write_text(text)
        yield copy.name
    finally:
        copy.unlink(missing_ok=True)


def _arrange(path: Path, places: dict[str, str]) -> None:
    """Fix the sites of the core's cells in a design."""
    design = json.loads(path.read_text())
    cells = design["modules"][HARNESS]["cells"]
    for name, site in places.items():
        cells[f"{place_harness.INSTANCE}.{name}"]["attributes"]["BEL"] = site
    path.write_text(json.dumps(design))


def _report(report: dict[str, Any]) -> dict[str, Any]:
    """Return ``mhz`` of the one clock of nextpnr's report, and its critical path in short."""
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
