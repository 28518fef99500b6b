"""Projects of a core for the tools of FPGA vendors and for open ones, written by edalize."""

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from seedbed.flow.cores.core import Core, suggestion
from seedbed.flow.emit import verilog
from seedbed.flow.fpga.harness import wrap
from seedbed.sim.ports import ports

__all__ = ["TOOLS", "Tool", "find", "harness", "texts"]

#: The module around the core.
TOP = "project"
_HEAD = "{comment} Constraints of seedbed {version}: "


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool of edalize's, and a device for it.

    Parameters
    ----------
    device
        What a device is called by default.
    constraints
        Of each file of constraints: name, type, as edalize calls it, and text, in which ``{mhz}``
        is the clock and ``{ns}`` its period in nanoseconds.
    options
        Edalize's options for a device and a clock.
    legacy
        Whether edalize has no flow for the tool, but its older interface.
    """

    device: str
    constraints: Sequence[tuple[str, str, str]]
    options: Callable[[str, float], dict[str, Any]]
    legacy: bool = False


def _trellis(device: str, mhz: float) -> dict[str, Any]:
    size, package, speed = device.split("-")
    words = [f"--{size}", "--package", package, "--speed", speed]
    return {"nextpnr_options": [*words, "--freq", f"{mhz:g}", "--lpf-allow-unconstrained"]}


def _icestorm(device: str, mhz: float) -> dict[str, Any]:
    size, package = device.split("-")
    words = [f"--{size}", "--package", package, "--freq", f"{mhz:g}"]
    return {"nextpnr_options": [*words, "--pcf-allow-unconstrained"]}


def _apicula(device: str, mhz: float) -> dict[str, Any]:
    return {
        "device": device,
        "device_family": "C",
        "nextpnr_options": ["--freq", f"{mhz:g}"],
    }


#: The tools, by edalize's names.
TOOLS = {
    "vivado": Tool(
        device="xczu9eg-ffvb1156-2-e",
        constraints=[("clock.xdc", "xdc", "create_clock -name clk -period {ns} [get_ports clk]\n")],
        options=lambda device, mhz: {"part": device},
    ),
    "quartus": Tool(
        device="Cyclone V/5CSEBA6U23I7",
        constraints=[("clock.sdc", "SDC", "create_clock -name clk -period {ns} [get_ports clk]\n")],
        options=lambda device, mhz: dict(zip(("family", "device"), device.split("/"), strict=True)),
        legacy=True,
    ),
    "trellis": Tool(
        device="85k-CABGA381-6",
        constraints=[("clock.lpf", "LPF", 'FREQUENCY PORT "clk" {mhz} MHZ;\n')],
        options=_trellis,
    ),
    "icestorm": Tool(
        device="hx8k-ct256",
        constraints=[("clock.pcf", "PCF", "set_frequency clk {mhz}\n")],
        options=_icestorm,
    ),
    "apicula": Tool(
        device="GW1NR-LV9QN88PC6/I5",
        # nextpnr needs the pins: clock and an LED of a Tang Nano 9K.
        constraints=[
            ("clock.sdc", "SDC", "create_clock -name clk -period {ns} [get_ports clk]\n"),
            ("pins.cst", "CST", 'IO_LOC "clk" 52;\nIO_LOC "q" 10;\n'),
        ],
        options=_apicula,
    ),
}


def find(name: str) -> Tool:
    """Return a tool, or raise ``ValueError`` with those that there are."""
    if name not in TOOLS:
        raise ValueError(
            f"no tool is called {name!r}{suggestion(name, TOOLS)}; there are {', '.join(TOOLS)}"
        )
    return TOOLS[name]


def harness(core: Core, params: Mapping[str, Any]) -> str:
    """Return Verilog of the module :data:`TOP`, with two pins and the core in it."""
    found = ports(core.signature(core.configure(params)))
    # Two bits with the same number are one net.
    numbers = count()
    described = {
        port.name: {
            "direction": "input" if port.is_input else "output",
            "bits": [next(numbers) for _ in range(port.width)],
        }
        for port in found
    }
    if not core.inside:
        for name in ("clk", "rst"):
            described[name] = {"direction": "input", "bits": [next(numbers)]}
    module = {"ports": described, "cells": {}}
    # The first line declares the core as a black box.
    _, text = wrap(core.name, module, name=TOP, is_register=lambda _: False).split("\n", 1)
    return f"// Harness of seedbed {version('seedbed')}: {core.name}\n{text}"


def texts(
    core: Core, params: Mapping[str, Any], tool: str, *, mhz: float, device: str = ""
) -> dict[str, str]:
    """Return the files of a project by name: the core in :func:`harness`, and a clock.

    Parameters
    ----------
    core, params
        The core and its parameters.
    tool, device
        A name of :data:`TOOLS`, and a device as that tool's default is written.
    mhz
        The frequency of the clock.

    Raises ``ValueError`` for an unknown tool, a clock that is not positive, and a device that is
    not written as the tool's default is.
    """
    found = find(tool)
    # Before the core is elaborated, which takes longer.
    import_module("edalize")
    if mhz <= 0:
        raise ValueError(f"the clock must be above 0 MHz, not {mhz:g}")
    try:
        options = found.options(device or found.device, mhz)
    except ValueError:
        raise ValueError(f"a device of {tool} is written as {found.device}, not {device}") from None
    own = {f"{core.name}.v": verilog.emit(core, params), f"{TOP}.v": harness(core, params)}
    files = [{"name": each, "file_type": "verilogSource"} for each in own]
    for each, kind, text in found.constraints:
        head = _HEAD.format(comment="//" if kind == "CST" else "#", version=version("seedbed"))
        own[each] = f"{head}{core.name}\n" + text.format(mhz=f"{mhz:g}", ns=f"{1000 / mhz:.3f}")
        files.append({"name": each, "file_type": kind})
    edam = {"name": core.name, "toplevel": TOP, "files": files}
    return own | _configured(edam, tool, options)


def _configured(edam: dict[str, Any], tool: str, options: dict[str, Any]) -> dict[str, str]:
    """Return the files that edalize writes."""
    # Its messages are about edalize itself.
    logging.getLogger("edalize").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        if find(tool).legacy:
            backend = getattr(import_module(f"edalize.{tool}"), tool.capitalize())
            backend(edam | {"tool_options": {tool: options}}, folder).configure()
        else:
            shared = getattr(import_module(f"edalize.flows.{tool}"), tool.capitalize())
            # edalize adds the options of a project to those of the class, for all later ones.
            flow = type(
                shared.__name__, (shared,), {"_flow": deepcopy(getattr(shared, "_flow", {}))}
            )
            flow(edam | {"flow_options": options}, folder).configure()
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}
