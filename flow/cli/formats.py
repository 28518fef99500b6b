"""The command ``demo formats``."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import Build

__all__ = ["demo_formats"]


def demo_formats(
    model: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="The folder of a model with texts: as for 'demo lm', a Llama in GGUF, or a BERT; "
            "or a safetensors file, or the index or folder of a sharded one. Without it, random "
            "weights are used.",
        ),
    ] = None,
    tensors: Annotated[
        str,
        typer.Option(
            metavar="GLOB",
            help="Only errors, of matrices with matching names in safetensors files.",
        ),
    ] = "*",
    methods: Annotated[
        str, typer.Option(metavar="GLOB", help="Methods with matching names.")
    ] = "*",
    seeds: Annotated[
        int, typer.Option(min=1, help="The matrices of each kind of random weights.")
    ] = 3,
    lines: Annotated[
        int, typer.Option(min=1, help="With texts: the number of lines of each text.")
    ] = 60,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="The number of processes. By default, one per processor."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what an interrupted run finished.")
    ] = False,
    build: Build = Path("build"),
) -> None:
    """Compare methods of few bits per weight: what each loses, on the same weights.

    Every method is measured without and with 0.1 % of the weights kept in 16 bits; on a model
    with texts, also with feedback of errors, by several statistics.
    """
    from seedbed.studies import formats

    name = "random" if model is None else formats.name_of(model)
    formats.run_formats(
        model, build / "demo" / f"formats-{name}", tensors=tensors, methods=methods, seeds=seeds,
        lines=lines, jobs=jobs or len(os.sched_getaffinity(0)), resume=resume, console=Console(),
    )  # fmt: skip
