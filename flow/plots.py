"""The report's plots, drawn from its JSON rows alone; each returns PNG bytes, or None without data.

A bar or point that nobody measured is not drawn.
"""

from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

__all__ = ["PAPER", "PLOTS", "png"]

OURS, PAPER = "#1f5f99", "#c8862a"


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG file's content."""
    buffer = BytesIO()
    # No version in the file: the same rows give the same bytes.
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def label(row: dict[str, Any]) -> str:
    """Return core and configuration, for an axis."""
    return f"{row['core']}\n{row['config']}"


def resources(rows: Iterable[dict[str, Any]]) -> bytes | None:
    """LUT and FF of each design that has a published counterpart, side by side, on a log scale."""
    found = [r for r in rows if r["kind"] == "synthesis" and r["paper"]]
    if not found:
        return None
    figure = Figure(figsize=(10, 1.4 + 0.62 * len(found)), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2, sharey=True), ("lut", "ff"), strict=True):
        for place, row in enumerate(found):
            paper = row["paper"]["figures"]
            for shift, source, color in ((-0.2, row["figures"], OURS), (0.2, paper, PAPER)):
                if source.get(name):
                    bars = axes.barh(place + shift, source[name], 0.36, color=color)
                    axes.bar_label(bars, [f"{source[name]:,}"], padding=3, fontsize=8)
        axes.set_xscale("log")
        # Room for the label of the longest bar; a log axis has no zero to start at.
        axes.set_xlim(left=1, right=axes.get_xlim()[1] * 6)
        axes.set_xlabel(f"{name.upper()} (log scale)")
        axes.set_yticks(range(len(found)), [label(r) for r in found], fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()
    for color, name in ((OURS, "measured"), (PAPER, "paper, Table 6")):
        axes.barh([0], [0], color=color, label=name)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return png(figure)


def fmax(rows: Iterable[dict[str, Any]]) -> bytes | None:
    """Fmax of every placed design: the median as a point, the range over the seeds as a line."""
    found = [r for r in rows if r["kind"] == "place" and "fmax_mhz" in r["figures"]]
    if not found:
        return None
    figure = Figure(figsize=(9, 1.2 + 0.42 * len(found)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(found):
        values = row["figures"]
        median = values["fmax_mhz"]
        low, high = values.get("fmax_min_mhz", median), values.get("fmax_max_mhz", median)
        axes.plot([low, high], [place, place], color=OURS, linewidth=5, alpha=0.35)
        axes.plot(median, place, "o", color=OURS)
        axes.annotate(
            f"{median:.0f}", (high, place), (6, 0), textcoords="offset points", va="center"
        )
    names = [f"{r['core']} {r['config']} ({r['target']})" for r in found]
    axes.set_yticks(range(len(found)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, axes.get_xlim()[1] * 1.08)
    axes.set_xlabel("Fmax in MHz, median and range over the seeds of place and route")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return png(figure)


def autocorrelation(rows: Iterable[dict[str, Any]]) -> bytes | None:
    """Largest |r| by lag: of one generator with itself, and of any two lanes; a panel a width."""
    found = [r for r in rows if r["kind"] == "statistics" and "generator_by_lag" in r["figures"]]
    if not found:
        return None
    widths = sorted({r["params"]["width"] for r in found})
    figure = Figure(figsize=(5 * len(widths), 3.8), layout="constrained")
    panels = figure.subplots(1, len(widths), sharey=True, squeeze=False)[0]
    for axes, width in zip(panels, widths, strict=True):
        for row in [r for r in found if r["params"]["width"] == width]:
            leap = row["params"]["leap"]
            color = PAPER if leap == 1 else OURS
            for name, style, text in (
                ("generator_by_lag", "-o", "a generator with itself"),
                ("any_pair_by_lag", "--x", "any lane with any lane"),
            ):
                values = row["figures"][name]
                lags = range(1, len(values) + 1)
                axes.plot(lags, values, style, color=color, ms=5, label=f"leap {leap}, {text}")
        axes.set_yscale("log")
        axes.set_xlabel("lag in beats")
        axes.set_title(f"{width} bits", fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False)
    panels[0].set_ylabel("largest |r| (log scale)")
    return png(figure)


def demo(rows: Iterable[dict[str, Any]]) -> bytes | None:
    """Accuracy after fine-tuning by source, mean and deviation; a panel a data set and k."""
    found = [r for r in rows if r["kind"] == "demo" and "accuracy_mean" in r["figures"]]
    if not found:
        return None
    groups = sorted({(row["params"].get("data", ""), row["params"]["shots"]) for row in found})
    figure = Figure(figsize=(1.5 + 3.8 * len(groups), 3.2), layout="constrained")
    panels = figure.subplots(1, len(groups), sharex=True, sharey=True, squeeze=False)[0]
    for axes, group in zip(panels, groups, strict=True):
        chosen = [
            row for row in found if (row["params"].get("data", ""), row["params"]["shots"]) == group
        ]
        for place, row in enumerate(chosen):
            values = row["figures"]
            axes.errorbar(
                values["accuracy_mean"],
                place,
                xerr=values.get("accuracy_std", 0),
                fmt="o",
                color=OURS,
                capsize=3,
            )
        before = [
            r["figures"]["accuracy_before"] for r in chosen if "accuracy_before" in r["figures"]
        ]
        if before:
            axes.axvline(before[0], color=PAPER, linestyle="--", label="before fine-tuning")
            axes.legend(fontsize=8, frameon=False)
        axes.set_yticks(range(len(chosen)), [r["params"]["source"] for r in chosen], fontsize=9)
        axes.set_title(f"{group[0]} {group[1]} samples a class".strip(), fontsize=10)
        axes.set_xlabel("accuracy in %, mean and standard deviation")
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    return png(figure)


#: Each plot's file stem, its caption, and what draws it.
PLOTS: list[tuple[str, str, Callable[[Iterable[dict[str, Any]]], bytes | None]]] = [
    ("resources", "LUT and FF beside the paper's", resources),
    ("fmax", "Fmax over the seeds of place and route", fmax),
    ("autocorrelation", "Correlation of the generator array by lag", autocorrelation),
    ("demo", "Accuracy after zeroth-order fine-tuning", demo),
]
