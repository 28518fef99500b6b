"""The command ``testu01``."""

from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.cores import registry, settings
from seedbed.flow.run.files import os_error_path
from seedbed.flow.run.options import BUILD, Build, ConfigFile, CoreName, Settings, show_table
from seedbed.flow.run.progress import status

__all__ = ["run_battery"]

out = Console()
err = Console(stderr=True)


def run_battery(
    core: CoreName,
    set_: Settings = [],  # noqa: B006
    config_: ConfigFile = None,
    battery: Annotated[
        str, typer.Option(help="The battery: smallcrush, crush (hours) or bigcrush (days).")
    ] = "smallcrush",
    stream: Annotated[
        str, typer.Option(help="The words: all lanes of a beat, one lane, or a pair of lanes.")
    ] = "beat",
    bytes_: Annotated[
        int, typer.Option("--bytes", min=1000, max=1 << 32, help="The number of bytes to test.")
    ] = 1 << 28,
    build: Build = BUILD,
) -> None:
    """Test a core's words with a battery of TestU01, if it is installed.

    The result of each test is kept: a command that was stopped goes on with the next test.
    """
    from seedbed.flow.report import dieharder
    from seedbed.flow.report import testu01 as tests

    found = registry.find(core)
    dieharder.require_words(core)
    config = found.configure(settings.read(found, set_, config_))
    tests.require(battery, stream)
    lanes = tests.lanes_of(config, stream)
    with status(err, f"{battery} of {core}") as update, os_error_path(build):
        tests.runner(build)
        path = dieharder.write_words(core, config, bytes_, build / "statistics", lanes=lanes)
        lines = tests.lines(path, battery, build, update)
        other = tests.compared(config, stream, bytes_, build)
        reference = tests.lines(other, battery, build, update)
    show_table(
        out, ["test", "p-value", "verdict"], [[x.name, f"{x.p:.3g}", x.verdict] for x in lines]
    )
    failed = sum(line.verdict == "failed" for line in lines)
    causes = tests.failures(lines, reference, config)
    out.print(
        f"{failed} of {len(lines)} statistics failed: {causes}", soft_wrap=True, highlight=False
    )
