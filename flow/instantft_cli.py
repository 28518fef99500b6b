"""The command line's demonstration of InstantFT."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

__all__ = ["demo_instantft"]


def demo_instantft(
    data: Annotated[
        Path | None, typer.Option(help="Folder of MNIST's IDX files; else scikit-learn's digits.")
    ] = None,
    angle: Annotated[float, typer.Option(help="Degrees that the images are turned, 15..90.")] = 90,
    seeds: Annotated[int | None, typer.Option(help="Runs a figure; 3 by default.")] = None,
    rtl: Annotated[
        bool, typer.Option("--rtl", help="One whole job on the emitted Verilog, bit for bit.")
    ] = False,
    images: Annotated[int | None, typer.Option(help="With --rtl: 1024 by default.")] = None,
    epochs: Annotated[int | None, typer.Option(help="With --rtl: 10 by default.")] = None,
    lanes: Annotated[int | None, typer.Option(help="With --rtl: 8, 16, or 32 by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="With --rtl: 0 by default.")] = None,
    stalls: Annotated[
        bool, typer.Option("--stalls", help="With --rtl: all ports pause at random.")
    ] = False,
    build: Annotated[
        Path, typer.Option(help="Folder of intermediate files and kept results.")
    ] = Path("build"),
) -> None:
    """Fine-tune LeNet-5 on rotated images: InstantFT in float and fixed point, and five others.

    Or, with --rtl, InstantFT in the emitted core, with its cycles.
    """
    from seedbed.flow import instantft, instantft_rtl_demo

    folder = build / "demo" / ("digits" if data is None else "mnist")
    own = {"images": images, "epochs": epochs, "lanes": lanes, "seed": seed}
    given = {name: value for name, value in own.items() if value is not None}
    if stalls:
        given["stalls"] = True
    if rtl:
        if seeds is not None:
            raise ValueError("--rtl runs one job: it takes --seed, and not --seeds")
        instantft_rtl_demo.run_rtl(
            data, folder, build=build, angle=angle, console=Console(), **given
        )
        return
    if given:
        raise ValueError(f"--{next(iter(given))} goes with --rtl")
    seeds = instantft.SEEDS if seeds is None else seeds
    instantft.run_instantft(data, folder, angle=angle, seeds=seeds, console=Console())
