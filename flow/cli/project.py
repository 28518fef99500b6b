"""The commands ``project``, ``fusesoc``, ``ipxact`` and ``paper-tables``."""

from pathlib import Path
from typing import Annotated

import typer

from seedbed.flow.cores import registry, settings
from seedbed.flow.emit.fusesoc import library
from seedbed.flow.fpga import project as projects
from seedbed.flow.run.files import require_folder, write_generated
from seedbed.flow.run.options import BUILD, ConfigFile, CoreName, Force, Settings

__all__ = ["fusesoc", "ipxact", "paper_tables", "project"]


def project(
    core: CoreName,
    tool: Annotated[str, typer.Option(help=f"The tool: one of {', '.join(projects.TOOLS)}.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")],
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    clock: Annotated[float, typer.Option(help="The frequency of the clock in MHz.")] = 100,
    device: Annotated[
        str,
        typer.Option(
            help="The device; by default "
            + ", ".join(f"{each.device} ({name})" for name, each in projects.TOOLS.items())
            + "."
        ),
    ] = "",
    force: Force = False,
) -> None:
    """Write a project of a core for an FPGA tool, with a clock, and print the files' names.

    The core is in a harness with two pins. 'make' in the folder runs the tool.
    """
    found = registry.find_verilog(core)
    params = settings.read(found, set_, config_)
    texts = projects.texts(found, params, tool, mhz=clock, device=device)
    print("\n".join(map(str, write_generated(output, texts, force=force))))


def fusesoc(
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")] = (
        BUILD / "fusesoc"
    ),
    force: Force = False,
) -> None:
    """Write a library for FuseSoC, and print the files' names.

    It has a generator for cores in any configuration, and a core file for the default of each core.
    """
    texts = library()
    print("\n".join(map(str, write_generated(output, texts, force=force))))


def ipxact(
    core: CoreName,
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")],
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    force: Force = False,
) -> None:
    """Write a core with AXI ports as IP-XACT with its Verilog, and print the files' names."""
    from seedbed.flow.emit import ipxact as emitter

    found = registry.find_verilog(core)
    texts = emitter.texts(found, settings.read(found, set_, config_))
    print("\n".join(map(str, write_generated(output, texts, force=force))))


def paper_tables(
    output: Annotated[Path, typer.Option("-o", "--output", help="Write to this folder.")],
    force: Force = False,
) -> None:
    """Write a Vivado script that repeats the papers' tables of resources, and print the files.

    It is for PeZO's Table 6 and SeedLM's Table 4, with the Verilog of these cores.
    """
    from seedbed.flow.report import vivado_tables

    require_folder(output)
    print("\n".join(map(str, write_generated(output, vivado_tables.texts(), force=force))))
