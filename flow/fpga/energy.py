"""Energy: a core in cells of a 180 nm library, and its power with the activity of its own case."""

import os
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from operator import mul
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from amaranth.lib import data, wiring

from seedbed.flow.cores.core import Core
from seedbed.flow.emit import verilog
from seedbed.flow.fpga.synth import Progress, notify, yosys
from seedbed.flow.run.cache import memo
from seedbed.sim import tools
from seedbed.sim.ports import ports
from seedbed.sim.verilog import verilog_bench

__all__ = ["CLOCK", "LIBRARY", "energy", "numbers", "require"]

#: Where Debian's package qflow-tech-osu018 installs the library; the variable names another folder.
LIBRARY = Path(os.environ.get("SEEDBED_OSU018", "/usr/share/qflow/tech/osu018"))
#: Clock of the figures, in MHz.
CLOCK = 100
#: Seed of the test case.
SEED = 1
_LIB, _CELLS = "osu018_stdcells.lib", "osu018_stdcells.v"

# Memories stay memories: they are simulated, and have neither area nor energy. Without buffers, a
# net with hundreds of loads has a delay that no design would have.
_MAP = """\
read_verilog core.v
synth -flatten -top {top} -run begin:fine
opt -fast -full
techmap
opt -fast
dfflibmap -liberty {lib}
abc -D 4000 -liberty {lib} -script +strash;ifraig;scorr;dc2;dch,-f;map,-B,0.9,-D,4000;topo;\
buffer,-c,-N,16;upsize,-D,4000;dnsize,-D,4000
opt_clean -purge
setundef -undriven -zero
splitnets -ports -format __
rename {top} {top}_cells
rename -enumerate -pattern cell_% c:*
rename -enumerate -pattern net_% w:$*
rename -unescape w:*
tee -q -o bits.part dump t:$mem*
write_verilog -noattr -norename simulated.v
delete t:$mem*
setundef -undriven -expose
tee -q -o area.part stat -liberty {lib}
write_verilog -noattr -noexpr -norename -simple-lhs timed.v
"""
# The library's registers start unknown, and without the internal nodes that would be counted.
_REGISTER = """\
module DFFPOSX1(input CLK, input D, output reg Q);
  initial Q = 0;
  always @(posedge CLK) Q <= D;
endmodule
"""
# The netlist has a port for each bit: in Icarus, each change of a bit costs a vector's width.
_WRAPPER = """\
module {top}({names});
{declarations}
  {top}_cells cells({connections});
endmodule
"""
_DUMP = """\
module activity;
  initial begin
    $dumpfile("activity.vcd");
    $dumpvars(1, {top}_tb.dut.cells);
  end
endmodule
"""
# A cell's power is linear in the toggles of its output: OpenSTA computes it without any, and with
# one a cycle. (This version ignores the activity that is set for a pin.) A net without a clock
# would have no activity.
_POWER = """\
read_liberty {lib}
read_verilog timed.v
link_design {top}_cells
create_clock -name clk -period {period} [get_ports clk]
set_input_delay 0 -clock clk [all_inputs]
report_worst_slack -digits 4
set_power_activity -global -activity 0.0 -duty 0.5
report_power -digits 8 -instances [get_cells *]
set_power_activity -global -activity 1.0 -duty 0.5
report_power -digits 8 -instances [get_cells *]
"""


#: An instance and the net of its output, and the total power of an instance.
_OUTPUT = re.compile(r"^  \w+ (cell_\d+) \([^;]*\.[YQ]\(([^)]*)\)", re.MULTILINE)
_WATTS = re.compile(r"^(?: *\S+){3} +(\S+) (cell_\d+)$", re.MULTILINE)


def require() -> None:
    """Raise :class:`~seedbed.sim.tools.ToolMissing` without the tools or the cell library."""
    for tool in ("OPENSTA", "IVERILOG", "VVP"):
        tools.find(tool)
    if not (LIBRARY / _LIB).is_file():
        raise tools.ToolMissing(
            "the cell library osu018 is not installed: apt-get install qflow-tech-osu018 brings it"
        )


def numbers(signature: wiring.Signature) -> int:
    """Return the numbers in a beat of a core's first output stream: the length of its array."""
    for name, flow in verilog_bench.stream_ports(signature):
        if flow is wiring.Out:
            payload = signature.members[name].signature.members["payload"].shape
            fields = [f.shape for _, f in payload] if isinstance(payload, data.Layout) else []
            whole = [payload, *fields] if not isinstance(payload, data.ArrayLayout) else [payload]
            return max((s.length for s in whole if isinstance(s, data.ArrayLayout)), default=1)
    return 1


def energy(
    core: Core,
    params: Mapping[str, Any],
    *,
    build: Path,
    clock: int = CLOCK,
    progress: Progress = None,
) -> dict[str, Any]:
    """Return the power and the energy of a core in cells of the library, without its memories.

    yosys maps the core. Icarus Verilog simulates the netlist in the testbench of the core's case,
    without pauses: outputs are compared with the model's. OpenSTA computes the power at ``clock``
    MHz from the toggles of every net. Wires have no capacitance, and glitches are not modelled.

    Returns ``cells``, ``area_um2``, ``memory_bits``, ``path_ns`` (the longest path, with the setup
    time), ``clock_mhz``, ``power_mw``, ``cycles``, ``beats``, ``numbers``, ``cycle_pj``,
    ``beat_pj``, ``number_pj`` and ``tools``. Results are cached in ``build``. Raises
    :class:`~seedbed.sim.tools.ToolMissing`, :class:`~seedbed.sim.harness.Mismatch` if the netlist
    differs from the model, and ``RuntimeError`` if a tool fails.
    """
    require()
    config = core.configure(params)
    text = verilog.emit(core, params, plain=True)
    case = core.case(config, Random(SEED))
    signature = core.signature(config)
    _, outputs = core.streams(config)
    bench = verilog_bench.files(core.name, case, signature)
    versions = {name: tools.version(name.upper()) for name in ("yosys", "opensta", "iverilog")}
    script = _MAP.format(top=core.name, lib=_LIB)
    key = {
        "verilog": sha256(text.encode()).hexdigest(),
        "bench": sha256(repr(sorted(bench.items())).encode()).hexdigest(),
        "library": sha256((LIBRARY / _LIB).read_bytes()).hexdigest(),
        "scripts": [script, _POWER, _REGISTER],
        "clock": clock,
        "tools": versions,
    }

    def compute() -> dict[str, Any]:
        (build / "energy").mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=build / "energy", prefix=f"{core.name}-") as name:
            folder = Path(name)
            (folder / "core.v").write_text(text)
            (folder / _LIB).write_bytes((LIBRARY / _LIB).read_bytes())
            notify(progress, f"mapping {core.name} to cells")
            yosys(folder, "map", script)
            verilog_bench.write(folder, core.name, case, signature)
            notify(progress, f"simulating {core.name}, mapped")
            toggles, cycles, beats = _simulate(folder, core.name, signature, outputs)
            notify(progress, f"computing the power of {core.name}")
            per_cycle = {net: count / cycles for net, count in toggles.items()}
            cells, slack, power = _power(folder, core.name, per_cycle, clock)
            (area,) = re.findall(r"Chip area .*: ([\d.]+)", (folder / "area.part").read_text())
            return {
                "cells": cells,
                "area_um2": float(area),
                "memory_bits": _memory_bits((folder / "bits.part").read_text()),
                "path_ns": 1000 / clock - slack,
                "power_mw": 1000 * power,
                "cycles": cycles,
                "beats": beats,
            }

    found = memo(build / "cache", "energy", key, compute)
    cycle = found["power_mw"] * 1000 / clock
    beat = cycle * found["cycles"] / found["beats"]
    each = numbers(signature)
    return {
        **found,
        "clock_mhz": clock,
        "numbers": each,
        "cycle_pj": cycle,
        "beat_pj": beat,
        "number_pj": beat / each,
        "tools": versions,
    }


def _memory_bits(dump: str) -> int:
    """Return the bits of the memories in yosys's dump of their cells."""

    def values(name: str) -> list[int]:
        return [int(n) for n in re.findall(rf"parameter (?:signed )?\\{name} (\d+)", dump)]

    return sum(map(mul, values("SIZE"), values("WIDTH")))


def _wrapper(top: str, signature: wiring.Signature) -> str:
    """Return a module with the core's ports around the netlist."""
    found = {p.name: (p.is_input, p.width) for p in ports(signature)}
    found = {"clk": (True, 1), "rst": (True, 1), **found}
    declared = [
        f"  {'input' if given else 'output'} {f'[{width - 1}:0] ' if width > 1 else ''}{name};"
        for name, (given, width) in found.items()
    ]
    bits = [
        f".{name}_{k}_({name}[{k}])" if width > 1 else f".{name}({name})"
        for name, (_, width) in found.items()
        for k in range(width)
    ]
    return _WRAPPER.format(
        top=top,
        names=", ".join(found),
        declarations="\n".join(declared),
        connections=",\n    ".join(bits),
    )


def _simulate(
    folder: Path, top: str, signature: wiring.Signature, outputs: list[str]
) -> tuple[dict[str, int], int, int]:
    """Run the testbench on the netlist; return toggles by net, cycles, and beats of an output."""
    cells = (LIBRARY / _CELLS).read_text()
    # The library's own register is replaced.
    cells, replaced = re.subn(r"module DFFPOSX1 .*?endmodule", "", cells, flags=re.DOTALL)
    assert replaced == 1
    (folder / _CELLS).write_text(cells)
    (folder / "register.v").write_text(_REGISTER + _wrapper(top, signature))
    (folder / "dump.v").write_text(_DUMP.format(top=top))
    sources = [f"{top}_tb.v", "simulated.v", "dump.v", "register.v", _CELLS]
    options = ("-g2005", "-o", "bench.vvp", "-s", f"{top}_tb", "-s", "activity")
    tools.run("IVERILOG", *options, *sources, cwd=folder)
    command = [tools.find("VVP"), "-n", "bench.vvp"]
    verilog_bench.run(command, folder, stalls=0)
    with (folder / "activity.vcd").open() as file:
        return _counts(file, outputs[0] if outputs else "")


def _counts(vcd: Iterable[str], output: str) -> tuple[dict[str, int], int, int]:
    """Return the toggles of each bit, the clock's rising edges, and the beats of ``output``."""
    names: dict[str, tuple[str, int, int]] = {}
    values: dict[str, str] = {}
    counts: dict[str, list[int]] = {}
    special: dict[str, str] = {}
    cycles = beats = 0
    lines = iter(vcd)
    for line in lines:
        if line.startswith("$var"):
            _, _, width, code, name, *rest = line.split()
            low = int(rest[0].strip("[]").split(":")[-1]) if rest[0] != "$end" else -1
            names.setdefault(code, (name, low, int(width)))
            special[name] = code
        elif line.startswith("$enddefinitions"):
            break
    for code, (_, _, bits) in names.items():
        values[code], counts[code] = "x" * bits, [0] * bits
    clock, valid, ready = (
        special.get(n, "") for n in ("clk", f"{output}_valid", f"{output}_ready")
    )
    # Values before the time step, as registers take them.
    before = dict.fromkeys((valid, ready), "1")
    for line in lines:
        if line[0] == "#":
            before = {code: values.get(code, "1") for code in (valid, ready)}
            continue
        if line[0] in "01xz":
            value, code = line[0], line[1:].rstrip()
        elif line[0] == "b":
            value, code = line[1:].split()
        else:
            continue
        value = value.rjust(len(values[code]), "0" if value[0] == "1" else value[0])
        old, counted = values[code], counts[code]
        for k, (a, b) in enumerate(zip(reversed(old), reversed(value), strict=True)):
            counted[k] += a + b in ("01", "10")
        values[code] = value
        if code == clock and value == "1":
            cycles += 1
            beats += before[valid] == before[ready] == "1"
    toggles = {
        name if low < 0 else f"{name}[{low + k}]": count
        for code, (name, low, _) in names.items()
        if code != clock
        for k, count in enumerate(counts[code])
    }
    return toggles, cycles, beats


def _power(
    folder: Path, top: str, toggles: Mapping[str, float], clock: int
) -> tuple[int, float, float]:
    """Return the number of cells, the worst slack in ns, and the power in W.

    ``toggles`` are those of a net in a cycle.
    """
    (folder / "power.tcl").write_text(_POWER.format(lib=_LIB, top=top, period=1000 / clock))
    printed = tools.run("OPENSTA", "-no_init", "-no_splash", "-exit", "power.tcl", cwd=folder)
    slack = re.search(r"^worst slack (\S+)", printed, re.MULTILINE)
    outputs = dict(_OUTPUT.findall((folder / "timed.v").read_text()))
    found: dict[str, list[float]] = {}
    for watts, cell in _WATTS.findall(printed):
        found.setdefault(cell, []).append(float(watts))
    if not slack or found.keys() != outputs.keys() or any(len(w) != 2 for w in found.values()):
        raise RuntimeError(f"OpenSTA printed no power of {top}:\n{printed[-600:]}")
    power = sum(
        quiet + (active - quiet) * toggles[outputs[cell].strip()]
        for cell, (quiet, active) in found.items()
    )
    return len(found), float(slack[1]), power
