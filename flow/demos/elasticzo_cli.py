"""The command line's demonstration of ElasticZO-INT8."""

from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.options import BUILD, Build, Data

__all__ = ["demo_elasticzo"]


def demo_elasticzo(
    data: Data = None,
    method: Annotated[
        str,
        typer.Option(
            help="The method: full-zo, cls2, cls1 (one or two layers by backpropagation), full-bp."
        ),
    ] = "full-zo",
    epochs: Annotated[int, typer.Option(help="The number of passes over the images.")] = 100,
    batch: Annotated[int, typer.Option(help="The number of images of a batch.")] = 256,
    magnitude: Annotated[
        int, typer.Option(help="The largest number of a perturbation, 1 to 63.")
    ] = 15,
    fraction: Annotated[
        int, typer.Option(help="Fraction bits in the sign of the loss difference, 0 to 8.")
    ] = 4,
    seed: Annotated[int, typer.Option(help="The seed of weights, batches, perturbations.")] = 0,
    build: Build = BUILD,
) -> None:
    """Train LeNet-5 from random weights in 8-bit integers, by forward passes.

    Each epoch is kept: the same command goes on where an earlier one was interrupted.
    """
    from seedbed.flow.demos.elasticzo import Settings, run_elasticzo

    settings = Settings(
        method=method, epochs=epochs, batch=batch, magnitude=magnitude, fraction=fraction, seed=seed
    )
    name = "digits" if data is None else data.resolve().name
    run_elasticzo(data, build / "demo" / name, settings, console=Console())
