"""The command ``demo sparse``."""

from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import BUILD, Build, Data
from seedbed.spec.checks import require_choice

__all__ = ["demo_sparse"]


def demo_sparse(
    data: Data = None,
    rtl: Annotated[
        bool, typer.Option("--rtl", help="Train on the emitted Verilog too, bit-exact.")
    ] = False,
    core: Annotated[
        str,
        typer.Option(
            help="The core that trains: sparse_trainer; or stream_engine, of which the network is "
            "a program; or stream_trainer, which trains a program alone."
        ),
    ] = "sparse_trainer",
    decode: Annotated[
        str | None,
        typer.Option(
            help="How the base is packed, 4 bits per weight: seedlm, the default of "
            "sparse_trainer, or trellis, that of the others."
        ),
    ] = None,
    degrees: Annotated[float, typer.Option("--rotate", help="Rotate the images by DEGREES.")] = 30,
    kept: Annotated[int, typer.Option(help="The number of kept weights, which are trained.")] = 127,
    images: Annotated[int, typer.Option(help="The number of images to train on.")] = 512,
    epochs: Annotated[int, typer.Option(help="The number of passes over the images.")] = 20,
    batch: Annotated[int, typer.Option(help="The number of images of a batch.")] = 32,
    rate: Annotated[
        int | None,
        typer.Option(help="The factor of the difference of the losses. By default 256 or 1024."),
    ] = None,
    shift: Annotated[
        int | None, typer.Option(help="The right shift of the product. By default 12 or 16.")
    ] = None,
    scale: Annotated[int, typer.Option(help="The left shift of a perturbation.")] = 0,
    seed: Annotated[int, typer.Option(help="The seed of images, order, perturbations.")] = 0,
    build: Build = BUILD,
) -> None:
    """Tune the kept weights of a network of 4 bits per weight on rotated images, in integers."""
    from seedbed.flow.jobs.sparse_trainer_rtl import Settings

    require_choice("--core", core, ("sparse_trainer", "stream_engine", "stream_trainer"))
    by_program = core != "sparse_trainer"
    if by_program and decode not in (None, "trellis"):
        raise ValueError(f"--decode must be trellis with --core {core}, not {decode}")
    learns = {}
    if by_program:
        # Its weights are compressed, which needs more packages than the training does.
        from seedbed.flow.jobs import dense_program

        learns = dense_program.LEARNS
    given = {name: value for name, value in (("rate", rate), ("shift", shift)) if value is not None}
    settings = Settings(
        degrees=degrees, kept=kept, images=images, epochs=epochs, batch=batch, scale=scale,
        seed=seed, **learns | given,
    )  # fmt: skip
    folder = build / "demo" / ("digits" if data is None else data.resolve().name)
    if by_program:
        from seedbed.flow.cli.dense_program import run_program

        run_program(
            data, folder, build=build, core=core, rtl=rtl, settings=settings, console=Console()
        )
        return
    from seedbed.flow.cli.sparse_trainer_rtl import run_sparse

    run_sparse(
        data, folder, build=build, rtl=rtl, decode=decode or "seedlm", settings=settings,
        console=Console(),
    )  # fmt: skip
