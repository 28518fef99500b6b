"""The command ``energy``."""

import json
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.cores import registry, settings
from seedbed.flow.fpga.energy import CLOCK, energy, require
from seedbed.flow.report.kinds import plain
from seedbed.flow.report.table import HEADINGS, format_figure
from seedbed.flow.run.files import os_error_path
from seedbed.flow.run.options import BUILD, Build, ConfigFile, CoreName, Json, Settings, show_table
from seedbed.flow.run.progress import status

__all__ = ["energy_of"]

out = Console()
err = Console(stderr=True)

SHOWN = ("cells", "area_um2", "memory_bits", "path_ns", "power_mw", "beat_pj", "number_pj")


def energy_of(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    clock: Annotated[int, typer.Option(min=1, max=10_000, help="The clock in MHz.")] = CLOCK,
    json_: Json = False,
    build: Build = BUILD,
) -> None:
    """Compute a core's energy per beat and per number in a 180 nm cell library, for comparisons.

    Every net has the toggles of the core's own test case. Memories, wires and glitches are left
    out. It needs the packages opensta, qflow-tech-osu018 and iverilog.
    """
    found = registry.find(core)
    params = settings.read(found, set_, config_)
    found.configure(params)
    require()
    with status(err, f"the energy of {core}") as update, os_error_path(build):
        result = energy(found, params, build=build, clock=clock, progress=update)
    if json_:
        print(json.dumps({"core": core, "params": plain(found, params), **result}, indent=1))
        return
    show_table(
        out,
        ["core", *map(HEADINGS.__getitem__, SHOWN)],
        [[core, *(format_figure(result[name]) for name in SHOWN)]],
    )
    out.print(
        f"At {clock} MHz, {result['beats']:,} beats of {result['numbers']} in "
        f"{result['cycles']:,} cycles; the outputs are those of the model.",
        highlight=False,
    )
