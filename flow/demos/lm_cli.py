"""The command ``demo lm``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.options import Build

__all__ = ["demo_lm"]


def demo_lm(
    model: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="The folder with model.safetensors, vocab.json and texts *.txt. Without it, a "
            "small model is trained.",
        ),
    ] = None,
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
