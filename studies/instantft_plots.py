"""Tables and plots of the InstantFT demonstration, made from its result."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.plot_style import legend, panels, png
from seedbed.studies.instantft_job import FIXED

__all__ = ["LABELS", "draw", "show"]

#: Label of a method and its cache in tables and plots, colour (Okabe and Ito, colour-blind safe)
#: and marker.
LABELS = {
    ("FT-All", "none"): ("FT-All", "#000000", "s"),
    ("FT-Last", "none"): ("FT-Last", "#E69F00", "^"),
    ("FT-Bias", "none"): ("FT-Bias", "#CC79A7", "v"),
    ("LoRA-All", "none"): ("LoRA-All", "#56B4E9", "D"),
    ("LoRA-Last", "none"): ("LoRA-Last", "#009E73", "<"),
    ("InstantFT", "none"): ("InstantFT, no cache", "#0072B2", "x"),
    ("InstantFT", "exact"): ("InstantFT", "#0072B2", "o"),
    ("InstantFT", "nf4"): ("InstantFT, NF4", "#0072B2", "P"),
    (FIXED, "exact"): ("InstantFT, fixed point", "#D55E00", "p"),
    (FIXED, "nf4"): ("InstantFT, fixed point, NF4", "#D55E00", "*"),
}
Result = dict[str, Any]


def label(row: Result) -> tuple[str, str, str]:
    """Return name, colour and marker of a row."""
    return LABELS[row["method"], row["cache"]]


def mean_std(row: Result, name: str) -> str:
    """Return the mean and, with several seeds, the standard deviation, as text."""
    deviation = row[f"{name}_std"]
    return f"{row[name]:.1f}" + ("" if deviation is None else f" ({deviation:.1f})")


def show(result: Result, console: Console) -> None:
    """Print a table of accuracies before and after, and a table of the six methods."""
    columns = {
        "before_tuned": "training, before",
        "after_tuned": "after",
        "before_held": "held-out, before",
        "after_held": "after",
    }
    seeds = len(result["seeds"])
    runs = f"mean (std) of {seeds} seeds" if seeds > 1 else "one seed"
    table = Table(
        title=f"Accuracy in %, {result['data']} rotated by {result['angle']:g} degrees, {runs}",
        caption=f"{result['tuned']} training images, {result['held']} held out; upright: "
        f"{result['upright']:.1f}; forward cache: {result['cache_bytes']['nf4']:,} bytes as NF4, "
        f"{result['cache_bytes']['float32']:,} as float32",
    )
    table.add_column("InstantFT")
    for title in columns.values():
        table.add_column(title, justify="right")
    table.add_column("saturations", justify="right")
    for row in result["table"]:
        kind = "fixed point" if row["method"] == FIXED else "float"
        cache = "with NF4" if row["cache"] == "nf4" else "without NF4"
        counted = str(row["saturations"]) if row["method"] == FIXED else ""
        cells = (mean_std(row, name) for name in columns)
        table.add_row(f"{kind}, {cache}", *cells, counted)
    console.print(table)
    table = Table(
        title="The methods in floating point; operations per sample, forward and backward",
        caption="seconds: processor time of one thread for all epochs; diverged: runs with "
        "infinity or NaN, included in the accuracy",
    )
    table.add_column("method")
    titles = ("trained", "forward", "backward", "memory", "seconds", "held-out", "diverged")
    for title in titles:
        table.add_column(title, justify="right")
    for row in result["times"]:
        costs = result["costs"][row["method"]]
        name = f"{row['method']}, forward cache" if row["cache"] == "exact" else row["method"]
        table.add_row(
            name,
            f"{costs['parameters']:,}",
            f"{costs['forward'] / 1e6:.3f} M",
            f"{costs['backward'] / 1e6:.3f} M",
            f"{costs['memory'] / 1e3:.1f} KB",
            f"{row['seconds']:.2f}",
            mean_std(row, "after_held"),
            f"{row['diverged']} of {seeds}" if row["diverged"] else "",
        )
    console.print(table)


def draw(result: Result, out: Path) -> list[Path]:
    """Write the plots to ``out`` and return their paths."""
    figures = {"instantft_angle": draw_angles, "instantft_time": draw_times}
    paths = []
    for name, drawn in figures.items():
        figure, (axes,) = panels(1, 6, 4.4)
        drawn(result, axes)
        legend(figure)
        paths.append(write_atomic(out / f"{name}.png", png(figure)))
    return paths


def draw_angles(result: Result, axes: Axes) -> None:
    """Draw held-out accuracy against the angle; Figure 7a."""
    rows = result["angles"]
    places = list(dict.fromkeys(row["angle"] for row in rows))
    for key, (name, colour, mark) in LABELS.items():
        line = [row for row in rows if (row["method"], row["cache"]) == key]
        if line:
            shares = [row["after_held"] for row in line]
            axes.plot(places, shares, color=colour, marker=mark, label=name)
    before = [row["before_held"] for row in rows if row["method"] == "InstantFT"]
    axes.plot(places, before, color="#888888", linestyle=":", label="no fine-tuning")
    axes.set_xticks(places)
    axes.set(xlabel="Rotation (degrees)", ylabel="Held-out accuracy (%)", title=result["data"])


def draw_times(result: Result, axes: Axes) -> None:
    """Draw held-out accuracy against the processor time of fine-tuning; Figure 1."""
    for row in result["times"]:
        _, colour, mark = label(row)
        cache = ", forward cache" if row["cache"] == "exact" else ""
        axes.errorbar(
            row["seconds"],
            row["after_held"],
            row["after_held_std"] or 0,
            color=colour,
            marker=mark,
            linestyle="none",
            capsize=3,
            label=row["method"] + cache,
        )
    axes.set(
        xlabel="Processor time of fine-tuning, NumPy, one thread (s)",
        ylabel="Held-out accuracy (%)",
        title=f"{result['data']} rotated by {result['angle']:g} degrees",
    )
    axes.set_xlim(left=0)
