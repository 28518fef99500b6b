"""Synthesis with yosys: resources of the emitted Verilog."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from seedbed.flow.fpga import targets
from seedbed.flow.fpga.ecp5 import multiplier_registers
from seedbed.flow.run.cache import code, memo
from seedbed.flow.run.files import locked, write_atomic
from seedbed.sim import tools
from seedbed.sim.verilog.checksum import intact, record

__all__ = [
    "INSTANCE",
    "KEEP",
    "Progress",
    "complete",
    "digest",
    "keep",
    "map_core",
    "notify",
    "synthesize",
    "top_module",
    "yosys",
]

Progress = Callable[[str], None] | None

# yosys's command for the family. Names become plain identifiers, the same in all files of the
# mapped core.
_MAP = """\
read_verilog core.v
{keep}{synth}
{dissolve}opt_clean
rename -enumerate -pattern net_% w:$*
rename -unescape w:*
{write}"""

# A target whose memory libraries take seconds to load: skipped for a core without memories.
_COUNT_MEMORIES = """\
read_verilog core.v
proc
tee -q -o memories.part select -count t:$mem*
"""
_NO_MEMORIES = """\
{synth} -top {top} -run begin:{memories}
select -assert-none t:$mem*
{synth} -run {following}:"""

_WRITE = """\
tee -q -o stat.part stat -json
select {top}
write_json -selected mapped.part
write_rtlil -selected rtlil.part
write_verilog -selected -noattr -norename netlist.part
"""

# Reads the netlist back after registers were moved into multipliers.
_READ_BACK = """\
read_verilog -lib {models}
read_json packed.json
hierarchy -check -top {top}
opt_clean
{write}"""

#: Files of a mapped core: the temporary name of each, and its last line.
MAPPED = {
    "netlist.v": ("netlist.part", "endmodule"),
    "mapped.json": ("mapped.part", "}"),
    "mapped.il": ("rtlil.part", "end"),
    "stat.json": ("stat.part", "}"),
}

# A module with this many instances is mapped once and flattened afterwards.
_MANY = 256
#: The type of an instance in Verilog of the emitter.
INSTANCE = re.compile(rb"^  \\?(\S+) +\\?\S+ \($", re.MULTILINE)
#: Keeps a module apart, until its mapping ends.
KEEP = "setattr -mod -set keep_hierarchy 1 {name}\n"
_DISSOLVE = "setattr -mod -unset keep_hierarchy {name}\n"


def digest(text: str | bytes) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def notify(progress: Progress, text: str) -> None:
    """Call the progress callback, if there is one."""
    if progress is not None:
        progress(text)


def yosys(folder: Path, stem: str, script: str) -> None:
    """Run ``script`` in ``folder``; the output files are called ``NAME.part``.

    Paths are relative, because a yosys under WASI has a separate /tmp. It also loses its standard
    output when ABC returns, so that errors are read from the log.
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


def _scripts(verilog: bytes, top: str, target: str, logic: bool = False) -> list[str]:
    """Return the yosys scripts that map ``top`` of a Verilog text to ``target``.

    A target with slow memory libraries has a second script, for cores without memories. With
    ``logic``, there are neither block memories nor multipliers.
    """
    found = targets.find(target)
    if logic:
        found = replace(found, synth=f"{found.synth} -nobram -nodsp")
    used = Counter(INSTANCE.findall(verilog))
    repeated = [name.decode() for name, times in used.items() if times >= _MANY]
    commands = [f"{found.synth_core} -top {top}"]
    if found.memories:
        memories, following = found.memories
        commands.append(
            _NO_MEMORIES.format(
                synth=found.synth_core, top=top, memories=memories, following=following
            )
        )
    return [
        _MAP.format(
            synth=command,
            keep="".join(KEEP.format(name=name) for name in repeated),
            write=_WRITE.format(top=top),
            dissolve="".join(_DISSOLVE.format(name=name) for name in repeated)
            + "flatten\n" * bool(repeated),
        )
        for command in commands
    ]


def _map(folder: Path, scripts: list[str]) -> None:
    """Run the script of :func:`_scripts` for a core with or without memories."""
    script, *no_memories = scripts
    if no_memories:
        yosys(folder, "memories", _COUNT_MEMORIES)
        if (folder / "memories.part").read_text().startswith("0 "):
            (script,) = no_memories
        (folder / "memories.part").unlink()
    yosys(folder, "map", script)


def _read_back_script(top: str, target: str) -> str:
    """Return the yosys script that reads back a packed netlist, "" if the target needs none."""
    models = targets.find(target).models
    return _READ_BACK.format(top=top, models=models, write=_WRITE.format(top=top)) if models else ""


def _pack(folder: Path, top: str, script: str) -> None:
    """Move registers into multipliers, and write the packed netlist."""
    complete(folder / "mapped.part")
    text = (folder / "mapped.part").read_text()
    if multiplier_registers.MULTIPLIER not in text:
        return
    design = json.loads(text)
    if multiplier_registers.pack(design["modules"][top]):
        (folder / "packed.json").write_text(json.dumps(design))
        yosys(folder, "pack", script)


def top_module(design: dict[str, Any]) -> dict[str, Any]:
    """Return the top module of yosys's JSON; raise ``ValueError`` unless there is one."""
    modules = design["modules"].values()
    (top,) = (module for module in modules if int(module["attributes"].get("top", "0"), 2))
    found: dict[str, Any] = top
    return found


def complete(path: Path, end: str = "}") -> None:
    """Raise ``RuntimeError`` if the last line of a tool's output file is not ``end``.

    On a full disk, the tools truncate the file and report success.
    """
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 64, 0))
        if file.read().rstrip().splitlines()[-1:] != [end.encode()]:
            raise RuntimeError(f"{path} is truncated: is the disk full?")


def keep(folder: Path, part: str, name: str) -> None:
    """Rename a complete output file, and record its checksum."""
    os.replace(folder / part, folder / name)
    record(folder / name)


def map_core(
    verilog: Path,
    top: str,
    *,
    target: str,
    build: Path,
    logic: bool = False,
    progress: Progress = None,
) -> Path:
    """Map ``top`` of ``verilog`` to ``target``; return the folder of the output files.

    The folder holds ``stat.json``, ``mapped.json``, ``mapped.il`` and ``netlist.v`` of the core,
    without pads and clock buffers, and with registers in the multipliers of targets that have them
    (:mod:`seedbed.flow.fpga.ecp5.multiplier_registers`). ``build`` has one folder per Verilog text,
    target and yosys version; an existing intact folder is used. With ``logic``, multiplications and
    block memories are mapped to LUTs, flip-flops and LUTs used as memory. Raises
    :class:`targets.UnknownTarget`, :class:`tools.ToolMissing`, ``OSError``, or ``RuntimeError`` if
    yosys fails.
    """
    text = verilog.read_bytes()
    scripts, read_back = _scripts(text, top, target, logic), _read_back_script(top, target)
    name = digest(text + f"{tools.version('YOSYS')}\n{''.join(scripts)}{read_back}".encode())
    folder = build / f"{top}-{target}-{name[:16]}"
    # Two placements of a core may start at the same time.
    with locked(folder):
        if not all(intact(folder / name) for name in MAPPED):
            notify(progress, f"synthesizing {top} for {target}")
            write_atomic(folder / "core.v", text)
            _map(folder, scripts)
            if read_back:
                _pack(folder, top, read_back)
            for part, end in MAPPED.values():
                complete(folder / part, end)
            for name, (part, _) in MAPPED.items():
                keep(folder, part, name)
    return folder


def synthesize(
    verilog: Path, top: str, *, target: str, build: Path, progress: Progress = None
) -> dict[str, Any]:
    """Return the resources of ``top`` of ``verilog`` on ``target``, as mapped by yosys.

    ``lut`` counts all LUTs, with those used as memory and those of carry chains
    (:mod:`seedbed.flow.fpga.targets`). ``lut_carry`` counts the route-through LUTs of carry chains,
    which are not cells of the netlist (:mod:`seedbed.flow.fpga.carries`). ``ff``, ``bram`` and
    ``dsp`` count cells; ``cells`` is the number of cells by type, as in yosys's ``stat``; ``tools``
    is the version of yosys; ``command`` is yosys's command. Results are cached in ``build``. Raises
    as :func:`map_core`.
    """
    found = targets.find(target)
    key = {
        "verilog": digest(verilog.read_bytes()),
        "top": top,
        "script": "".join(_scripts(verilog.read_bytes(), top, target))
        + _read_back_script(top, target),
        "tables": [dict(found.lut), found.ff, found.bram, found.dsp, found.uncounted],
        "carries": digest(code(found.route_throughs.__module__)),
        "yosys": tools.version("YOSYS"),
    }

    def compute() -> dict[str, Any]:
        folder = map_core(verilog, top, target=target, build=build, progress=progress)
        # Flattened: the top module is the only one.
        modules = json.loads((folder / "stat.json").read_text())["modules"]
        cells = modules[f"\\{top}"].get("num_cells_by_type", {})
        cells = {cell: n for cell, n in cells.items() if cell != "$scopeinfo"}
        counted = found.count(cells)
        netlist = json.loads((folder / "mapped.json").read_text())["modules"][top]
        through = found.route_throughs(netlist)
        return {
            **counted,
            "lut": counted["lut"] + through,
            "lut_carry": through,
            "cells": cells,
            "tools": {"yosys": key["yosys"]},
            "command": found.synth_core,
        }

    return memo(build / "cache", "synth", key, compute)
