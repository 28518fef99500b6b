"""The virtual board: an application's top in Verilator, its serial port on a pseudo-terminal."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module, Signal

from seedbed.boards.memory import DOMAIN, application_mhz, has_own_clock, memory_of
from seedbed.boards.top import Top, identifier
from seedbed.flow.emit.convert import convert
from seedbed.flow.emit.deduplicate import deduplicate
from seedbed.flow.emit.identifiers import legalize
from seedbed.flow.emit.postprocess import postprocess
from seedbed.flow.run.cache import code, memo
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools
from seedbed.sim.child import child
from seedbed.sim.sdram_chip import figures
from seedbed.sim.verilog import cpp_bench

__all__ = ["DIVISOR", "Board", "executable", "start"]

#: Cycles of a bit: the least, so that most cycles are of the application.
DIVISOR = 4
#: Options of Verilator. These two passes of g++ are two fifths of the build, and 3 % of the speed.
_FLAGS = [*cpp_bench.OPTIMISED, "-CFLAGS", "-fno-tree-dse -fno-tree-fre"]


def executable(app: ModuleType, name: str, *, build: Path) -> Path:
    """Build the virtual board of an application; return the program.

    It is the top of :mod:`seedbed.boards.top`, as on a board. Only PLL and pads are replaced, and
    the memory's chip is a model that ends the program if one of its rules is broken.
    """
    tools.find("YOSYS")
    # The elaboration of a large core takes as long as the rest of a start.
    key = {
        "sources": [identifier(app), sha256(code(__name__).encode()).hexdigest()],
        "tools": [version("amaranth"), tools.version("YOSYS")],
    }
    made = memo(build / "cache", "board", key, lambda: {"verilog": _verilog(app)})
    path = write_atomic(build / "board" / f"{name}.v", made["verilog"])
    main = Path(__file__).with_name("virtual.cpp")
    # In a file, not in options: Verilator's run time is compiled once for each set of options.
    lines, files, memory = ["#pragma once"], {}, memory_of(app)
    if memory:
        defined = {"PADS": memory.pad_cycles}
        if has_own_clock(app):
            defined |= {"OWN_MHZ": memory.clock_mhz, "APPLICATION_MHZ": application_mhz(app)}
        lines += [f"#define {name} {value}" for name, value in defined.items()]
        files = figures(memory) | {"memory.h": main.with_name("memory.h").read_text()}
        lines.append('#include "memory.h"')
    files["board.h"] = "\n".join([*lines, ""])
    return cpp_bench.executable(main, path, "top", build=build / "board", flags=_FLAGS, files=files)


def _verilog(app: ModuleType) -> str:
    """Return the top of an application as Verilog, with a register at each reset.

    Verilator evaluates what depends on an input at every edge of every clock, and what depends on a
    register only after the edges of its own clock.
    """
    m = Module()
    m.submodules.app = top = Top(app, DIVISOR)
    ports = {name: (getattr(top, name), None) for name in top.signature.members}
    for name in ["sync", DOMAIN] if memory_of(app) and has_own_clock(app) else ["sync"]:
        prefix = "" if name == "sync" else f"{name}_"
        domain = ClockDomain(name)
        m.domains += domain
        pressed, reset = Signal(), Signal(init=1, reset_less=True)
        m.d[name] += reset.eq(pressed)
        m.d.comb += domain.rst.eq(reset)
        ports |= {f"{prefix}clk": (domain.clk, None), f"{prefix}rst": (pressed, None)}
    # As the cores' Verilog: a block without a changing input runs at the begin, too.
    text = rtlil.convert(m, name="top", ports=ports, emit_src=False)
    return postprocess(convert(legalize(deduplicate(text))))


@dataclass(frozen=True)
class Board:
    """A running virtual board: the path of its serial port, and its process."""

    port: str
    process: subprocess.Popen[str]

    def reset(self) -> None:
        """Press the reset button."""
        self.process.send_signal(signal.SIGUSR1)


@contextmanager
def start(program: Path, *, errors: int = 0, seed: int = 1, fault: str = "") -> Iterator[Board]:
    """Run a virtual board.

    Parameters
    ----------
    program
        What :func:`executable` returned.
    errors
        On average one of so many bytes on the line is lost, changed, doubled or late; 0: none.
    seed
        Of the errors.
    fault
        A defect of the memory: a pin of its address or data that is stuck, ``a3=0`` or ``dq5=1``,
        or ``decay=1000000``, the nanoseconds for which a cell keeps its contents.
    """
    command = [str(program), str(DIVISOR), str(errors), str(seed), fault]
    with child(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = process.stdout.readline().strip()
        if not port and process.wait() == 2:
            raise ValueError(
                "the fault of a board's memory must be a0=0 to a12=1, dq0=0 to dq15=1, or decay= "
                f"and nanoseconds, and without a memory there is none, not {fault!r}"
            )
        if not port:
            raise RuntimeError("the virtual board ended: are there pseudo-terminals?")
        yield Board(port, process)
