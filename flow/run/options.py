"""Options and table output shared by several commands."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seedbed.flow.run.files import require_folder

__all__ = [
    "BUILD", "Build", "ConfigFile", "CoreName", "Data", "Force", "Json", "Settings", "duration",
    "show_table",
]  # fmt: skip

BUILD = Path("build")
CoreName = Annotated[
    str, typer.Argument(metavar="CORE", help="The core: a name that 'seedbed list' shows.")
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a parameter of the core. The option may be repeated.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        help="Take parameters of the core from this TOML file, such as 'seedbed list CORE --toml' "
        "prints. --set has precedence.",
    ),
]

Build = Annotated[
    Path,
    typer.Option(
        callback=require_folder, help="The folder of intermediate files and cached results."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        help="The folder with MNIST's IDX files. Without it, scikit-learn's digits are used.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite the file if it exists.", show_default=False)
]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON in place of a table.", show_default=False)
]


def duration(seconds: float) -> str:
    """Return a time as text, with four digits in the unit that suits it."""
    units = {"h": 3600, "min": 60, "s": 1, "ms": 1e-3, "us": 1e-6}
    unit = next((unit for unit, size in units.items() if seconds >= size), "ns")
    # Twice, as 9999.6 alone would be 1e+04.
    return f"{float(f'{seconds / units.get(unit, 1e-9):.4g}'):,g} {unit}"


def show_table(
    console: Console, header: Iterable[str], lines: Iterable[Iterable[Any]], *, title: str = ""
) -> None:
    """Print a table without truncation.

    On a terminal, long cells wrap. Elsewhere, as in a file, each row is one line.
    """
    table = Table(title=title or None, title_justify="left")
    for name in header:
        table.add_column(Text(name), overflow="fold")
    for line in lines:
        table.add_row(*(c if isinstance(c, Text) else Text(str(c)) for c in line))
    # Wider than any table; the table uses only the width that it needs.
    (console if console.is_terminal else Console(file=console.file, width=1 << 16)).print(table)
