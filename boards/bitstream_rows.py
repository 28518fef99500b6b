"""Report rows of boards: what 'seedbed report' takes of 'board report' and 'board memories'."""

import json
from pathlib import Path
from statistics import median

from seedbed.boards.build import Bitstream
from seedbed.boards.platforms import Board
from seedbed.flow.report.row import Row
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools

__all__ = ["row", "write"]


def row(board: Board, application: str, made: Bitstream, clock: int) -> Row:
    """Return the row of an application's bitstream for a board, with a clock in MHz."""
    mhz = list(made.fmax.values())
    used = [made.cells.get(kind, (0, 0))[0] for kind in board.toolchain.cells]
    return Row(
        core=application,
        config=board.name,
        kind="bitstream",
        target=board.target,
        figures=dict(zip(("lut", "ff", "bram", "dsp"), used, strict=True))
        | {
            "fmax_mhz": median(mhz),
            "fmax_min_mhz": min(mhz),
            "fmax_max_mhz": max(mhz),
            "fmax_by_seed_mhz": mhz,
            "clock_mhz": clock,
        },
        seeds=list(made.fmax),
        tools={name.lower(): tools.version(name) for name in ("YOSYS", board.fpga.place)},
        command=f"seedbed board report {application} --seeds {len(mhz)}",
    )


def write(rows: list[Row], build: Path, name: str = "report") -> Path:
    """Write ``rows`` to a file ``board/NAME.json`` of the build folder."""
    text = json.dumps({"rows": [each.to_json() for each in rows]}, indent=1, allow_nan=False)
    return write_atomic(build / "board" / f"{name}.json", text + "\n")
