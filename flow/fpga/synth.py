"""From emitted Verilog to LUT, FF, BRAM and DSP: yosys's own figures."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from seedbed.flow.cache import code, memo
from seedbed.flow.files import write_atomic
from seedbed.flow.fpga import targets
from seedbed.flow.fpga.ecp5 import multiplier_registers
from seedbed.sim import tools
from seedbed.sim.checksum import intact, record

__all__ = ["Progress", "complete", "digest", "keep", "map_core", "synthesize", "tell", "yosys"]

Progress = Callable[[str], None] | None

# yosys's command for the family, and names for the netlist that are plain identifiers, the same in
# every file that is written of the mapped core.
_MAP = """\
read_verilog core.v
{keep}{synth}
{dissolve}opt_clean
rename -enumerate -pattern net_% w:$*
rename -unescape w:*
{write}"""

# Where a target takes seconds to read what it knows of memories: a core without any does without.
_LOOK = """\
read_verilog core.v
proc
tee -q -o memories.part select -count t:$mem*
"""
_WITHOUT = """\
{synth} -top {top} -run begin:{memories}
select -assert-none t:$mem*
{synth} -run {behind}:"""

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

#: The files of a mapped core: the name under which yosys writes each, and its last line.
MAPPED = {
    "netlist.v": ("netlist.part", "endmodule"),
    "mapped.json": ("mapped.part", "}"),
    "mapped.il": ("rtlil.part", "end"),
    "stat.json": ("stat.part", "}"),
}

# A module that stands this often in a core is mapped once, and dissolved afterwards.
_MANY = 256
_CELL = re.compile(rb"^  \\?(\S+) +\\?\S+ \($", re.MULTILINE)
_KEEP = "setattr -mod -set keep_hierarchy 1 {name}\n"
_DISSOLVE = "setattr -mod -unset keep_hierarchy {name}\n"


def digest(text: str | bytes) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def tell(progress: Progress, text: str) -> None:
    """Say what is being done, to whoever wants to know."""
    if progress is not None:
        progress(text)


def yosys(folder: Path, stem: str, script: str) -> None:
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


def _scripts(verilog: bytes, top: str, target: str) -> list[str]:
    """Return yosys's script that maps ``top`` of a Verilog text to ``target``.

    Behind it, for a target whose memories take long to read, that for a core without any.
    """
    chosen = targets.find(target)
    used = Counter(_CELL.findall(verilog))
    many = [name.decode() for name, times in used.items() if times >= _MANY]
    ways = [f"{chosen.synth} -top {top}"]
    if chosen.memories:
        memories, behind = chosen.memories
        ways.append(_WITHOUT.format(synth=chosen.synth, top=top, memories=memories, behind=behind))
    return [
        _MAP.format(
            synth=way,
            keep="".join(_KEEP.format(name=name) for name in many),
            write=_WRITE.format(top=top),
            dissolve="".join(_DISSOLVE.format(name=name) for name in many)
            + "flatten\n" * bool(many),
        )
        for way in ways
    ]


def _map(folder: Path, scripts: list[str]) -> None:
    """Run the one of :func:`_scripts` that fits the core."""
    chosen, *without = scripts
    if without:
        yosys(folder, "look", _LOOK)
        if (folder / "memories.part").read_text().startswith("0 "):
            (chosen,) = without
        (folder / "memories.part").unlink()
    yosys(folder, "map", chosen)


def _again(top: str, target: str) -> str:
    """Return yosys's script for a netlist of multipliers with registers, if the target has them."""
    models = targets.find(target).models
    return _AGAIN.format(top=top, models=models, write=_WRITE.format(top=top)) if models else ""


def _pack(folder: Path, top: str, script: str) -> None:
    """Move registers into multipliers, and write the netlist that this gives."""
    complete(folder / "mapped.part")
    text = (folder / "mapped.part").read_text()
    if multiplier_registers.MULTIPLIER not in text:
        return
    design = json.loads(text)
    if multiplier_registers.pack(design["modules"][top]):
        (folder / "packed.json").write_text(json.dumps(design))
        yosys(folder, "pack", script)


def complete(path: Path, end: str = "}") -> None:
    """Raise ``RuntimeError`` if the last line of a tool's output file is not ``end``.

    On a full disk the tools truncate the file and report success.
    """
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 64, 0))
        if file.read().rstrip().splitlines()[-1:] != [end.encode()]:
            raise RuntimeError(f"{path} is truncated: is the disk full?")


def keep(folder: Path, part: str, name: str) -> None:
    """Give a complete file its name, and record its checksum."""
    os.replace(folder / part, folder / name)
    record(folder / name)


def map_core(
    verilog: Path, top: str, *, target: str, build: Path, progress: Progress = None
) -> Path:
    """Map ``top`` of ``verilog`` to ``target``; return the folder with what yosys wrote.

    It holds ``stat.json``, ``mapped.json``, ``mapped.il`` and ``netlist.v``, of the core alone:
    without pads and clock buffers, with registers in the multipliers where a target has such
    (:mod:`seedbed.flow.fpga.ecp5.multiplier_registers`). There is a folder below ``build`` for each
    text of the Verilog, target and version of yosys; one that is there already is used, if it is
    intact. Raises :class:`targets.UnknownTarget`, :class:`tools.ToolMissing`, ``OSError``, or
    ``RuntimeError`` where yosys fails.
    """
    text = verilog.read_bytes()
    scripts, again = _scripts(text, top, target), _again(top, target)
    name = digest(text + f"{tools.version('YOSYS')}\n{''.join(scripts)}{again}".encode())
    folder = build / f"{top}-{target}-{name[:16]}"
    if not all(intact(folder / name) for name in MAPPED):
        tell(progress, f"synthesizing {top} for {target}")
        write_atomic(folder / "core.v", text)
        _map(folder, scripts)
        if again:
            _pack(folder, top, again)
        for part, end in MAPPED.values():
            complete(folder / part, end)
        for name, (part, _) in MAPPED.items():
            keep(folder, part, name)
    return folder


def synthesize(
    verilog: Path, top: str, *, target: str, build: Path, progress: Progress = None
) -> dict[str, Any]:
    """Return what ``top`` of ``verilog`` occupies on ``target``, as yosys maps it.

    ``lut`` counts every look-up table, with those that hold bits and those of carry chains
    (:mod:`seedbed.flow.fpga.targets`). ``lut_carry`` counts the look-up tables of carry chains that
    are no cells of the netlist (:mod:`seedbed.flow.fpga.carries`). ``ff``, ``bram`` and ``dsp``
    count cells; ``cells`` is the number of each cell type, as yosys's ``stat`` gives it; ``tools``
    is the version of yosys; ``command`` is yosys's command. Results are kept in ``build``. Raises
    as :func:`map_core`.
    """
    chosen = targets.find(target)
    key = {
        "verilog": digest(verilog.read_bytes()),
        "top": top,
        "script": "".join(_scripts(verilog.read_bytes(), top, target)) + _again(top, target),
        "tables": [dict(chosen.lut), chosen.ff, chosen.bram, chosen.dsp, chosen.free],
        "carries": digest(code(chosen.carries.__module__)),
        "yosys": tools.version("YOSYS"),
    }

    def compute() -> dict[str, Any]:
        folder = map_core(verilog, top, target=target, build=build, progress=progress)
        # Flattened: the top module is all there is.
        modules = json.loads((folder / "stat.json").read_text())["modules"]
        cells = modules[f"\\{top}"].get("num_cells_by_type", {})
        cells = {cell: n for cell, n in cells.items() if cell != "$scopeinfo"}
        counted = chosen.count(cells)
        netlist = json.loads((folder / "mapped.json").read_text())["modules"][top]
        taken = chosen.carries(netlist)
        return {
            **counted,
            "lut": counted["lut"] + taken,
            "lut_carry": taken,
            "cells": cells,
            "tools": {"yosys": key["yosys"]},
            "command": chosen.synth,
        }

    return memo(build / "cache", "synth", key, compute)
