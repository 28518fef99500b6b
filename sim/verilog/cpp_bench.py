"""Builds and runs testbenches in C++ on emitted Verilog, for runs too long for Python in the loop.

A testbench is a file of C++ that includes ``Vtop.h`` and ``streams.h``. Its executable reads and
writes files in its working folder, prints progress or figures line by line, and reports an error by
its exit status and on standard error.
"""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from seedbed.sim import tools
from seedbed.sim.child import child
from seedbed.sim.verilog import verilate

__all__ = ["OPTIMISED", "BenchFailed", "executable", "run"]

#: Verilator's options for simulations of some million cycles. -O3 for the local machine would be a
#: fifth faster, but takes twice as long to build.
OPTIMISED = ["-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"]
_CFLAGS = ["-CFLAGS", "-std=c++17 -O1 -I."]


class BenchFailed(Exception):
    """A testbench ended with an error: its exit status, and its message."""

    def __init__(self, status: int, message: str):
        super().__init__(status, message)
        self.status, self.message = status, message


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


def run(
    bench: Path,
    *arguments: str,
    files: Mapping[str, bytes],
    output: str = "",
    progress: Callable[[str], None] = lambda line: None,
) -> tuple[list[str], bytes]:
    """Run an executable in a temporary folder; return its lines and its output file.

    Parameters
    ----------
    bench
        What :func:`executable` returned.
    arguments
        Of the command line; names of files are relative to the folder.
    files
        The input files by name.
    output
        The name of the output file, if there is one.
    progress
        Called with each line as it is printed.

    Raises :class:`BenchFailed` for an exit status other than 0. An interruption ends the
    simulation too.
    """
    with TemporaryDirectory(dir=bench.parent, prefix="run-") as name:
        folder = Path(name)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        lines = []
        with child(
            [bench.resolve(), *arguments], cwd=folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout
            assert process.stderr
            for line in process.stdout:
                progress(line)
                lines.append(line)
            message = process.stderr.read().strip()
            process.wait()
        if process.returncode:
            raise BenchFailed(process.returncode, message)
        return lines, (folder / output).read_bytes() if output else b""
