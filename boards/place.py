"""Place and route of an application's netlist on a board."""

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from seedbed.boards import toolchains
from seedbed.boards.platforms import Board
from seedbed.flow.fpga import nextpnr, targets
from seedbed.flow.fpga.ecp5 import floorplan, multiplier_registers
from seedbed.flow.fpga.place import RIP_UP, is_large
from seedbed.flow.fpga.synth import Progress, digest, notify, top_module
from seedbed.flow.run.cache import memo
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools

__all__ = ["RoutingFailed", "fmax", "kept", "place", "prepare"]

#: A routing is given up after so many times the duration of the placement, which counts as a minute
#: at least. Router 2 has no limit of its own, and some routings diverge.
PATIENCE = 4


class RoutingFailed(RuntimeError):
    """No routing of a placed design has ended in time."""


def kept(
    folder: Path, kind: str, key: dict[str, Any], file: str, compute: Callable[[], Any]
) -> Any:
    """Return ``compute()``, which writes ``file`` in ``folder``, or its result of an earlier call.

    The earlier call is of the same ``key``, and its file is unchanged: an interrupted build loses
    no hours of routing. See :func:`seedbed.flow.run.cache.memo`.
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


def fmax(report: dict[str, Any]) -> float:
    """Return the slowest clock of a report of nextpnr, in MHz."""
    return float(min(found["achieved"] for found in report["fmax"].values()))


def place(
    board: Board,
    name: str,
    folder: Path,
    *,
    seed: int,
    mhz: int,
    large: bool,
    placer: str | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """Place and route with a seed, for a clock; return nextpnr's report.

    A large design has the given placer, or its target's. It is routed in a second call, and in a
    third one, which rips up nets that are too slow, if the second one misses the clock; the better
    routing counts. One that takes :data:`PATIENCE` times as long as the placement is given up. What
    an earlier call has placed or routed is not done again. Raises :class:`RoutingFailed` if both
    are given up.
    """
    chain, target = toolchains.find(board), targets.find(board.target)
    words = [*target.device, "-q", "--seed", str(seed), "--freq", str(mhz), "--timing-allow-fail"]
    words += [word.format(name=name) for word in chain.pins]
    words += target.large if large else ()
    if large and placer:
        words[words.index("--placer") + 1] = placer
    routed = [word.format(name=name, seed=seed) for word in chain.routed]
    placed = f"placed-{name}-{seed}.json"
    where = f"{name} on {board.name}, seed {seed}"
    inputs = f"{name}.json", f"{name}.{chain.constraints}"
    key = {
        "tool": tools.version(chain.place),
        "inputs": [digest((folder / file).read_bytes()) for file in inputs],
        "words": words,
    }

    def call(netlist: str, to: str, *more: str, limit: float | None = None) -> None:
        files = "--json", netlist, "--log", f"{to}.log", *more
        tools.run(chain.place, *words, *files, cwd=folder, timeout=limit)

    def route(netlist: str, *more: str, to: str, limit: float | None = None) -> Any:
        # Files named by design and seed: other builds for the same board may run.
        report = f"{to}-report.json"
        call(netlist, to, *more, "--report", report, *routed[:-1], to, limit=limit)
        return json.loads((folder / report).read_text())

    def place_alone() -> float:
        notify(progress, f"placing {where}")
        began = time.monotonic()
        call(inputs[0], placed, "--no-route", "--write", placed)
        return time.monotonic() - began

    def routing(limit: float, *more: str, to: str) -> Any:
        with suppress(subprocess.TimeoutExpired):
            return route(placed, *nextpnr.ROUTE, *more, to=to, limit=limit)
        return None

    def place_and_route() -> Any:
        limit = PATIENCE * max(60, kept(folder, "placement", key, placed, place_alone))
        notify(progress, f"routing {where}")
        first = routing(limit, to=routed[-1])
        if first and fmax(first) >= mhz:
            return first
        found = f"{fmax(first):.2f} MHz" if first else "no route"
        notify(progress, f"{found}: routing {where}, again for its slow nets")
        again = f"again-{routed[-1]}"
        second = routing(limit, *RIP_UP, to=again)
        if not first and not second:
            raise RoutingFailed(
                f"no routing of {where}, ended in {limit / 60:.0f} minutes: try another seed"
            )
        if first and (not second or fmax(second) <= fmax(first)):
            return first
        (folder / again).replace(folder / routed[-1])
        return second

    def run() -> Any:
        if large:
            return place_and_route()
        notify(progress, f"placing {where}")
        return route(inputs[0], to=routed[-1])

    report: dict[str, Any] = kept(folder, "routed", {**key, "rip_up": RIP_UP}, routed[-1], run)
    return report
