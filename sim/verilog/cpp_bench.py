"""Builds testbenches in C++ for emitted Verilog, for runs too long for Python in the loop.

A testbench is a file of C++ that includes ``Vtop.h`` and ``streams.h``. Its executable reports an
error by its exit status and on standard error.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from seedbed.sim import tools
from seedbed.sim.verilog import verilate

__all__ = ["OPTIMISED", "executable"]

#: Verilator's options for simulations of some million cycles. -O3 for the local machine would be a
#: fifth faster, but takes twice as long to build.
OPTIMISED = ["-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"]
_CFLAGS = ["-CFLAGS", "-std=c++17 -O1 -I."]


def executable(
    main: Path,
    verilog: Path,
    top: str,
    *,
    build: Path,
    flags: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """Build module ``top`` with the testbench ``main``; return the executable.

    Executables are cached below ``build`` by all that they depend on. Raises ``RuntimeError`` with
    the last lines of a failing build.

    Parameters
    ----------
    main
        The testbench's C++ file.
    verilog, top
        The file of the core, and the name of the top-level module.
    build
        Folder of the executables.
    flags
        Further options of Verilator.
    files
        Generated files by name: Verilog files and Verilator's configurations, and headers.
    """
    files, flags = files or {}, [*flags, *_CFLAGS]
    texts = [path.read_text() for path in (verilog, main, verilate.STREAMS)]
    texts += [*files, *files.values(), *flags]
    texts += [tools.version("VERILATOR"), tools.version("CXX")]
    digest = sha256("\n".join(texts).encode()).hexdigest()[:16]

    def make(scratch: Path) -> None:
        for name, text in files.items():
            (scratch / name).write_text(text)
        compiled = (scratch / name for name in files if name.endswith((".v", ".vlt")))
        sources = [verilog, *compiled, main]
        verilate.build(
            scratch, "--top-module", top, "-o", "bench", *(path.resolve() for path in sources),
            flags=flags,
        )  # fmt: skip

    return verilate.built(build.resolve() / f"{top}-{digest}", "bench", make)
