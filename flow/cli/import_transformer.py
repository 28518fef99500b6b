"""The command ``import`` of a transformer."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from seedbed.flow.run.files import require_outputs
from seedbed.flow.run.options import show_table

__all__ = ["import_transformer", "show_figures"]

if TYPE_CHECKING:
    from seedbed.flow.importer.program_figures import Figures

out = Console()
err = Console(stderr=True)
#: Vectors multiplied at once.
VECTORS = 4
#: The greatest share of kept weights.
MOST = 0.05


def import_transformer(
    model: Path, output: Path, format_: str | None, text: Path | None, tokens: int | None,
    context: int | None, *, feedback: bool, keep: float | None, pack_head: bool, dry_run: bool,
    force: bool, json_: bool,
) -> None:  # fmt: skip
    """Print what the program of a transformer takes, and write it."""
    from seedbed.flow.importer import (
        packed_rows,
        program_file,
        transformer_files,
        transformer_import,
    )
    from seedbed.flow.importer.program_figures import BLOCKS, figures
    from seedbed.flow.importer.transformers import Encoder

    if format_ is not None and format_ not in transformer_import.FORMATS:
        allowed = ", ".join(transformer_import.FORMATS)
        raise ValueError(f"--format must be one of {allowed}, not {format_!r}")
    if not dry_run:
        require_outputs(*(output / name for name in program_file.FILES), force=force)
    lines: Sequence[str] = transformer_import.CALIBRATION
    if text:
        lines = transformer_import.text_of(text).splitlines()
    read = transformer_files.read(model)
    encoder = isinstance(read.model, Encoder)
    if encoder and context is not None:
        raise ValueError("--context goes with a decoder; of an encoder, it is --tokens")
    default, after = BLOCKS[encoder]
    block = tokens or default
    of_file = format_ or ("file" if read.path.suffix == ".gguf" else "trellis")
    if feedback and (of_file not in packed_rows.FED_BACK or not text):
        raise ValueError(
            f"--feedback needs --text, and --format {' or '.join(packed_rows.FED_BACK)}"
        )
    if keep is not None and (of_file != packed_rows.KEEPING or not 0 < keep <= MOST):
        raise ValueError(
            f"--keep must be above 0 and at most {MOST:g}, with --format {packed_rows.KEEPING}"
        )
    if pack_head and (encoder or of_file in ("plain", "file")):
        allowed = ", ".join(packed_rows.COMPRESSED)
        raise ValueError(f"--pack-head goes with a decoder, and --format {allowed}")
    plan = transformer_import.plan(read, of_file, keep or 0, pack_head=pack_head)
    found = figures(
        plan.program, plan.places, plan.image, tokens=block,
        context=block if encoder else max(context or after, block), vectors=VECTORS,
    )  # fmt: skip
    if json_:
        derived = {name: getattr(found, name) for name in ("cycles", "per_second", "per_gigabyte")}
        print(json.dumps({"format": of_file, **asdict(found), **derived}, indent=1))
    else:
        show_figures(found, out)
    if dry_run:
        return
    transformer_import.write(plan, output, lines, err, feedback=feedback)
    if not json_:
        for name in program_file.FILES:
            out.print(output / name, markup=False, highlight=False, soft_wrap=True)


def show_figures(found: "Figures", console: Console) -> None:
    """Print what a program takes, in a core with a port of 512 bits at 200 MHz."""
    title = f"{found.tokens:,} token{'s' * (found.tokens > 1)} of {found.context:,}, "
    title += "64 bytes a cycle, 8 elements a cycle"
    lines = [
        ("memory image", f"{found.image:,} bytes"),
        ("read", f"{found.read:,} bytes"),
        ("keys and values", f"{found.cache:,} bytes"),
        ("vectors", f"{found.vectors:,} bytes"),
        ("cycles of matrices", f"{found.matrix_cycles:,}"),
        ("cycles of the vector unit", f"{found.vector_cycles:,}"),
        ("at 200 MHz", f"{found.per_second:,.1f} tokens/s"),
        ("for each GB/s", f"{found.per_gigabyte:,.2f} tokens/s"),
    ]
    show_table(console, ["", "predicted"], lines, title=title)
