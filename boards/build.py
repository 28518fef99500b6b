"""Bitstreams: synthesis, place and route of an application for a board, and loading them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from seedbed.boards import place, toolchains
from seedbed.boards.board_top import BoardTop
from seedbed.boards.platforms import Board, clock_of
from seedbed.flow.fpga import targets
from seedbed.flow.fpga.synth import Progress, digest, notify, top_module
from seedbed.flow.run.cache import code
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools

__all__ = ["Bitstream", "TimingMissed", "build", "load", "styles"]

#: Marks the registers whose signals are marked: yosys merges copies of a register unless their
#: cells are to be kept. In emitted Verilog, :mod:`seedbed.flow.emit.postprocess` marks them.
KEEP = "setattr -set keep 1 a:keep %ci1:+[Q] t:*dff* %i; "


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
    used. Raises :class:`TimingMissed` if the fastest one is too slow, and
    :class:`~seedbed.boards.place.RoutingFailed` if none has a route, and then leaves no bitstream.
    """
    chain = toolchains.find(board)
    for tool in chain.tools:
        tools.find(tool)
    bitstream = folder / f"{name}.{chain.end}"
    bitstream.unlink(missing_ok=True)
    large = _synthesize(board, app, name, folder, progress)
    reports: dict[int, Any] = {}
    clock, placer = clock_of(app, board), getattr(app, "PLACER", None)
    for seed in seeds:
        try:
            reports[seed] = place.place(
                board, name, folder, seed=seed, mhz=clock, large=large, placer=placer,
                progress=progress,
            )  # fmt: skip
        except place.RoutingFailed:
            if not reports and seed == seeds[-1]:
                raise
        else:
            if first and not _missed(reports[seed], clock):
                break
    fmax = {seed: place.fmax(report) for seed, report in reports.items()}
    fastest = max(fmax, key=lambda seed: fmax[seed])
    if missed := _missed(reports[fastest], clock):
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
    chain = toolchains.find(board)
    module, _, platform = board.platform.partition(":")
    made = getattr(import_module(f"amaranth_boards.{module}"), platform)(toolchain=chain.amaranth)
    plan = made.prepare(BoardTop(app, board), name)
    for end in ("il", chain.constraints):
        text = plan.files[f"{name}.{end}"]
        write_atomic(folder / f"{name}.{end}", text if isinstance(text, str) else text.decode())
    script = f"read_rtlil {name}.il; {KEEP}{styles(app, name)}{chain.synth} -top {name} "
    script += f"-json {name}.json"
    key = {
        "design": digest(plan.files[f"{name}.il"]),
        "script": script,
        "tool": tools.version("YOSYS"),
        "code": digest(code(place.__name__)),
    }

    def run() -> bool:
        notify(progress, f"synthesizing {name} for {board.name}")
        tools.run("YOSYS", "-q", "-p", script, cwd=folder)
        return place.prepare(board, folder / f"{name}.json")

    large: bool = place.kept(folder, "netlist", key, f"{name}.json", run)
    return large


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
    kinds = re.compile(targets.find(board.target).ff)
    return sum(1 for cell in top["cells"].values() if kinds.fullmatch(cell["type"]))


def _missed(report: dict[str, Any], mhz: float) -> str:
    """Return a sentence with the worst path if a clock in nextpnr's report is not met."""
    for clock, found in report["fmax"].items():
        wanted = max(mhz, found["constraint"])
        if found["achieved"] < wanted:
            path = next(
                p["path"]
                for p in report["critical_paths"]
                if p["from"].endswith(clock) and p["to"].endswith(clock)
            )
            return (
                f"the clock reaches {found['achieved']:.2f} MHz, not {wanted:.0f}: "
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
