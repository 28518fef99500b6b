"""The command line's demonstration of ElasticZO."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.files import require_output
from seedbed.flow.run.options import BUILD, Build, Data, Force

__all__ = ["demo_elasticzo", "demo_elasticzo_choices", "demo_elasticzo_passes", "replay_log"]

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
        typer.Option(help="The source in int8: software, buffer, urng, urng-row, lutopt, rank1."),
    ] = "software",
    rtl: Annotated[
        bool, typer.Option("--rtl", help="Train on the emitted Verilog, bit-exact; not by full-bp.")
    ] = False,
    images: Annotated[
        int | None, typer.Option(help="With --rtl: the number of images, by default 1024.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="The number of passes over the images, by default 100, with --rtl 1."),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="The number of images of a batch, by default 256, with --float or --rtl 32."
        ),
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

    Each completed epoch is kept: an interrupted training goes on with --resume. With --rtl, the
    emitted core trains, its cycles, reads and writes are counted, and its log is written.
    """
    if rtl:
        others = {
            "--float": not integers, "--source": source != "software", "--fraction": fraction != 4,
            "--rate": rate != 1e-3, "--rotate": rotate != 0, "--seeds": seeds != 1,
            "--jobs": jobs != 1, "--resume": resume,
        }  # fmt: skip
        if wrong := [name for name, given in others.items() if given]:
            raise ValueError(f"{wrong[0]} does not go with --rtl")
        from seedbed.flow.cli.zo_trainer_rtl import run_rtl

        numbers = {"images": images, "batch": batch, "epochs": epochs}
        given = {name: value for name, value in numbers.items() if value is not None}
        run_rtl(
            data, _folder(build, data), build=build, method=method, **given, magnitude=magnitude,
            seed=seed, start=start, console=Console(),
        )  # fmt: skip
        return
    if images is not None:
        raise ValueError("--images goes with --rtl")
    from seedbed.studies.elasticzo import run_elasticzo
    from seedbed.studies.elasticzo_job import Settings

    settings = Settings(
        arithmetic="int8" if integers else "float",
        method=method,
        epochs=100 if epochs is None else epochs,
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
    from seedbed.studies.elasticzo_choices import run_choices

    run_choices(
        data, _folder(build, data), images=images, epochs=epochs, batch=batch, seeds=seeds,
        jobs=jobs, console=Console(),
    )  # fmt: skip


def demo_elasticzo_passes(
    data: Data = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A variant; by default, all. May be repeated.")
    ] = None,
    method: Annotated[str, typer.Option(help="The method: full-zo, cls2, cls1.")] = "full-zo",
    epochs: Annotated[int, typer.Option(help="The number of passes over the images.")] = 5,
    validation: Annotated[
        int,
        typer.Option(help="The number of images that choose magnitudes, at most a sixth."),
    ] = 5_000,
    seeds: Annotated[int, typer.Option(help="The number of trainings of a variant.")] = 3,
    magnitude: Annotated[
        list[int] | None,
        typer.Option(help="A magnitude to try; by default 7, 15 and 31. May be repeated."),
    ] = None,
    rotate: Annotated[
        float, typer.Option(help="Rotate the images by DEGREES, and take 1,024 of them.")
    ] = 0,
    start: Annotated[
        Path | None,
        typer.Option(help="A checkpoint to start from.", exists=True, dir_okay=False),
    ] = None,
    jobs: Jobs = 1,
    build: Build = BUILD,
) -> None:
    """Train in 8-bit integers with equal passes: small batches, rank 1, levels, fraction bits.

    Each completed epoch is kept: an interrupted command goes on when it is given again.
    """
    from seedbed.studies.elasticzo_passes import MAGNITUDES, run_passes

    run_passes(
        data, _folder(build, data), names=only or (), method=method, epochs=epochs,
        validation=validation, seeds=seeds, magnitudes=magnitude or MAGNITUDES, degrees=rotate,
        start=start, jobs=jobs, console=Console(),
    )  # fmt: skip


def replay_log(
    log: Annotated[
        Path, typer.Argument(help="The log of a training.", exists=True, dir_okay=False)
    ],
    first: Annotated[
        Path, typer.Argument(help="The first weights: an .npz file.", exists=True, dir_okay=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file of the final weights.")],
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Replay a truncated log up to its last whole step."),
    ] = False,
    force: Force = False,
) -> None:
    """Make the final weights of a training in the RTL from its log and its first weights."""
    from seedbed.flow.cli.zo_trainer_rtl import replay

    require_output(output, force=force)
    steps = replay(log, first, output, partial=partial)
    print(f"{output}: the weights after {steps} steps")
