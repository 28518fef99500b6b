"""The command ``demo personalise-mlp``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import Build, Data

__all__ = ["demo_personalise_mlp"]


def demo_personalise_mlp(
    data: Data = None,
    rotate: Annotated[float, typer.Option(help="The rotation of the images, in degrees.")] = 45,
    fraction: Annotated[
        list[float] | None,
        typer.Option(help="The fraction of kept weights; may be repeated. Default: 0.001, 0.01."),
    ] = None,
    source: Annotated[
        str, typer.Option(help="The perturbations: gaussian, on-the-fly (urng), lutopt, ...")
    ] = "lutopt",
    steps: Annotated[int, typer.Option(min=1, help="The steps of a training.")] = 2000,
    batch: Annotated[int, typer.Option(min=1, help="The images of a step.")] = 64,
    seeds: Annotated[int, typer.Option(min=1, help="The number of trainings of each kind.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="The number of trainings at a time.")] = 1,
    build: Build = Path("build"),
) -> None:
    """Tune few weights of a compressed MLP on rotated images, by forward passes.

    Masks of the tuned weights are compared with low-rank adapters of as many numbers. An
    interrupted run is resumed by the same command.
    """
    from seedbed.studies import personalise_mlp

    name = "digits" if data is None else data.resolve().name
    personalise_mlp.personalise_mlp(
        data, build / "demo" / f"personalise-{name}", rotate=rotate,
        fractions=tuple(fraction or personalise_mlp.FRACTIONS), source=source, steps=steps,
        batch=batch, seeds=seeds, jobs=jobs, console=Console(),
    )  # fmt: skip
