"""From emitted Verilog to LUT, FF, BRAM, DSP and MHz: the tools' own figures."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from seedbed.flow import floorplan, multipliers, place_harness, targets
from seedbed.flow.cache import memo
from seedbed.flow.files import write_atomic
from seedbed.sim import tools

__all__ = ["COPIES", "map_core", "place", "synthesize"]

HARNESS = "seedbed_harness"
#: Asked of the placer, in MHz: more than any core reaches, so that it never stops trying.
ASKED = 400
#: From so many cells on, a target's arguments for large designs are used.
LARGE = 30_000

Progress = Callable[[str], None] | None

# Flattened, and with vectors taken apart before yosys's mapper sees them: read back from Verilog,
# names that stand for overlapping slices collide in it (yosys issue 4349). The new names are plain
# identifiers, the same in every file that is written of the mapped core.
_MAP = """\
read_verilog core.v
hierarchy -check -top {top}
proc
{copies}{keep}flatten
opt_clean -purge
splitnets
{synth} -top {top}
{dissolve}opt_clean -purge
rename -enumerate -pattern net_% w:$*
rename -unescape w:*
{write}"""

_WRITE = """\
tee -q -o stat.part stat -json
select {top}
write_json -selected mapped.part
write_rtlil -selected rtlil.part
write_verilog -selected -noattr -norename netlist.part
"""

# Read again, for what is not yosys's work.
_AGAIN = """\
read_verilog -lib {models}
read_json packed.json
hierarchy -check -top {top}
opt_clean
{write}"""

# A module that stands this often in a core is mapped once, and dissolved afterwards.
_MANY = 256
_CELL = re.compile(rb"^  \\?(\S+) +\\?\S+ \($", re.MULTILINE)
#: Registers that a core has several times, for what reads them in many places, stay several.
_MARKED = b"(* keep"
COPIES = "setattr -set keep 1 a:keep %ci1:+[Q] t:*dff* %i\n"
_KEEP = "setattr -mod -set keep_hierarchy 1 {name}\n"
_DISSOLVE = "setattr -mod -unset keep_hierarchy {name}\n"

# The harness is mapped around a black box, so that what is placed is the very netlist counted.
_WRAP = """\
read_verilog harness.v
{synth} -top {name}
delete ={top}
read_rtlil mapped.il
hierarchy -check -top {name}
flatten
opt_clean
write_json design.part
"""


def _hash(text: str | bytes) -> str:
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def _tell(progress: Progress, text: str) -> None:
    if progress is not None:
        progress(text)


def _yosys(folder: Path, stem: str, script: str) -> None:
    """Run ``script`` in ``folder``, then give what it wrote as ``NAME.part`` the names it is for.

    Paths are relative: a yosys under WASI sees a /tmp of its own. It also loses its standard output
    when ABC returns, so that the log is what tells of an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.ys").write_text(script)
    log = folder / f"{stem}.log"
    log.unlink(missing_ok=True)
    try:
        tools.run("YOSYS", "-q", "-l", log.name, "-s", f"{stem}.ys", cwd=folder)
    except tools.ToolMissing:
        raise
    except RuntimeError as problem:
        lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
        errors = [line for line in lines if "ERROR: " in line]
        if not errors:
            raise
        raise RuntimeError(f"yosys failed: {errors[-1]} (log: {log})") from problem


def _script(verilog: bytes, top: str, target: str) -> str:
    """Return yosys's script that maps ``top`` of a Verilog text to ``target``."""
    used = Counter(_CELL.findall(verilog))
    many = [name.decode() for name, times in used.items() if times >= _MANY]
    return _MAP.format(
        top=top,
        synth=targets.find(target).synth,
        copies=COPIES if _MARKED in verilog else "",
        keep="".join(_KEEP.format(name=name) for name in many),
        write=_WRITE.format(top=top),
        dissolve="".join(_DISSOLVE.format(name=name) for name in many) + "flatten\n" * bool(many),
    )


def _again(top: str, target: str) -> str:
    """Return yosys's script for a netlist of multipliers with registers, if the target has them."""
    models = targets.find(target).models
    return _AGAIN.format(top=top, models=models, write=_WRITE.format(top=top)) if models else ""


def _pack(folder: Path, top: str, script: str) -> None:
    """Move registers into multipliers, and write the netlist that this gives."""
    text = (folder / "mapped.part").read_text()
    if multipliers.MULTIPLIER not in text:
        return
    design = json.loads(text)
    if multipliers.pack(design["modules"][top]):
        (folder / "packed.json").write_text(json.dumps(design))
        _yosys(folder, "pack", script)


def _keep(folder: Path, part: str, name: str) -> None:
    os.replace(folder / part, folder / name)


def map_core(
    verilog: Path, top: str, *, target: str, build: Path, progress: Progress = None
) -> Path:
    """Map ``top`` of ``verilog`` to ``target``; return the folder with what yosys wrote.

    It holds ``stat.json``, ``mapped.json``, ``mapped.il`` and ``netlist.v``, of the core alone:
    without pads and clock buffers, with registers in the multipliers where a target has such
    (:mod:`seedbed.flow.multipliers`). There is a folder below ``build`` for each text of the
    Verilog, target and version of yosys; one that is there already is used. Raises
    :class:`targets.UnknownTarget`, :class:`tools.ToolMissing`, ``OSError``, or ``RuntimeError``
    where yosys fails.
    """
    text = verilog.read_bytes()
    script, again = _script(text, top, target), _again(top, target)
    digest = _hash(text + f"{tools.version('YOSYS')}\n{script}{again}".encode())
    folder = build / f"{top}-{target}-{digest[:16]}"
    if not (folder / "stat.json").is_file():
        _tell(progress, f"synthesizing {top} for {target}")
        write_atomic(folder / "core.v", text)
        _yosys(folder, "map", script)
        if again:
            _pack(folder, top, again)
        _keep(folder, "netlist.part", "netlist.v")
        _keep(folder, "mapped.part", "mapped.json")
        _keep(folder, "rtlil.part", "mapped.il")
        # The last one: that it is there says that the folder is complete.
        _keep(folder, "stat.part", "stat.json")
    return folder


def synthesize(
    verilog: Path, top: str, *, target: str, build: Path, progress: Progress = None
) -> dict[str, Any]:
    """Return what ``top`` of ``verilog`` occupies on ``target``, as yosys maps it.

    ``lut`` counts every look-up table, those in carry chains and those that hold bits included (see
    :mod:`seedbed.flow.targets`); ``ff``, ``bram`` and ``dsp`` count cells; ``cells`` is the number
    of each cell type, as yosys's ``stat`` gives it; ``tools`` the version of yosys; ``command``
    how yosys mapped it. Results are kept in ``build`` and found again. Raises as
    :func:`map_core`.
    """
    chosen = targets.find(target)
    key = {
        "verilog": _hash(verilog.read_bytes()),
        "top": top,
        "script": _script(verilog.read_bytes(), top, target) + _again(top, target),
        "tables": [dict(chosen.lut), chosen.ff, chosen.bram, chosen.dsp, chosen.free],
        "yosys": tools.version("YOSYS"),
    }

    def compute() -> dict[str, Any]:
        folder = map_core(verilog, top, target=target, build=build, progress=progress)
        # Flattened: the top module is all there is.
        modules = json.loads((folder / "stat.json").read_text())["modules"]
        cells = modules[f"\\{top}"].get("num_cells_by_type", {})
        cells = {cell: n for cell, n in cells.items() if cell != "$scopeinfo"}
        return {
            **chosen.count(cells),
            "cells": cells,
            "tools": {"yosys": key["yosys"]},
            "command": chosen.synth,
        }

    return memo(build / "cache", "synth", key, compute)


def place(
    verilog: Path, top: str, *, target: str, seeds: int, build: Path, progress: Progress = None
) -> dict[str, Any] | None:
    """Return the clock frequency that ``top`` of ``verilog`` reaches on ``target``, in MHz.

    The mapped core is placed and routed inside a harness (:mod:`seedbed.flow.place_harness`) with
    the placer's seeds 1 .. ``seeds``. Returns ``median``, ``min``, ``max``, ``seeds`` and ``mhz``
    (a value a seed, the tool's own), ``critical`` (the slowest path of the median seed: start, end
    and which part of it is routing), ``harness`` (true), ``device`` and ``tools``; or ``None``
    where no open place and route gives one. Results are kept in ``build`` and found again. Raises
    ``ValueError`` for less than one seed, and as :func:`map_core`.
    """
    chosen = targets.find(target)
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
        top, module, name=HARNESS, is_register=lambda cell: ff.fullmatch(cell) is not None
    )
    script = _WRAP.format(top=top, name=HARNESS, synth=chosen.synth)
    arguments = [*chosen.device, "--freq", str(ASKED), "--timing-allow-fail", "-q"]
    key = {
        "mapped": _hash((folder / "mapped.il").read_bytes()),
        "harness": _hash(text),
        "script": script,
        "arguments": arguments,
        "tools": versions,
    }
    places = {}
    if chosen.large and len(module["cells"]) >= LARGE:
        arguments += chosen.large
        if chosen.columns:
            places = floorplan.arrange(module, chosen.columns)
        # Two calls of the tool, see `_placed`.
        key |= {"pins": chosen.pins, "places": places, "steps": 2}

    def run(seed: int) -> dict[str, Any]:
        design = folder / f"design-{_hash(repr(key))[:16]}.json"
        if not design.is_file():
            write_atomic(folder / "harness.v", text)
            _yosys(folder, "wrap", script)
            if places:
                _arrange(folder / "design.part", places)
            _keep(folder, "design.part", design.name)
        _tell(progress, f"placing {top} on {target}, seed {seed} of {seeds}")
        report = folder / f"report-{seed}.json"
        with suppress(FileNotFoundError):
            report.unlink()
        files = ["--report", report.name, "--seed", str(seed)]
        if "pins" in key:
            placed = _placed(chosen, arguments, folder, design.name, seed)
            files += ["--json", placed, "--no-pack", "--no-place", "--log", f"route-{seed}.log"]
        else:
            files += ["--json", design.name, "--log", f"place-{seed}.log"]
        tools.run(chosen.place, *arguments, *files, cwd=folder)
        return _report(json.loads(report.read_text()))

    results = [
        memo(build / "cache", "place", {**key, "seed": seed}, lambda seed=seed: run(seed))
        for seed in range(1, seeds + 1)
    ]
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


def _placed(
    target: targets.Target, arguments: list[str], folder: Path, design: str, seed: int
) -> str:
    """Place a large design, and return the name of the file that has it.

    Routed in a second call, so that a placement is not lost with a routing that is stopped.
    Router 2 ended so with LeNet-5's fine-tuning core, and did not in a call that had placed it.
    """
    name = f"placed-{seed}-{design}"
    if not (folder / name).is_file():
        write_atomic(folder / "pins.lpf", target.pins)
        files = ["--json", design, "--seed", str(seed), "--log", f"place-{seed}.log"]
        files += ["--lpf", "pins.lpf", "--lpf-allow-unconstrained"]
        files += ["--no-route", "--write", f"placed-{seed}.part"]
        assert target.place is not None
        tools.run(target.place, *arguments, *files, cwd=folder)
        _keep(folder, f"placed-{seed}.part", name)
    return name


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
