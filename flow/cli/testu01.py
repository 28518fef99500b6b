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
    test: Annotated[
        list[int] | None,
        typer.Option(help="The number of a test of the battery; by default, all. May be repeated."),
    ] = None,
    bytes_: Annotated[
        int | None,
        typer.Option(
            "--bytes",
            min=1000,
            max=1 << 32,
            help="The number of bytes to test, by default 2^28, and 2^32 for crush and bigcrush. "
            "For these, lutopt makes words without end by default.",
        ),
    ] = None,
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
    tests.require(battery, stream, test)
    with status(err, f"{battery} of {core}") as update, os_error_path(build):
        lines, other = tests.compared(
            core, config, stream, battery, bytes_, build, update, set(test) if test else None
        )
    show_table(
        out, ["test", "p-value", "verdict"], [[x.name, f"{x.p:.3g}", x.verdict] for x in lines]
    )
    failed = sum(line.verdict == "failed" for line in lines)
    causes = tests.failures(lines, other, config)
    out.print(
        f"{failed} of {len(lines)} statistics failed: {causes}", soft_wrap=True, highlight=False
    )
