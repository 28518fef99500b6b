"""The report's plots, drawn from its JSON rows; each returns PNG bytes, or None without data.

A missing bar has a label in its place.
"""

from collections.abc import Callable, Iterable
from typing import Any

from matplotlib.axes import Axes

from seedbed.flow.run.plot_style import (
    NEUTRAL,
    OTHER,
    OURS,
    PAPER,
    label_missing,
    legend,
    panels,
    png,
)

__all__ = ["PLOTS"]

Rows = Iterable[dict[str, Any]]


def label(row: dict[str, Any]) -> str:
    """Return core and configuration, for an axis."""
    return f"{row['core']}\n{row['config']}"


def _bars(
    axes: Axes,
    groups: list[str],
    series: list[tuple[str, str, list[float | None], str]],
    *,
    text: Callable[[float], str] = "{:,}".format,
) -> None:
    """Draw vertical bars by group; a series is name, colour, values, label of a missing bar."""
    width = 0.8 / len(series)
    for k, (name, color, values, otherwise) in enumerate(series):
        places = [g + (k - (len(series) - 1) / 2) * width for g in range(len(groups))]
        there = [(p, v) for p, v in zip(places, values, strict=True) if v is not None]
        bars = axes.bar(
            [p for p, _ in there], [v for _, v in there], 0.9 * width, color=color, label=name
        )
        axes.bar_label(bars, [text(v) for _, v in there], padding=2, fontsize=7, rotation=90)
        for place, value in zip(places, values, strict=True):
            if value is None:
                label_missing(axes, (place, axes.get_ylim()[0]), otherwise, upright=True)
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=False, axis="x")


def resources(rows: Rows) -> bytes | None:
    """LUT and FF of each design that has a published counterpart, side by side, on a log scale."""
    found = [r for r in rows if r["kind"] == "synthesis" and r["paper"]]
    if not found:
        return None
    figure, pair = panels(2, 10, 1.6 + 0.62 * len(found), sharey=True)
    for axes, name in zip(pair, ("lut", "ff"), strict=True):
        axes.set_xscale("log")
        for place, row in enumerate(found):
            paper = row["paper"]["figures"]
            for shift, source, color, otherwise in (
                (-0.2, row["figures"], OURS, "not measured"),
                (0.2, paper, PAPER, "not in the paper"),
            ):
                value = source.get(name)
                if value:
                    bars = axes.barh(place + shift, value, 0.36, color=color)
                    axes.bar_label(bars, [f"{value:,}"], padding=3, fontsize=8)
                else:
                    label_missing(axes, (1, place + shift), otherwise if value is None else "0")
        # Space for the label of the longest bar; a log axis has no zero.
        axes.set_xlim(left=1, right=axes.get_xlim()[1] * 6)
        axes.set_xlabel(f"{name.upper()} (log scale)")
        axes.set_yticks(range(len(found)), [label(r) for r in found], fontsize=8)
        axes.grid(visible=False, axis="y")
    pair[0].invert_yaxis()
    for color, name in ((OURS, "measured here"), (PAPER, "in the paper")):
        pair[0].plot([], [], "s", color=color, label=name)
    legend(figure)
    return png(figure)


def fmax(rows: Rows) -> bytes | None:
    """Fmax of every placed design: median as a point, range over the seeds as a line."""
    found = [r for r in rows if r["kind"] == "place" and "fmax_mhz" in r["figures"]]
    if not found:
        return None
    figure, (axes,) = panels(1, 9, 1.4 + 0.36 * len(found))
    for place, row in enumerate(found):
        values = row["figures"]
        median = values["fmax_mhz"]
        low, high = values.get("fmax_min_mhz", median), values.get("fmax_max_mhz", median)
        axes.plot(
            [low, high], [place, place], color=OURS, linewidth=5, alpha=0.35,
            label="range over the seeds",
        )  # fmt: skip
        axes.plot(median, place, "o", color=OURS, label="median")
        axes.annotate(
            f"{median:.0f}", (high, place), (6, 0), textcoords="offset points", va="center",
            fontsize=8,
        )  # fmt: skip
    names = [f"{r['core']} {r['config']} ({r['target']})" for r in found]
    axes.set_yticks(range(len(found)), names, fontsize=8)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(0, axes.get_xlim()[1] * 1.05)
    axes.set_xlabel("Fmax in MHz after place and route")
    legend(figure)
    return png(figure)


def autocorrelation(rows: Rows) -> bytes | None:
    """Largest |r| by lag: of one generator with itself, and of any two lanes; a panel per width."""
    found = [r for r in rows if r["kind"] == "statistics" and "generator_by_lag" in r["figures"]]
    if not found:
        return None
    widths = sorted({r["params"]["width"] for r in found})
    figure, row_of_panels = panels(len(widths), max(5 * len(widths), 7), 4.2, sharey=True)
    for axes, width in zip(row_of_panels, widths, strict=True):
        for row in [r for r in found if r["params"]["width"] == width]:
            single = row["params"]["leap"] == 1
            # One legend entry for all panels.
            wide = row["params"]["leap"] == width and not single
            leap = "leap = width" if wide else f"leap {row['params']['leap']}"
            for name, style, text in (
                ("generator_by_lag", "-o", "a generator with itself"),
                ("any_pair_by_lag", "--x", "any lane with any lane"),
            ):
                values = row["figures"][name]
                lags = range(1, len(values) + 1)
                axes.plot(
                    lags, values, style, color=PAPER if single else OURS, ms=5,
                    label=f"{leap}, {text}",
                )  # fmt: skip
        axes.set_yscale("log")
        axes.set_xlabel("lag in beats")
        axes.set_title(f"{width} bits", fontsize=10)
    row_of_panels[0].set_ylabel("largest |r| (log scale)")
    legend(figure, columns=2)
    return png(figure)


def decompressor(rows: Rows) -> bytes | None:
    """LUT per weight and cycle, and relative error; one panel each, where measured."""
    rows = list(rows)
    cores = [r for r in rows if r["core"] == "seedlm_decompress"]
    # The paper's decompressor has 128 weights per cycle.
    sized = [r for r in cores if r["kind"] == "synthesis" and r["paper"]]
    judged = [r for r in cores if "relative_error" in r["figures"]]
    count = bool(sized) + bool(judged)
    if not count:
        return None
    figure, free = panels(count, 6 * count, 4.6)
    if sized:
        axes = free.pop(0)
        names = [r["config"].replace(", ", ",\n") for r in sized]
        ours = [r["figures"]["lut"] / r["params"]["blocks"] / r["params"]["block"] for r in sized]
        paper = sized[0]["paper"]["figures"]["lut"]
        params = sized[0]["params"]
        axes.axhline(
            paper / params["blocks"] / params["block"], color=PAPER, linestyle="--",
            label="in the paper",
        )  # fmt: skip
        _bars(axes, names, [("measured here", OURS, ours, "")], text="{:.0f}".format)
        axes.set_ylabel("LUT of xcup per weight and cycle")
        axes.set_ylim(bottom=0)
    if judged:
        axes = free.pop(0)
        series = [
            (title, color, [r["figures"].get(name) for r in judged], "not measured")
            for title, color, name in (
                ("SeedLM's blocks", OURS, "relative_error"),
                ("block floating point", OTHER, "plain_error"),
                ("exponents as the paper prints them", PAPER, "paper_rule_error"),
            )
        ]
        names = [r["config"].replace(", ", ",\n") for r in judged]
        _bars(axes, names, series, text="{:.3f}".format)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.1)
        axes.set_ylabel("relative error, Gaussian weights")
    legend(figure, columns=4)
    return png(figure)


def products(rows: Rows) -> bytes | None:
    """Cycles of matrix-vector products by matrix size, compressed and not, and the speed-up."""
    found = [r for r in rows if r["kind"] == "cycles"]
    if not found:
        return None
    sides = (512, 1024, 2048)
    figure, (cycles, times) = panels(2, 10, 4.4)
    marks = "osD^v"
    for row, mark in zip(found, marks, strict=False):
        paper = (row["paper"] or {}).get("figures", {})
        name = "" if len(found) == 1 else f", {row['config']}"
        for source, color, who in ((row["figures"], OURS, "here"), (paper, PAPER, "in the paper")):
            for axes, figures in ((cycles, ("cycles", "plain_cycles")), (times, ("speed_up",))):
                for figure_name in figures:
                    values = [source.get(f"{figure_name}_{side}") for side in sides]
                    if None in values:
                        continue
                    plain = figure_name == "plain_cycles"
                    what = "uncompressed weights" if plain else "compressed weights"
                    axes.plot(
                        sides, values, "--" if plain else "-", marker=mark, color=color, ms=5,
                        label=f"{what}, {who}{name}",
                    )  # fmt: skip
    for axes in (cycles, times):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sides, [f"{side} x {side}" for side in sides])
        axes.minorticks_off()
        axes.set_xlabel("matrix")
    cycles.set_yscale("log")
    cycles.set_ylabel("cycles per product (log scale)")
    times.set_ylabel("cycles uncompressed / compressed")
    legend(figure, columns=4)
    return png(figure)


def finetuning(rows: Rows) -> bytes | None:
    """Cycles per job and per cached sample, and accuracy before and after, by lanes."""
    found = [r for r in rows if r["kind"] == "job" and r["core"] == "instantft"]
    if not found:
        return None
    found.sort(key=lambda r: (r["params"].get("data", ""), r["params"]["lanes"]))
    names = [
        f"{r['params']['lanes']} lanes" + f"\n{r['params'].get('data', '')}".rstrip() for r in found
    ]
    figure, (job, sample, accuracy) = panels(3, 12, 4.4)
    for axes, name, text in (
        (job, "job_cycles", "cycles per job"),
        (sample, "pass_cycles", "cycles per cached sample"),
    ):
        _bars(
            axes, names, [("measured here", OURS, [r["figures"].get(name) for r in found], "none")],
            text=lambda value: f"{value:,.0f}",
        )  # fmt: skip
        paper = {r["paper"]["figures"].get(name) for r in found if r["paper"]} - {None}
        for value in paper:
            axes.axhline(value, color=PAPER, linestyle="--", label="in the paper")
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(low / 1.5, high * 2.5)
        axes.set_ylabel(f"{text} (log scale)")
    _bars(
        accuracy, names,
        [
            ("accuracy before", NEUTRAL, [r["figures"].get("accuracy_before") for r in found], ""),
            ("measured here", OURS, [r["figures"].get("accuracy_after") for r in found], ""),
            (
                "in the paper", PAPER,
                [(r["paper"] or {}).get("figures", {}).get("accuracy_after") for r in found],
                "not in the paper",
            ),
        ],
        text="{:.1f}".format,
    )  # fmt: skip
    accuracy.set_ylim(0, 115)
    accuracy.set_ylabel("accuracy on held-out images in %")
    legend(figure)
    return png(figure)


def demo(rows: Rows) -> bytes | None:
    """Accuracy after fine-tuning by source, mean and std; one panel per data set and k."""
    found = [r for r in rows if r["kind"] == "demo" and "accuracy_mean" in r["figures"]]
    if not found:
        return None

    def group_of(row: dict[str, Any]) -> tuple[str, int]:
        return row["params"].get("data", ""), row["params"]["shots"]

    groups = sorted(set(map(group_of, found)))
    sources = list(dict.fromkeys(r["params"]["source"] for r in found))
    figure, row_of_panels = panels(
        len(groups), max(1.5 + 3.4 * len(groups), 6), 1.8 + 0.32 * len(sources),
        sharex=True, sharey=True,
    )  # fmt: skip
    for axes, group in zip(row_of_panels, groups, strict=True):
        chosen = {r["params"]["source"]: r["figures"] for r in found if group_of(r) == group}
        for source, values in chosen.items():
            axes.errorbar(
                values["accuracy_mean"], sources.index(source), fmt="o", color=OURS, capsize=3,
                xerr=values.get("accuracy_std", 0), label="mean and standard deviation",
            )  # fmt: skip
        before = [v["accuracy_before"] for v in chosen.values() if "accuracy_before" in v]
        if before:
            axes.axvline(before[0], color=NEUTRAL, linestyle="--", label="before fine-tuning")
        axes.set_title(f"{group[0]} {group[1]} samples per class".strip(), fontsize=10)
        axes.set_xlabel("accuracy in %")
    row_of_panels[0].set_yticks(range(len(sources)), sources)
    row_of_panels[0].set_ylim(len(sources) - 0.4, -0.6)
    legend(figure)
    return png(figure)


#: File stem, caption and function of each plot.
PLOTS: list[tuple[str, str, Callable[[Rows], bytes | None]]] = [
    ("resources", "LUT and FF compared with the papers", resources),
    ("fmax", "Fmax over the seeds of place and route", fmax),
    ("autocorrelation", "Correlation of the generator array by lag", autocorrelation),
    ("demo", "Accuracy after zeroth-order fine-tuning", demo),
    (
        "decompressor",
        "Decompressor: area per weight and cycle, and compression error",
        decompressor,
    ),
    ("products", "Matrix-vector products: cycles, and speed-up by compressed weights", products),
    ("finetuning", "Fine-tuning in the RTL: cycles per job, and accuracy", finetuning),
]
