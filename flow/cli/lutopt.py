"""The commands of the LUT-optimised generator."""

from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.progress import status

__all__ = ["app"]

app = typer.Typer(help="Find matrices of LUT-optimised generators.")
err = Console(stderr=True)


@app.callback()
def commands() -> None:
    """Keep the command a subcommand, although it is the only one."""


@app.command("search")
def search_matrix(
    lanes: Annotated[int, typer.Option(help="The number of words per beat.")],
    width: Annotated[int, typer.Option(help="The bits of a word.")],
    taps: Annotated[int, typer.Option(help="The state bits in the XOR of a state bit.")] = 3,
    seed: Annotated[int, typer.Option(help="The first seed of the random matrices.")] = 0,
) -> None:
    """Search a matrix of period 2^k - 1, and print its row of the table in spec/lutopt.py."""
    from seedbed.flow.jobs import lutopt

    with status(err, f"searching {lanes} x {width}") as update:
        found = lutopt.search(
            lanes, width, taps=taps, seed=seed,
            progress=lambda tried: update(f"searching {lanes} x {width}, matrix {tried}"),
        )  # fmt: skip
    print(f"({lanes}, {width}, {taps}): {found},")
