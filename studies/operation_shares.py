"""The plot of what operations of programs take in the core: of all models that have been run."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.plot_style import legend, panels, png
from seedbed.sim.jobs.stream_job import Block

__all__ = ["add", "draw"]

#: Labels and colours of operations (Okabe and Ito, colour-blind safe), in the order of the bars.
OPERATIONS = {
    "Matrix": ("matrices", "#0072B2"),
    "Attend": ("attention", "#D55E00"),
    "Norm": ("norms", "#009E73"),
    "Rotate": ("rotations", "#CC79A7"),
    "Multiply": ("products", "#E69F00"),
}
OTHERS = "others", "#888888"


def add(folder: Path, name: str, block: Block, console: Console) -> None:
    """Write what a block of a model's tokens took to ``folder``, and the plot of all there are."""
    result = {
        "tokens": block.tokens, "cycles": block.cycles, "beats": block.beats, "kinds": block.kinds
    }  # fmt: skip
    write_atomic(folder / f"{name}.json", json.dumps(result, indent=1) + "\n")
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    plot = write_atomic(folder / "operations.png", draw(found))
    console.print(f"The shares of operations are drawn in {plot}.", soft_wrap=True)


def draw(found: dict[str, dict[str, Any]]) -> bytes:
    """Draw the shares of operations in the cycles of blocks, a bar each, as PNG."""
    figure, (axes,) = panels(1, 8, 1.3 + 0.42 * len(found))
    for k, each in enumerate(reversed(found.values())):
        cycles, start = each["cycles"], 0.0
        counts = [each["kinds"].get(kind, 0) for kind in OPERATIONS]
        counts.append(cycles - sum(counts))
        for count, (label, colour) in zip(counts, [*OPERATIONS.values(), OTHERS], strict=True):
            share = 100 * count / cycles
            axes.barh(k, share, left=start, color=colour, label=label, height=0.7)
            start += share
        tokens = f"{each['tokens']} token{'s' * (each['tokens'] > 1)}"
        text = f"{tokens}: {cycles:,} cycles, {cycles / each['beats']:.3f} a beat"
        axes.annotate(text, (2, k), va="center", fontsize=7, color="white")
    axes.set_yticks(range(len(found)), [*reversed(found)], fontsize=8)
    axes.set(xlabel="Share of the cycles (%)", xlim=(0, 100), ylim=(-0.6, len(found) - 0.4))
    axes.grid(visible=False, axis="y")
    legend(figure, columns=6)
    return png(figure)
