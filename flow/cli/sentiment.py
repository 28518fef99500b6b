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
    steps: Annotated[int, typer.Option(min=1, help="The steps of a training.")] = 300,
    batch: Annotated[int, typer.Option(min=1, help="The sentences of a step.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="The number of trainings of each kind.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="The number of trainings at a time.")] = 1,
    build: Build = BUILD,
) -> None:
    """Tune the last layer of an encoder on the sentiment of sentences, by forward passes.

    Sources of perturbations are compared, and choices of weights, each with its own rate; few
    weights are tuned beside a base of 4 bits. An interrupted run is resumed by the same command.
    """
    from seedbed.studies import sentiment

    name = "sentences" if data is None else data.resolve().name
    sentiment.sentiment(
        model, data, build / "demo" / f"sentiment-{name}", ks=tuple(k or ()),
        only=tuple(only or sentiment.TABLES), steps=steps, batch=batch, seeds=seeds, jobs=jobs,
        console=Console(),
    )  # fmt: skip
