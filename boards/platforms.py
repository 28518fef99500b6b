"""The boards: one table of devices, clocks and platforms."""

from dataclasses import dataclass

from seedbed.flow.core import suggestion

__all__ = ["BOARDS", "Board", "find"]


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board.

    Parameters
    ----------
    name, title
        As the command line names it, and what it is.
    platform
        The class in :mod:`amaranth_boards.ulx3s`.
    target
        The device, package and speed grade: a name in :data:`seedbed.flow.fpga.targets.TARGETS`.
    memory_bits, memory_mhz
        Width of its SDRAM, single data rate, and its fastest clock, that of speed grade -7.
    """

    name: str
    title: str
    platform: str
    target: str
    memory_bits: int
    memory_mhz: int


BOARDS = {
    f"ulx3s-{size}": Board(
        name=f"ulx3s-{size}",
        title=f"ULX3S with an ECP5 LFE5U-{size.upper()}",
        platform=f"ULX3S_{size.upper()}_Platform",
        target=target,
        memory_bits=16,
        memory_mhz=143,
    )
    for size, target in (("85f", "ecp5"), ("45f", "ecp5-45"), ("12f", "ecp5-12"))
}


def find(name: str) -> Board:
    """Return the board ``name``, or raise ``ValueError`` with the names there are."""
    if name not in BOARDS:
        raise ValueError(
            f"no board is called {name!r}{suggestion(name, BOARDS)}; there are {', '.join(BOARDS)}"
        )
    return BOARDS[name]
