"""The virtual board: an application's top in Verilator, its serial port on a pseudo-terminal."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from amaranth.back import verilog

from seedbed.boards.top import Top
from seedbed.flow.files import write_atomic
from seedbed.sim import cpp_bench, tools

__all__ = ["DIVISOR", "Board", "executable", "start"]

#: Cycles of a bit: the least, so that most cycles are of the application.
DIVISOR = 4


def executable(app: ModuleType, name: str, *, build: Path) -> Path:
    """Build the virtual board of an application; return the program.

    It is the top of :mod:`seedbed.boards.top`, as on a board. Only PLL and pads are replaced.
    """
    tools.find("YOSYS")
    top = Top(app, DIVISOR)
    text = verilog.convert(top, name="top", emit_src=False, strip_internal_attrs=True)
    path = write_atomic(build / "board" / f"{name}.v", text)
    main = Path(__file__).with_name("virtual.cpp")
    return cpp_bench.executable(main, path, "top", build=build / "board", flags=cpp_bench.OPTIMISED)


@dataclass(frozen=True)
class Board:
    """A running virtual board: the path of its serial port, and its process."""

    port: str
    process: subprocess.Popen[str]

    def reset(self) -> None:
        """Press the reset button."""
        self.process.send_signal(signal.SIGUSR1)


@contextmanager
def start(program: Path, *, errors: int = 0, seed: int = 1) -> Iterator[Board]:
    """Run a virtual board.

    Parameters
    ----------
    program
        What :func:`executable` returned.
    errors
        On average one of so many bytes on the line is lost, changed, doubled or late; 0: none.
    seed
        Of the errors.
    """
    command = [str(program), str(DIVISOR), str(errors), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError("the virtual board ended: are there pseudo-terminals?")
            yield Board(port, process)
        finally:
            process.kill()
