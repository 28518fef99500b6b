"""Tables and plots of the fine-tuning demonstration, made from its result."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.plot_style import legend, panels, png

__all__ = ["LABELS", "draw", "show"]

#: Labels of the sources in tables and plots, and colours (Okabe and Ito, colour-blind safe).
LABELS = {
    "gaussian": ("Gaussian (MeZO)", "#000000"),
    "on-the-fly": ("PeZO, on the fly", "#0072B2"),
    "leap-3": ("PeZO, leap 3", "#56B4E9"),
    "leap-14": ("PeZO, leap 14", "#F0E442"),
    "lutopt": ("LUT-optimised", "#E69F00"),
    "pre-generated": ("PeZO, pre-generated", "#D55E00"),
    "unscaled": ("Uniform, unscaled", "#CC79A7"),
    "rademacher": ("Rademacher (+1, -1)", "#009E73"),
    "backpropagation": ("Backpropagation (Adam)", "#888888"),
}
Result = dict[str, Any]


def show(result: Result, console: Console) -> None:
    """Print the table of sources, and a table for each sweep and for the rates."""
    shots = result["settings"]["shots"]
    table = Table(
        title="Held-out accuracy in % after zeroth-order fine-tuning: mean (std) over the seeds",
        caption=f"{result['data']}, d = {result['d']}, {result['settings']['steps']} steps; "
        f"before: {result['before']:.1f} rotated, {result['upright']:.1f} upright",
    )
    table.add_column("Perturbation")
    for k in shots:
        table.add_column(f"k = {k}", justify="right")
        table.add_column("to Gaussian", justify="right")
    table.add_column("diverged", justify="right")
    for source in dict.fromkeys(row["source"] for row in result["rows"]):
        cells = [LABELS[source][0]]
        rows = [find_row(result, source, k) for k in shots]
        for row in rows:
            cells += [mean_std(row), "" if source == "gaussian" else f"{row['gap']:+.1f}"]
        diverged, runs = (sum(row[name] for row in rows) for name in ("diverged", "seeds"))
        table.add_row(*cells, f"{diverged} of {runs}" if diverged else "")
    console.print(table)
    for name, sweep in result["sweeps"].items():
        table = Table(title=f"{LABELS[sweep['source']][0]}: accuracy and loss by {name}")
        table.add_column(name, justify="right")
        table.add_column("accuracy", justify="right")
        table.add_column("training loss", justify="right")
        for row in sweep["rows"]:
            loss = "diverged" if row["loss"] is None else f"{row['loss']:.3f}"
            table.add_row(str(row[sweep["parameter"]]), mean_std(row), loss)
        console.print(table)
    table = Table(title=f"Accuracy by learning rate, k = {shots[-1]}")
    rated = {(row["source"], row["rate"]): row for row in result["rates"]}
    sources = list(dict.fromkeys(source for source, _ in rated))
    table.add_column("rate", justify="right")
    for source in sources:
        table.add_column(LABELS[source][0], justify="right")
    for rate in dict.fromkeys(rate for _, rate in rated):
        table.add_row(f"{rate:g}", *(mean_std(rated[source, rate]) for source in sources))
    console.print(table)


def find_row(result: Result, source: str, shots: int) -> Result:
    """Return the row of a source with ``shots`` samples per class."""
    return next(r for r in result["rows"] if r["source"] == source and r["shots"] == shots)


def mean_std(row: Result) -> str:
    """Return the mean and, with several seeds, the standard deviation, as text."""
    return f"{row['mean']:.1f}" + (f" ({row['std']:.1f})" if row["std"] is not None else "")


def draw(result: Result, out: Path) -> list[Path]:
    """Write the plots to ``out`` and return their paths."""
    shots = result["settings"]["shots"]
    bits = "Bits of a generator (31 lanes; at 4 bits 15)"
    losses, axes = panels(len(shots), 5 * len(shots), 4)
    for one, k in zip(axes, shots, strict=True):
        draw_losses(result, one, k)
    numbers, (lanes, pool) = panels(2, 10, 4, sharey=True)
    draw_sweep(result, "lanes", lanes, "mean", "Number of generators, 14 bits each")
    draw_sweep(result, "pool", pool, "mean", "Numbers in the pool, 12 bits each")
    widths, (loss, accuracy) = panels(2, 10, 4)
    draw_sweep(result, "bits", loss, "loss", bits)
    draw_sweep(result, "bits", accuracy, "mean", bits)
    rates, (single,) = panels(1, 6, 4)
    draw_rates(result, single)
    figures = {"zo_loss": losses, "zo_numbers": numbers, "zo_bits": widths, "zo_rates": rates}
    paths = []
    for name, figure in figures.items():
        legend(figure, columns=1 + len(figure.axes))
        paths.append(write_atomic(out / f"{name}.png", png(figure)))
    return paths


def draw_losses(result: Result, axes: Axes, shots: int) -> None:
    """Draw the training loss over the steps; the legend lists diverged sources."""
    steps = result["settings"]["steps"]
    for source, (label, colour) in LABELS.items():
        row = find_row(result, source, shots)
        curve = row["curve"]
        if curve:
            places = [(i + 0.5) * steps / len(curve) for i in range(len(curve))]
            axes.plot(places, curve, color=colour, label=label)
        elif row["diverged"]:
            axes.plot([], [], color=colour, linestyle=":", label=f"{label}: diverged")
    axes.set(
        title=f"k = {shots} samples per class",
        xlabel="Step",
        ylabel="Training loss (cross-entropy)",
        yscale="log",
    )
    low, high = axes.get_ylim()
    ticks = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 20) if low <= t <= high]
    # Losses with a small range have matplotlib's ticks.
    if len(ticks) > 1:
        axes.minorticks_off()
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def draw_rates(result: Result, axes: Axes) -> None:
    """Draw the accuracy over the rate, for the sources with such a sweep."""
    for source in dict.fromkeys(row["source"] for row in result["rates"]):
        rows = [row for row in result["rates"] if row["source"] == source]
        label, colour = LABELS[source]
        axes.errorbar(
            [row["rate"] for row in rows],
            [row["mean"] for row in rows],
            [row["std"] or 0 for row in rows],
            color=colour,
            marker="o",
            capsize=3,
            label=label,
        )
    places = sorted({row["rate"] for row in result["rates"]})
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.axvline(
        result["settings"]["rate"], color="#888888", linestyle=":", label="rate of the table"
    )
    axes.set(xlabel="Learning rate eta", ylabel="Held-out accuracy (%)")


def draw_sweep(result: Result, name: str, axes: Axes, figure: str, label: str) -> None:
    """Draw accuracy (``mean``) or ``loss`` over a parameter, with the Gaussian as a reference."""
    sweep = result["sweeps"][name]
    deviation = "std" if figure == "mean" else "loss_std"
    rows = [row for row in sweep["rows"] if row[figure] is not None]
    places = [row[sweep["parameter"]] for row in rows]
    title, colour = LABELS[sweep["source"]]
    gaussian = find_row(result, "gaussian", result["settings"]["shots"][-1])
    if gaussian[figure] is not None:
        axes.axhline(gaussian[figure], color="black", linestyle="--", label=LABELS["gaussian"][0])
    axes.errorbar(
        places,
        [row[figure] for row in rows],
        [row[deviation] or 0 for row in rows],
        color=colour,
        marker="o",
        capsize=3,
        label=f"{title}: mean, standard deviation",
    )
    if name != "bits":
        axes.set_xscale("log", base=2)
    axes.set_xticks(places, [str(place) for place in places])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_ylabel("Held-out accuracy (%)" if figure == "mean" else "Final training loss")
