"""The commands of the trellis code."""

from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import throughput_bar

__all__ = ["app"]

app = typer.Typer(help="Find trellis codes.")
out = Console()
err = Console(stderr=True)


@app.callback()
def commands() -> None:
    """Keep the command a subcommand, although it is the only one."""


@app.command("search")
def search_code(
    bits: Annotated[int, typer.Option(help="The bits of a weight: 2, 3 or 4.")] = 4,
    state_bits: Annotated[int, typer.Option(help="The bits of a state.")] = 12,
    fields: Annotated[int, typer.Option(help="The fields that are added.")] = 3,
    field_bits: Annotated[int, typer.Option(help="The bits of a field.")] = 5,
    taps: Annotated[
        int, typer.Option(help="The state bits in the XOR of a bit; 0: any number of them.")
    ] = 3,
    draws: Annotated[int, typer.Option(help="The number of random codes.")] = 300,
    steps: Annotated[
        int, typer.Option(help="The number of random changes of the best code's bits.")
    ] = 1500,
    weights: Annotated[
        int, typer.Option(help="The number of Gaussian weights that codes are compared on.")
    ] = 1 << 15,
    seed: Annotated[int, typer.Option(help="The first seed of the random codes.")] = 0,
) -> None:
    """Compare random trellis codes, improve the best, and print its rows of spec/trellis.py.

    The error is that of Gaussian weights, relative to them; it is tested on other weights.
    """
    from seedbed.flow.jobs import trellis

    with throughput_bar(err, "codes") as shown:
        task = shown.add_task("searching", total=draws + steps)
        found = trellis.search(
            bits, state_bits, fields=fields, field_bits=field_bits, taps=taps, draws=draws,
            steps=steps, weights=weights, seed=seed,
            progress=lambda done, error: shown.update(
                task, completed=done, description=f"least error {error:.5f}"
            ),
        )  # fmt: skip
    lines = [[each.origin, f"{each.error:.5f}", f"{each.tested:.5f}"] for each in found]
    show_table(out, ["code", "error", "error on other weights"], lines)
    digits = -(-state_bits // 4)
    rows = [
        "        (" + ", ".join(f"0x{mask:0{digits}X}" for mask in field) + "),"
        for field in found[0].code
    ]
    print("\n".join([f"    ({bits}, {state_bits}): (", *rows, "    ),"]))
