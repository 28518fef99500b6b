"""The command ``seedbed board report-run``: a run of an application, as one file to send."""

import platform
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.files import require_output, write_atomic
from seedbed.flow.run.options import Force

__all__ = ["report_run"]

#: Packages that a run depends on.
PACKAGES = ("seedbed", "amaranth", "amaranth-boards", "numpy", "pyserial")
out = Console()


def report_run(
    app: Annotated[str, typer.Argument(metavar="APP", help="See 'seedbed board list'.")],
    port: Annotated[str, typer.Option(help="The serial port of the board.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file to write, in Markdown.")
    ] = Path("seedbed-run.md"),
    board: Annotated[
        str, typer.Option(help="What is on the desk: board, revision, FPGA, SDRAM.")
    ] = "not said",
    baud: Annotated[int, typer.Option(min=1, help="Bits a second.")] = 3_000_000,
    timeout: Annotated[
        float,
        typer.Option(min=0.001, help="Seconds until a request without an answer is repeated."),
    ] = 0.2,
    force: Force = False,
) -> None:
    """Run an application with its default options, and write a file about it, to send.

    The file has versions, the identifier of the bitstream, what the run printed or how it failed,
    and all registers afterwards. A failed run writes the file, too, and the command fails.
    """
    from seedbed.boards import apps
    from seedbed.boards.device import Device
    from seedbed.boards.registers import COMMON, addresses
    from seedbed.boards.top import identifier
    from seedbed.flow.report.jobs import version

    found = apps.designs(app)
    require_output(output, force=force)
    builds = {identifier(design): design for design in found}
    registers = addresses(found[0].REGISTERS)
    console = Console(record=True, width=100, file=sys.stdout)
    problem: BaseException | None = None
    lines = ["", "## Registers afterwards", "", "| register | value |", "| --- | ---: |"]
    design, began = found[0], time.monotonic()
    try:
        with Device(port, registers, identifier=builds, baud=baud, timeout=timeout) as device:
            design = builds[device.identifier]
            try:
                apps.run(design, device, console)
            except Exception as raised:
                problem = raised
            read = [r.name for r in (*COMMON, *design.REGISTERS) if r.access == "read"]
            lines += [f"| `{name}` | {device.read(name):,} |" for name in read]
            lines += ["", f"{device.repeated} requests were repeated."]
    except Exception as raised:
        problem = problem or raised
    versions = [f"| {name} | {version(name) or 'not installed'} |" for name in PACKAGES]
    result = "failed" if problem else "as the model, bit for bit"
    text = [
        f"# A run of {app}: {result}",
        "",
        "| | |",
        "| --- | --- |",
        f"| board | {board} |",
        f"| application | {apps.file_name(app, design)} |",
        f"| identifier | 0x{identifier(design):08X} |",
        f"| system | {platform.platform()}, Python {platform.python_version()} |",
        *versions,
        f"| baud | {baud:,} |",
        f"| seconds | {time.monotonic() - began:.1f} |",
        "",
        "## What it printed",
        "",
        "```text",
        console.export_text().rstrip(),
        *([f"{type(problem).__name__}: {problem}"] if problem else []),
        "```",
        *lines,
    ]
    write_atomic(output, "\n".join(text) + "\n")
    out.print(f"The report of the run is in {output}.", soft_wrap=True, highlight=False)
    if problem:
        raise problem
