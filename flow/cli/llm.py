"""The command ``demo llm``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from seedbed.flow.run.options import Build

__all__ = ["demo_llm"]


def demo_llm(
    model: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="The folder that 'seedbed import' wrote of a LLaMA-like decoder. Without it, a "
            "small random model is taken.",
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="What a text begins with. The option may be repeated."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, max=4096, help="The tokens of a text.")] = 32,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Run the same weights in float64, too, and compare."),
    ] = False,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="With --compare: a text, whose first 128 tokens are compared. The option may be "
            "repeated.",
        ),
    ] = None,
    rtl: Annotated[
        bool,
        typer.Option(
            "--rtl",
            help="Make the first text in the emitted Verilog, and compare every logit with the "
            "model's.",
        ),
    ] = False,
    build: Build = Path("build"),
) -> None:
    """Generate text by a language model in integers, bit for bit what the core computes."""
    from seedbed.studies.llm import PROMPTS, run_llm

    if text and not compare:
        raise ValueError("--text needs --compare")
    if rtl and compare:
        raise ValueError("--rtl and --compare do not go together")
    run_llm(
        model, build, Console(), prompts=prompt or PROMPTS, count=tokens, texts=text or (),
        compare=compare, rtl=rtl,
    )  # fmt: skip
