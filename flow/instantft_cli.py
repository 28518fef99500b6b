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
    seeds: Annotated[int, typer.Option(help="Runs a figure.")] = 3,
    build: Annotated[
        Path, typer.Option(help="Folder of intermediate files and kept results.")
    ] = Path("build"),
) -> None:
    """Fine-tune LeNet-5 on rotated images: InstantFT in float and fixed point, and five others."""
    from seedbed.flow import instantft

    folder = build / "demo" / ("digits" if data is None else "mnist")
    instantft.run_instantft(data, folder, angle=angle, seeds=seeds, console=Console())
