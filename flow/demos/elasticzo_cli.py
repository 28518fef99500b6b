"""The command line's demonstration of ElasticZO."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.options import BUILD, Build, Data

__all__ = ["demo_elasticzo", "demo_elasticzo_choices"]

Jobs = Annotated[int, typer.Option(help="The number of trainings at a time.")]


def _folder(build: Path, data: Path | None) -> Path:
    return build / "demo" / ("digits" if data is None else data.resolve().name)


def demo_elasticzo(
    data: Data = None,
    method: Annotated[
        str,
        typer.Option(
            help="The method: full-zo, cls2, cls1 (one or two layers by backpropagation), full-bp."
        ),
    ] = "full-zo",
    integers: Annotated[
        bool,
        typer.Option("--int8/--float", help="Train in 8-bit integers, or in floating point."),
    ] = True,
    source: Annotated[
        str,
        typer.Option(help="The source in int8: software, buffer, urng, urng-row, lutopt."),
    ] = "software",
    epochs: Annotated[int, typer.Option(help="The number of passes over the images.")] = 100,
    batch: Annotated[
        int | None,
        typer.Option(help="The number of images of a batch, by default 256, with --float 32."),
    ] = None,
    magnitude: Annotated[
        int, typer.Option(help="The largest number of a perturbation in int8, 1 to 63.")
    ] = 15,
    fraction: Annotated[
        int, typer.Option(help="Fraction bits in the sign of the loss difference, 0 to 8.")
    ] = 4,
    rate: Annotated[float, typer.Option(help="With --float: the first learning rate.")] = 1e-3,
    rotate: Annotated[
        float, typer.Option(help="Rotate the images by DEGREES, and take 1,024 of them.")
    ] = 0,
    start: Annotated[
        Path | None,
        typer.Option(help="A checkpoint to start from.", exists=True, dir_okay=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of weights, batches, perturbations.")] = 0,
    seeds: Annotated[int, typer.Option(help="The number of trainings, from that seed on.")] = 1,
    jobs: Jobs = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last epoch that was completed.")
    ] = False,
    build: Build = BUILD,
) -> None:
    """Train LeNet-5 by forward passes, in 8-bit integers or in floating point.

    Each completed epoch is kept: an interrupted training goes on with --resume.
    """
    from seedbed.flow.demos.elasticzo import run_elasticzo
    from seedbed.flow.demos.elasticzo_job import Settings

    settings = Settings(
        arithmetic="int8" if integers else "float",
        method=method,
        epochs=epochs,
        batch=(256 if integers else 32) if batch is None else batch,
        seed=seed,
        source=source,
        magnitude=magnitude,
        choices=(("fraction", fraction),) if fraction != 4 else (),
        rate=rate,
    )
    run_elasticzo(
        data, _folder(build, data), settings, seeds=seeds, jobs=jobs, degrees=rotate, start=start,
        resume=resume, console=Console(),
    )  # fmt: skip


def demo_elasticzo_choices(
    data: Data = None,
    images: Annotated[int, typer.Option(help="The number of images to train on.")] = 15_000,
    epochs: Annotated[int, typer.Option(help="The number of passes over the images.")] = 10,
    batch: Annotated[int, typer.Option(help="The number of images of a batch, 1 to 128.")] = 64,
    seeds: Annotated[int, typer.Option(help="The number of trainings of a choice.")] = 1,
    jobs: Jobs = 2,
    build: Build = BUILD,
) -> None:
    """Train in 8-bit integers with each choice that the zeroth-order trainer's design rests on."""
    from seedbed.flow.demos.elasticzo_choices import run_choices

    run_choices(
        data, _folder(build, data), images=images, epochs=epochs, batch=batch, seeds=seeds,
        jobs=jobs, console=Console(),
    )  # fmt: skip
