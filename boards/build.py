"""Bitstreams: synthesis, place and route of an application for a board, and loading them."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from seedbed.boards.board_top import BoardTop
from seedbed.boards.memory import DOMAIN, has_own_clock, memory_of
from seedbed.boards.platforms import Board, clock_of
from seedbed.flow.emit.collisions import unordered
from seedbed.flow.fpga.devices import DEVICES
from seedbed.flow.fpga.ecp5 import floorplan, multiplier_registers
from seedbed.flow.fpga.nextpnr import RIP_UP, ROUTE, Job, RoutingFailed
from seedbed.flow.fpga.synth import Progress, digest, notify, top_module
from seedbed.flow.run.cache import definitions, kept
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools

__all__ = [
    "Bitstream",
    "RoutingFailed",
    "TimingMissed",
    "build",
    "load",
    "memory_clocks",
    "prepare",
    "require_room",
    "styles",
]

#: Marks the registers whose signals are marked: yosys merges copies of a register unless their
#: cells are to be kept. In emitted Verilog, :mod:`seedbed.flow.emit.postprocess` marks them.
KEEP = "setattr -set keep 1 a:keep %ci1:+[Q] t:*dff* %i; "
#: A routing is given up after so many times the duration of the placement, see :class:`Job`.
PATIENCE = 4


class TimingMissed(RuntimeError):
    """The placed design is slower than its clock; the message names the worst path."""


@dataclass(frozen=True)
class Bitstream:
    """A bitstream: file and seed, Fmax in MHz by seed, and used and available cells by type."""

    path: Path
    seed: int
    fmax: dict[int, float]
    cells: dict[str, tuple[int, int]]


def build(
    board: Board,
    app: ModuleType,
    name: str,
    *,
    folder: Path,
    seeds: Sequence[int] = (1,),
    first: bool = False,
    progress: Progress = None,
) -> Bitstream:
    """Build the bitstream of an application for a board, in ``folder``.

    It is the fastest placement of the given seeds. With ``first``, the seeds after the first one
    that meets the clock are left out. What an interrupted build of the same design has done is
    used. Raises :class:`TimingMissed` if the fastest one is too slow, and :class:`RoutingFailed` if
    none has a route, and then leaves no bitstream. Raises as :func:`require_room`.
    """
    chain = board.toolchain
    for tool in ("YOSYS", board.fpga.place, chain.pack):
        tools.find(tool)
    bitstream = folder / f"{name}.{chain.end}"
    bitstream.unlink(missing_ok=True)
    large = _synthesize(board, app, name, folder, progress)
    reports: dict[int, Any] = {}
    clock = clock_of(app, board)
    for seed in seeds:
        job = _job(board, app, name, folder, seed=seed, large=large, progress=progress)
        try:
            reports[seed] = job.result()
        except RoutingFailed:
            if not reports and seed == seeds[-1]:
                raise
        else:
            if first and not _missed(app, reports[seed], clock):
                break
    fmax = {seed: _fmax(app, report, clock) for seed, report in reports.items()}
    fastest = max(fmax, key=lambda seed: fmax[seed])
    if missed := _missed(app, reports[fastest], clock):
        raise TimingMissed(missed)
    words = [word.format(name=name, seed=fastest) for word in chain.packed]
    tools.run(chain.pack, *words, cwd=folder)
    cells = {
        kind: (cell["used"], cell["available"])
        for kind, cell in reports[fastest]["utilization"].items()
    }
    if "FF" in chain.cells:
        cells["FF"] = (_flip_flops(board, folder / f"{name}.json"), cells[chain.cells[0]][1])
    return Bitstream(bitstream, fastest, fmax, cells)


def _synthesize(board: Board, app: ModuleType, name: str, folder: Path, progress: Progress) -> bool:
    """Write the netlist and the pins of an application on a board; return whether it is large.

    The netlist of an unchanged design is not made again.
    """
    target, chain = board.fpga, board.toolchain
    module, _, platform = board.platform.partition(":")
    made = getattr(import_module(f"amaranth_boards.{module}"), platform)(toolchain=chain.amaranth)
    plan = made.prepare(BoardTop(app, board), name)
    texts = {}
    for end in ("il", chain.constraints):
        text = plan.files[f"{name}.{end}"]
        texts[end] = text if isinstance(text, str) else text.decode()
    texts["il"] = unordered(texts["il"])
    for end, text in texts.items():
        write_atomic(folder / f"{name}.{end}", text)
    script = f"read_rtlil {name}.il; {KEEP}{styles(app, name)}{target.synth} -top {name} "
    script += f"-json {name}.json"
    key = {
        "design": digest(texts["il"]),
        "script": script,
        "tool": tools.version("YOSYS"),
        "code": digest(definitions(__name__, "prepare")),
    }

    def run() -> bool:
        notify(progress, f"synthesizing {name} for {board.name}")
        tools.run("YOSYS", "-q", "-p", script, cwd=folder)
        return prepare(board, folder / f"{name}.json")

    large: bool = kept(folder / "cache", "netlist", key, run, folder / f"{name}.json")
    require_room(getattr(made, "device", ""), folder / f"{name}.json")
    return large


def require_room(device: str, netlist: Path) -> None:
    """Raise ``ValueError`` for a netlist with more memories or multipliers than an ECP5 has.

    The placer would look for places for hours.
    """
    if device not in DEVICES:
        return
    top, has = top_module(json.loads(netlist.read_text())), DEVICES[device]
    cells = Counter(cell["type"] for cell in top["cells"].values())
    for what, kind, most in (
        ("block RAMs", "DP16KD", has.block_rams), ("multipliers", "MULT18X18D", has.multipliers),
    ):  # fmt: skip
        if cells[kind] > most:
            raise ValueError(
                f"{netlist.stem} needs {cells[kind]} {what}, and {device} has {most}: "
                "give a smaller configuration"
            )


def prepare(board: Board, netlist: Path) -> bool:
    """Do to a netlist what is done to a core; return whether it is large.

    Registers are moved into multipliers. A large design has the floorplan of its core, if any.
    """
    target = board.fpga
    design = json.loads(netlist.read_text())
    top = top_module(design)
    if target.models:
        multiplier_registers.pack(top)
    large = target.is_large(top)
    if large and target.columns:
        for cell, site in floorplan.arrange(top, target.columns).items():
            top["cells"][cell]["attributes"]["BEL"] = site
    write_atomic(netlist, json.dumps(design))
    return large


def _job(
    board: Board,
    app: ModuleType,
    name: str,
    folder: Path,
    *,
    seed: int,
    large: bool,
    progress: Progress,
) -> Job:
    """Return the placement of an application's netlist with a seed; its result is the report.

    A large design has the placer that the application names, or its target's.
    """
    target, chain, mhz = board.fpga, board.toolchain, clock_of(app, board)
    option, output = (word.format(name=name, seed=seed) for word in chain.routed)
    # Files named by design and seed: other builds for the same board may run.
    placed = f"placed-{name}-{seed}.json"
    words = (*target.device, "-q", "--seed", str(seed), "--freq", str(mhz), "--timing-allow-fail")
    words += tuple(word.format(name=name) for word in chain.pins)
    words += target.large(getattr(app, "PLACER", None)) if large else ()
    clocks = memory_clocks(app) if large else ""
    known = ("--lpf", f"clocks-{name}.lpf") if clocks else ()
    if clocks:
        write_atomic(folder / f"clocks-{name}.lpf", clocks)

    def routing(to: str, *more: str) -> tuple[str, ...]:
        return "--log", f"{to}.log", *known, *more, "--report", f"{to}-report.json", option, to

    return Job(
        title=f"{name} on {board.name}, seed {seed}",
        tool=target.place,
        words=words,
        folder=folder,
        design=lambda: f"{name}.json",
        cache=folder / "cache",
        key={
            "tool": tools.version(target.place),
            "inputs": [
                digest((folder / f"{name}.{end}").read_bytes())
                for end in ("json", chain.constraints)
            ],
            "words": words,
            "clocks": clocks,
        },
        mhz=mhz,
        read=lambda report: {**report, "mhz": _fmax(app, report, mhz)},
        place=("--log", f"{placed}.log", "--no-route", "--write", placed) if large else (),
        route=routing(output, *ROUTE) if large else routing(output),
        again=routing(f"again-{output}", *ROUTE, *RIP_UP),
        output=output,
        patience=PATIENCE,
        progress=progress,
    )


def memory_clocks(app: ModuleType) -> str:
    """Return the constraints of the clocks of an application's memory, for a placed design.

    nextpnr derives them from those of the PLL's input when it packs a design. The file of a placed
    design does not have them, and names the nets of clocks as they are in the clock network.
    """
    memory = memory_of(app)
    if not memory:
        return ""
    domains = ("chip", DOMAIN) if has_own_clock(app) else ("chip",)
    hertz = memory.clock_mhz * 1_000_000
    return "".join(f'FREQUENCY NET "$glbnet${name}_clk" {hertz}.0 HZ;\n' for name in domains)


def _clocks(app: ModuleType, report: dict[str, Any], mhz: float) -> dict[str, tuple[float, float]]:
    """Return how fast each clock of an application is by a report of nextpnr, and is to be, in MHz.

    nextpnr only warns of the constraint of a clock that it does not find.
    """
    memory = memory_of(app)
    return {
        clock: (
            found["achieved"],
            max(
                memory.clock_mhz if memory and clock.endswith(("memory_clk", "chip_clk")) else mhz,
                found["constraint"],
            ),
        )
        for clock, found in report["fmax"].items()
    }


def _fmax(app: ModuleType, report: dict[str, Any], mhz: float) -> float:
    """Return how fast the clock of an application may be by a report of nextpnr, in MHz.

    All clocks are scaled with it: that of a memory may be the slowest one for its frequency.
    """
    clocks = _clocks(app, report, mhz).values()
    return float(min(mhz * achieved / wanted for achieved, wanted in clocks))


def styles(app: ModuleType, name: str) -> str:
    """Return yosys's commands for what an application's memories are made of."""
    styles: dict[str, tuple[str, ...]] = getattr(app, "MEMORY_STYLES", {})
    return "".join(
        f'setattr -set ram_style "{style}" '
        + " ".join(f"{name}.top.{memory.replace(':', '/m:')}" for memory in memories)
        + "; "
        for style, memories in styles.items()
    )


def _flip_flops(board: Board, netlist: Path) -> int:
    """Return the number of flip-flops in a netlist."""
    top = top_module(json.loads(netlist.read_text()))
    kinds = re.compile(board.fpga.ff)
    return sum(1 for cell in top["cells"].values() if kinds.fullmatch(cell["type"]))


def _missed(app: ModuleType, report: dict[str, Any], mhz: float) -> str:
    """Return a sentence with the worst path if a clock in nextpnr's report is not met."""
    for clock, (achieved, wanted) in _clocks(app, report, mhz).items():
        if achieved < wanted:
            path = next(
                p["path"]
                for p in report["critical_paths"]
                if p["from"].endswith(clock) and p["to"].endswith(clock)
            )
            return (
                f"the clock reaches {achieved:.2f} MHz, not {wanted:.0f}: "
                f"the worst path is from {path[0]['from']['cell']} to {path[-1]['to']['cell']}"
            )
    return ""


def load(path: Path, board: Board) -> None:
    """Load a bitstream into a board's FPGA, by openFPGALoader.

    Raises ``ValueError`` for a missing file, ``ToolMissing``, and ``RuntimeError`` with its last
    line if no board is there.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist: 'seedbed board build' writes it")
    tools.find("OPENFPGALOADER")
    try:
        tools.run("OPENFPGALOADER", "--board", board.loader, path)
    except RuntimeError as problem:
        lines = [line for line in str(problem).splitlines() if line.strip()]
        raise RuntimeError(
            f"no board was loaded: is its cable connected? openFPGALoader says {lines[-1]!r}"
        ) from None
