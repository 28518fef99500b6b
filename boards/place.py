"""Place and route of an application's netlist on a board."""

import json
from pathlib import Path
from typing import Any

from seedbed.boards import toolchains
from seedbed.boards.platforms import Board
from seedbed.flow.files import write_atomic
from seedbed.flow.fpga import nextpnr, targets
from seedbed.flow.fpga.ecp5 import floorplan, multiplier_registers
from seedbed.flow.fpga.place import RIP_UP, is_large
from seedbed.flow.fpga.synth import top_module
from seedbed.sim import tools

__all__ = ["place", "prepare"]


def prepare(board: Board, netlist: Path) -> bool:
    """Do to a netlist what is done to a core; return whether it is large.

    Registers are moved into multipliers. A large design has the floorplan of its core, if any.
    """
    target = targets.find(board.target)
    design = json.loads(netlist.read_text())
    top = top_module(design)
    if target.models:
        multiplier_registers.pack(top)
    large = is_large(target, top)
    if large and target.columns:
        for cell, site in floorplan.arrange(top, target.columns).items():
            top["cells"][cell]["attributes"]["BEL"] = site
    write_atomic(netlist, json.dumps(design))
    return large


def place(
    board: Board, name: str, folder: Path, *, seed: int, mhz: int, large: bool
) -> dict[str, Any]:
    """Place and route with a seed, for a clock; return nextpnr's report.

    A large design is routed in a second call, which rips up nets that are too slow for the clock.
    """
    chain, target = toolchains.find(board), targets.find(board.target)
    words = [*target.device, "-q", "--seed", str(seed), "--freq", str(mhz), "--timing-allow-fail"]
    words += [word.format(name=name) for word in chain.pins]
    netlist = f"{name}.json"
    if large:
        placed = f"placed-{seed}.json"
        files = ["--json", netlist, "--no-route", "--write", placed, "--log", "place.log"]
        tools.run(chain.place, *words, *target.large, *files, cwd=folder)
        netlist, words = placed, [*words, *target.large, *nextpnr.ROUTE, *RIP_UP]
    log = "route.log" if large else "place.log"
    files = ["--json", netlist, "--report", "report.json", "--log", log]
    files += [word.format(name=name, seed=seed) for word in chain.routed]
    tools.run(chain.place, *words, *files, cwd=folder)
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found
