"""The command ``demo instantft``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import Build, Data

__all__ = ["demo_instantft"]


def demo_instantft(
    data: Data = None,
    angle: Annotated[float, typer.Option(help="The rotation of the images, 15..90 degrees.")] = 90,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="The number of runs per figure, by default 3.")
    ] = None,
    rtl: Annotated[
        bool, typer.Option("--rtl", help="Run one complete job on the emitted Verilog, bit-exact.")
    ] = False,
    images: Annotated[
        int | None, typer.Option(help="With --rtl: the number of images, by default 1024.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="With --rtl: the number of epochs, by default 10.")
    ] = None,
    lanes: Annotated[
        int | None, typer.Option(help="With --rtl: the core's lanes, 8, 16 or by default 32.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --rtl: the seed of the job, by default 0.")
    ] = None,
    stalls: Annotated[
        bool, typer.Option("--stalls", help="With --rtl: stall all ports at random.")
    ] = False,
    build: Build = Path("build"),
) -> None:
    """Fine-tune LeNet-5 on rotated images with InstantFT, float and fixed point, and five others.

    With --rtl, InstantFT runs in the emitted core, and its cycles are counted.
    """
    from seedbed.flow.cli import instantft_rtl
    from seedbed.studies import instantft

    folder = build / "demo" / ("digits" if data is None else "mnist")
    options = {"images": images, "epochs": epochs, "lanes": lanes, "seed": seed}
    given = {name: value for name, value in options.items() if value is not None}
    if rtl:
        if seeds is not None:
            raise ValueError("--rtl runs one job: it takes --seed, and not --seeds")
        instantft_rtl.run_rtl(
            data, folder, build=build, angle=angle, stalls=stalls, console=Console(), **given
        )
        return
    if given or stalls:
        raise ValueError(f"--{next(iter(given), 'stalls')} goes with --rtl")
    seeds = instantft.SEEDS if seeds is None else seeds
    instantft.run_instantft(data, folder, angle=angle, seeds=seeds, console=Console())
