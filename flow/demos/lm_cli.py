"""The commands ``demo lm`` and ``demo personalise``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.options import Build

__all__ = ["demo_lm", "demo_personalise"]


Model = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        help="The folder with model.safetensors, vocab.json and texts *.txt. Without it, a small "
        "model is trained.",
    ),
]


def demo_lm(
    model: Model = None,
    lines: Annotated[
        int | None,
        typer.Option(min=1, help="With --model: the number of lines of each text, by default 60."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the rows that an interrupted run finished.")
    ] = False,
    build: Build = Path("build"),
) -> None:
    """Compress a language model in several formats, and compare the perplexities.

    Each format is measured with 0, 0.1 and 1 % of the weights kept, without and with importance.
    """
    from seedbed.flow.demos import lm

    if lines is not None and model is None:
        raise ValueError("--lines goes with --model")
    folder = build / "demo" / ("lm-small" if model is None else "lm")
    lm.run_lm(model, folder, lines=lines or 60, resume=resume, console=Console())


def demo_personalise(
    model: Model = None,
    lines: Annotated[
        int | None,
        typer.Option(min=4, help="With --model: the number of lines of each text, by default 300."),
    ] = None,
    base: Annotated[
        str, typer.Option(help="The 4-bit base: seedlm, feedback (of its errors) or groups, of 32.")
    ] = "seedlm",
    fraction: Annotated[
        list[float] | None,
        typer.Option(help="The fraction of kept weights; may be repeated. Default: 0.001, 0.01."),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            help="What is tuned: sensitive, task, magnitude, random or all; may be repeated. "
            "By default, each of them."
        ),
    ] = None,
    source: Annotated[
        str, typer.Option(help="The perturbations: gaussian, on-the-fly (urng), lutopt, ...")
    ] = "lutopt",
    steps: Annotated[int, typer.Option(min=1, help="The steps of a training.")] = 1000,
    batch: Annotated[int, typer.Option(min=1, help="The windows of a step.")] = 64,
    queries: Annotated[
        int, typer.Option(min=1, help="The perturbations of a step, whose results are averaged.")
    ] = 1,
    eps: Annotated[float, typer.Option(help="The step of a perturbation.")] = 1e-2,
    clip: Annotated[float, typer.Option(help="The limit of a projected gradient.")] = 1.0,
    spread: Annotated[
        int,
        typer.Option(
            help="A window gives losses after so many characters fewer and more than 40; 0: one."
        ),
    ] = 4,
    seeds: Annotated[int, typer.Option(min=1, help="The number of trainings of each mask.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="The number of trainings at a time.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the trainings that an interrupted run finished.")
    ] = False,
    build: Build = Path("build"),
) -> None:
    """Tune few weights of a compressed language model on a text, by forward passes.

    Masks of the tuned weights are compared: sensitive, of the task, largest, random, and all.
    """
    from seedbed.flow.demos import personalise
    from seedbed.flow.demos.personalise_job import Schedule

    if lines is not None and model is None:
        raise ValueError("--lines goes with --model")
    folder = build / "demo" / ("lm-small" if model is None else "lm")
    personalise.personalise(
        model, folder, base=base, fractions=tuple(fraction or (0.001, 0.01)),
        masks=tuple(mask or personalise.MASKS), source=source,
        schedule=Schedule(
            steps=steps, batch=batch, queries=queries, eps=eps, clip=clip, spread=spread
        ),
        seeds=seeds, lines=lines or 300, jobs=jobs, resume=resume, console=Console(),
    )  # fmt: skip
