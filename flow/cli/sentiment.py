"""The command ``demo sentiment``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import BUILD, Build

__all__ = ["demo_sentiment"]


def demo_sentiment(
    model: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="The folder of a BERT-like encoder: model.safetensors, config.json and "
            "tokenizer.json. Without it, a small one has random weights.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="A folder with sets of sentences: *.csv with the columns text and label, or *.txt "
            "with a number, a rating and a text a line. Without it, a few are embedded.",
        ),
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option(
            "--k",
            help="Sentences of a class to train on; may be repeated. Default: 16, and with --data "
            "256.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="A table: sources, tuned or base; may be repeated. By default, each of them."
        ),
    ] = None,
    rtl: Annotated[
        bool,
        typer.Option(
            "--rtl",
            help="Tune kept weights of all layers in the emitted streamed engine, bit-exact.",
        ),
    ] = False,
    integers: Annotated[
        bool,
        typer.Option(
            "--integers",
            help="Tune the same weights in the model of the streamed engine, with its own rate.",
        ),
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="The steps of a training, by default 300, with --rtl 8."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="The sentences of a step.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="The number of trainings of each kind.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="The number of trainings at a time.")] = 1,
    build: Build = BUILD,
) -> None:
    """Tune the last layer of an encoder on the sentiment of sentences, by forward passes.

    Sources of perturbations are compared, and choices of weights, each with its own rate; few
    weights are tuned beside a base of 4 bits. An interrupted run is resumed by the same command.
    With --rtl, weights of all layers that are kept beside a base of 4 bits are tuned in the memory
    of the emitted streamed engine, and the log of the steps is replayed. With --integers, they are
    tuned in its model alone, in more steps and trainings.
    """
    name = "sentences" if data is None else data.resolve().name
    out = build / "demo" / f"sentiment-{name}"
    if rtl or integers:
        mode = "rtl" if rtl else "integers"
        if rtl and integers:
            raise ValueError("--rtl does not go with --integers")
        if only:
            raise ValueError(f"--only does not go with --{mode}")
        if len(k or ()) > 1:
            raise ValueError(f"--{mode} takes --k once")
        (count,) = k or [16 if data is None else 256]
        if integers:
            from seedbed.studies.sentiment_integers import run_integers

            run_integers(
                model, data, out, k=count, steps=steps or 300, batch=batch, seeds=seeds,
                jobs=jobs, console=Console(),
            )  # fmt: skip
            return
        from seedbed.studies import sentiment_tuning

        settings = sentiment_tuning.settings(model, k=count, steps=steps or 8, batch=batch)
        sentiment_tuning.run_tuning(
            model, data, out, settings=settings, build=build, console=Console()
        )
        return
    from seedbed.studies import sentiment

    sentiment.sentiment(
        model, data, out, ks=tuple(k or ()), only=tuple(only or sentiment.TABLES),
        steps=steps or 300, batch=batch, seeds=seeds, jobs=jobs, console=Console(),
    )  # fmt: skip
