"""The command ``demo sparse``."""

from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import BUILD, Build, Data

__all__ = ["demo_sparse"]


def demo_sparse(
    data: Data = None,
    rtl: Annotated[
        bool, typer.Option("--rtl", help="Train on the emitted Verilog too, bit-exact.")
    ] = False,
    decode: Annotated[
        str, typer.Option(help="How the base is packed: seedlm or trellis, 4 bits per weight.")
    ] = "seedlm",
    degrees: Annotated[float, typer.Option("--rotate", help="Rotate the images by DEGREES.")] = 30,
    kept: Annotated[int, typer.Option(help="The number of kept weights, which are trained.")] = 127,
    images: Annotated[int, typer.Option(help="The number of images to train on.")] = 512,
    epochs: Annotated[int, typer.Option(help="The number of passes over the images.")] = 20,
    batch: Annotated[int, typer.Option(help="The number of images of a batch.")] = 32,
    rate: Annotated[int, typer.Option(help="The factor of the difference of the losses.")] = 256,
    shift: Annotated[int, typer.Option(help="The right shift of the product.")] = 12,
    scale: Annotated[int, typer.Option(help="The left shift of a perturbation.")] = 0,
    seed: Annotated[int, typer.Option(help="The seed of images, order, perturbations.")] = 0,
    build: Build = BUILD,
) -> None:
    """Tune the kept weights of a network of 4 bits per weight on rotated images, in integers."""
    from seedbed.flow.cli.sparse_trainer_rtl import run_sparse
    from seedbed.flow.jobs.sparse_trainer_rtl import Settings

    settings = Settings(
        degrees=degrees, kept=kept, images=images, epochs=epochs, batch=batch, rate=rate,
        shift=shift, scale=scale, seed=seed,
    )  # fmt: skip
    folder = build / "demo" / ("digits" if data is None else data.resolve().name)
    run_sparse(
        data, folder, build=build, rtl=rtl, decode=decode, settings=settings, console=Console()
    )
