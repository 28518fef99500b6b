"""The commands ``demo lm`` and ``demo personalise``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import Build

__all__ = ["Model", "demo_lm", "demo_personalise"]


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
        bool,
        typer.Option("--resume", help="Keep what an interrupted run finished; not with --rtl."),
    ] = False,
    rtl: Annotated[
        bool,
        typer.Option("--rtl", help="Tune kept weights, with all products in the emitted Verilog."),
    ] = False,
    integer: Annotated[
        bool, typer.Option("--integer", help="The same with the golden model alone.")
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="The steps of the tuning. Default: 40, 4 (--model) or 300."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="The windows of a step. Default: 16, or 64.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="The first step's rate. Default: 0.03, or 0.003 (--model).")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="The limit of a projected gradient. Default: 1.")
    ] = None,
    spread: Annotated[
        int | None,
        typer.Option(
            help="A window gives losses after so many characters fewer and more than 40. "
            "Default: 4; 0: one loss."
        ),
    ] = None,
    fraction: Annotated[
        float | None, typer.Option(help="The fraction of kept weights. Default: 0.01, or 0.001.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A mask of kept weights.")
    ] = None,
    characters: Annotated[
        int | None, typer.Option(min=1, help="The number of held-out characters that are judged.")
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(
            help="How weights that are not kept are packed, seedlm or trellis. Default: seedlm."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the tuning.")] = 0,
    stalls: Annotated[
        bool, typer.Option("--stalls", help="With --rtl: every port pauses at random.")
    ] = False,
    build: Build = Path("build"),
) -> None:
    """Compress a language model in several formats, and measure what is lost.

    Each format is measured with 0, 0.1 and 1 % of the weights kept, without and with importance,
    by several statistics and dampings: divergence from the float model, and perplexity.

    With --rtl or --integer, a 4-bit model's kept weights are tuned on a text by forward passes in
    integers, and the perplexity is compared with that before.
    """
    if lines is not None and model is None:
        raise ValueError("--lines goes with --model")
    folder = build / "demo" / ("lm-small" if model is None else "lm")
    given = {
        "steps": steps, "batch": batch, "rate": rate, "clip": clip, "spread": spread,
        "fraction": fraction, "keep": keep, "characters": characters, "decode": decode,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if not (rtl or integer):
        from seedbed.studies import lm

        for name in [*given, *["seed"] * (seed > 0), *["stalls"] * stalls]:
            raise ValueError(f"--{name} goes with --rtl or --integer")
        lm.run_lm(model, folder, lines=lines or 60, resume=resume, console=Console())
        return
    if rtl and integer:
        raise ValueError("--rtl and --integer exclude each other")
    if rtl and resume:
        raise ValueError("--resume goes without --rtl")
    if stalls and not rtl:
        raise ValueError("--stalls goes with --rtl")
    from seedbed.flow.jobs import lm_core

    defaults = lm_core.SMALL | {"steps": 40} if model is None else {}
    defaults |= {} if rtl else {"steps": 300, "batch": 64}
    lm_core.run_core(
        model, folder, lm_core.Job(**(defaults | given), seed=seed), rtl=rtl, build=build,
        lines=lines or 60, pauses=8 if stalls else 0, resume=resume, console=Console(),
    )  # fmt: skip


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
    from seedbed.studies import personalise
    from seedbed.studies.personalise_job import Schedule

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
