"""Place and route of an application's netlist on a board."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seedbed.boards import toolchains
from seedbed.boards.platforms import Board
from seedbed.flow.cache import memo
from seedbed.flow.files import write_atomic
from seedbed.flow.fpga import nextpnr, targets
from seedbed.flow.fpga.ecp5 import floorplan, multiplier_registers
from seedbed.flow.fpga.place import RIP_UP, is_large
from seedbed.flow.fpga.synth import digest, top_module
from seedbed.sim import tools

__all__ = ["kept", "place", "prepare"]


def kept(
    folder: Path, kind: str, key: dict[str, Any], file: str, compute: Callable[[], Any]
) -> Any:
    """Return ``compute()``, which writes ``file`` in ``folder``, or its result of an earlier call.

    The earlier call is of the same ``key``, and its file is unchanged: an interrupted build loses
    no hours of routing. See :func:`seedbed.flow.cache.memo`.
    """

    def computed() -> dict[str, Any]:
        return {"result": compute(), "file": digest((folder / file).read_bytes())}

    def unchanged(found: dict[str, Any]) -> bool:
        path = folder / file
        return path.is_file() and digest(path.read_bytes()) == found["file"]

    made = memo(folder / "cache", kind, {**key, "file": file}, computed, is_valid=unchanged)
    return made["result"]


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

    A large design is routed in a second call, and in a third one, which rips up nets that are too
    slow, if the second one misses the clock. What an earlier call has placed or routed is not done
    again.
    """
    chain, target = toolchains.find(board), targets.find(board.target)
    words = [*target.device, "-q", "--seed", str(seed), "--freq", str(mhz), "--timing-allow-fail"]
    words += [word.format(name=name) for word in chain.pins]
    words += target.large if large else ()
    routed = [word.format(name=name, seed=seed) for word in chain.routed]
    inputs = f"{name}.json", f"{name}.{chain.constraints}"
    key = {
        "tool": tools.version(chain.place),
        "inputs": [digest((folder / file).read_bytes()) for file in inputs],
        "words": words,
    }

    def call(netlist: str, log: str, *more: str) -> None:
        tools.run(chain.place, *words, "--json", netlist, "--log", log, *more, cwd=folder)

    def run() -> Any:
        results = ["--report", "report.json", *routed]
        if large:
            placed = f"placed-{name}-{seed}.json"
            first = ["--no-route", "--write", placed]
            kept(folder, "placed", key, placed, lambda: call(inputs[0], "place.log", *first))
            call(placed, "route.log", *nextpnr.ROUTE, *results)
            found = json.loads((folder / "report.json").read_text())
            if all(clock["achieved"] >= mhz for clock in found["fmax"].values()):
                return found
            call(placed, "again.log", *nextpnr.ROUTE, *RIP_UP, *results)
        else:
            call(inputs[0], "place.log", *results)
        return json.loads((folder / "report.json").read_text())

    report: dict[str, Any] = kept(folder, "routed", {**key, "rip_up": RIP_UP}, routed[-1], run)
    return report
