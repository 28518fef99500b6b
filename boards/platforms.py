"""The boards: one table of devices, clocks and platforms."""

from dataclasses import dataclass
from types import ModuleType

from seedbed.flow.cores.core import suggestion
from seedbed.flow.fpga import targets

__all__ = ["BOARDS", "Board", "clock_of", "find"]


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board.

    Parameters
    ----------
    name, title
        As the command line names it, and what it is.
    platform
        The module in :mod:`amaranth_boards`, and the class in it.
    target
        The device, package and speed grade: a name in :data:`seedbed.flow.fpga.targets.TARGETS`.
    clock_mhz, pll
        The clock of an application that asks for no other one, and whether the PLL of an ECP5 makes
        it of 25 MHz; otherwise, it is the oscillator's, for all applications.
    reset, leds
        The button for the reset, and the number of LEDs.
    loader
        As openFPGALoader names it.
    memory_bits, memory_mhz
        Width of its SDRAM, single data rate, and its fastest clock; 0 without an SDRAM.
    """

    name: str
    title: str
    platform: str
    target: str
    clock_mhz: int
    pll: bool = False
    reset: str = "button"
    leds: int = 8
    loader: str
    memory_bits: int = 0
    memory_mhz: int = 0

    @property
    def fpga(self) -> targets.Target:
        """The row of its target."""
        return targets.find(self.target)

    @property
    def toolchain(self) -> targets.Toolchain:
        """What its target needs for a bitstream."""
        found = self.fpga.toolchain
        assert found
        return found


BOARDS = {
    f"ulx3s-{size}": Board(
        name=f"ulx3s-{size}",
        title=f"ULX3S with an ECP5 LFE5U-{size.upper()}",
        platform=f"ulx3s:ULX3S_{size.upper()}_Platform",
        target=target,
        clock_mhz=60,
        pll=True,
        reset="button_fire",
        loader="ulx3s",
        memory_bits=16,
        # Of speed grade -7.
        memory_mhz=143,
    )
    for size, target in (("85f", "ecp5"), ("45f", "ecp5-45"), ("12f", "ecp5-12"))
} | {
    "icebreaker": Board(
        name="icebreaker",
        title="iCEBreaker with an iCE40UP5K",
        platform="icebreaker:ICEBreakerPlatform",
        target="ice40-up5k",
        clock_mhz=12,
        leds=2,
        loader="ice40_generic",
    ),
    "tangnano9k": Board(
        name="tangnano9k",
        title="Tang Nano 9K with a Gowin GW1NR-9C",
        platform="tang_nano_9k:TangNano9kPlatform",
        target="gowin-9c",
        clock_mhz=27,
        leds=6,
        loader="tangnano9k",
    ),
}


def find(name: str) -> Board:
    """Return the board ``name``, or raise ``ValueError`` with the names there are."""
    if name not in BOARDS:
        raise ValueError(
            f"no board is called {name!r}{suggestion(name, BOARDS)}; there are {', '.join(BOARDS)}"
        )
    return BOARDS[name]


def clock_of(app: ModuleType, board: Board) -> int:
    """Return the clock of an application on a board, in MHz.

    With a PLL, it is the ``CLOCK_MHZ`` that the application asks for.
    """
    asked: int = getattr(app, "CLOCK_MHZ", board.clock_mhz)
    return asked if board.pll else board.clock_mhz
