"""The commands ``synth`` and ``constrain``."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.cores import registry, settings
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import place, placement_files, synth, targets
from seedbed.flow.fpga.constrain import constrain as constrain_netlist
from seedbed.flow.fpga.parts import by_part
from seedbed.flow.report.kinds import plain
from seedbed.flow.run.files import os_error_path, require_output, require_outputs
from seedbed.flow.run.options import (
    BUILD,
    Build,
    ConfigFile,
    CoreName,
    Force,
    Json,
    Settings,
    show_table,
)
from seedbed.flow.run.progress import status

__all__ = ["constrain", "synthesize"]

#: Of a table, in this order.
_RESOURCES = ("lut", "ff", "bram", "dsp")

out = Console()
err = Console(stderr=True)


def synthesize(
    core: CoreName,
    target: Annotated[
        str, typer.Option(help=f"The FPGA family: one of {', '.join(targets.TARGETS)}.")
    ],
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    seeds: Annotated[
        int,
        typer.Option(min=0, help="The number of place and route seeds. 0: synthesis only."),
    ] = 3,
    ready: Annotated[
        str,
        typer.Option(help="Driver of ready in the harness: register, or logic (a LUT4)."),
    ] = "register",
    floorplan: Annotated[
        bool, typer.Option(help="Use the core's floorplan, if there is one.")
    ] = True,
    constraints: Annotated[
        Path | None,
        typer.Option(help="Write the placement of the median seed to this folder."),
    ] = None,
    parts: Annotated[
        bool, typer.Option(help="Also print the resources of each submodule, mapped on its own.")
    ] = False,
    force: Force = False,
    json_: Json = False,
    build: Build = BUILD,
) -> None:
    """Synthesize a core, and place and route it if an open tool supports the target."""
    found = registry.find_verilog(core)
    params = settings.read(found, set_, config_)
    found.configure(params)
    fpga = targets.find(target)
    place.require_ready(ready)
    if constraints:
        _require_placed(fpga, seeds)
        require_outputs(*(constraints / name for name in placement_files.NAMES), force=force)
    path = verilog.write(found, params, build / "verilog", plain=True, kept=build / "cache")
    with status(err, f"synthesizing {core} for {target}") as update, os_error_path(build):
        counts = synth.synthesize(path, core, target=target, build=build / "synth")
        counts_of_parts = {}
        if parts:
            counts_of_parts = by_part(
                path, core, target=target, build=build / "synth", progress=update
            )
        fmax = None
        if seeds and fpga.has_fmax:
            placement = place.Placement(
                path, core, target=fpga, build=build / "synth",
                ready=ready, floorplanned=floorplan, progress=update,
            )  # fmt: skip
            fmax = placement.measure(seeds)
            if constraints:
                placement_files.write(placement, fmax["median_seed"], of=seeds, folder=constraints)
    result = {
        "core": core,
        "params": plain(found, params),
        "target": target,
        "ready": ready,
        "floorplan": floorplan,
        "tools": counts["tools"] | (fmax["tools"] if fmax else {}),
        **{name: counts[name] for name in ("lut", "lut_carry", "ff", "bram", "dsp", "cells")},
        "fmax_mhz": fmax and {name: fmax[name] for name in ("median", "min", "max", "seeds")},
        **({"parts": counts_of_parts} if parts else {}),
    }
    if json_:
        print(json.dumps(result, indent=1))
        return
    speed = "n/a"
    if fmax:
        speed = f"{fmax['median']:.0f} ({fmax['min']:.0f} to {fmax['max']:.0f})"
    names = [name.upper() for name in _RESOURCES]
    header = ["core", "target", *names, "Fmax in MHz, median (range)"]
    line = [core, target, *(counts[n] for n in _RESOURCES), speed]
    show_table(out, header, [line])
    cells = [f"{count} {cell}" for cell, count in sorted(counts["cells"].items())]
    if counts["lut_carry"]:
        cells.append(f"{counts['lut_carry']} route-through LUT of carry chains")
    out.print(", ".join(cells))
    if parts:
        header = ["part", *names]
        lines = [[name, *(of[n] for n in _RESOURCES)] for name, of in counts_of_parts.items()]
        show_table(out, header, lines)
    if constraints:
        out.print(
            f"The placement is in {constraints}; its place.sh reproduces the frequency.",
            soft_wrap=True,
        )


def _require_placed(target: targets.Target, seeds: int) -> None:
    if not target.has_fmax:
        placed = ", ".join(t.name for t in targets.TARGETS.values() if t.has_fmax)
        raise ValueError(
            f"constraints need a target with place and route, {placed}, not {target.name}"
        )
    if not seeds:
        raise ValueError("seeds must be 1 or more where constraints are to be written, not 0")


def constrain(
    netlist: Annotated[
        Path, typer.Argument(help="The flat design, written by 'synth_ecp5 -json'.")
    ],
    instance: Annotated[
        str, typer.Option(help="The path of the urng_array in the design, such as train.noise.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write the constrained design to this file.")
    ],
    target: Annotated[str, typer.Option(help="A target that has a floorplan.")] = "ecp5",
    at: Annotated[
        str | None,
        typer.Option(help="Column and row of the floorplan's corner tile, such as 80,11."),
    ] = None,
    force: Force = False,
) -> None:
    """Constrain the lanes of a urng_array in your design to a floorplan, for nextpnr."""
    corner = None
    if at is not None:
        column, comma, row = at.partition(",")
        if not (comma and column.isdecimal() and row.isdecimal()):
            raise ValueError(f"at must be a column and a row, such as 80,11, not {at!r}")
        corner = int(column), int(row)
    require_output(output, force=force)
    cells = constrain_netlist(netlist, instance, target=target, at=corner, out=output)
    out.print(f"{cells} cells of {instance} are constrained in {output}", soft_wrap=True)
