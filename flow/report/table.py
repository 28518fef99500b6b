"""A report table: text cells from report rows, rendered as Markdown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "HEADINGS", "STALE", "JsonRow", "Table", "data_set", "design", "format_figure",
    "from_columns", "from_rows", "markdown", "published", "seeds",
]  # fmt: skip

JsonRow = dict[str, Any]
#: The mark of a row that was measured on an earlier netlist.
STALE = "†"

#: Column headings of the figures. A figure without a heading is in no table.
HEADINGS = {
    "lut": "LUT",
    "lut_carry": "route-through LUTs",
    "ff": "FF",
    "bram": "BRAM",
    "dsp": "DSP",
    "cells": "cells",
    "lut_per_lane": "LUT per lane",
    "bits": "bits",
    "fmax_mhz": "Fmax MHz, median",
    "fmax_min_mhz": "min",
    "fmax_max_mhz": "max",
    "fmax_logic_mhz": "ready from a LUT4",
    "fmax_free_mhz": "no floorplan",
    "clock_mhz": "clock MHz",
    "lut_per_beat": "LUT per beat, ratio",
    "ff_per_beat": "FF per beat, ratio",
    "lut_per_number": "LUT per new number, ratio",
    "ff_per_number": "FF per new number, ratio",
    "lut_per_lane_more": "extra LUT per lane",
    **{f"cycles_{side}": f"cycles, {side}" for side in (512, 1024, 2048)},
    **{f"tenth_percent_cycles_{side}": f"cycles, {side}, 0.1 % kept" for side in (512, 1024, 2048)},
    **{f"one_percent_cycles_{side}": f"cycles, {side}, 1 % kept" for side in (512, 1024, 2048)},
    **{f"speed_up_{side}": f"speed-up, {side}" for side in (512, 1024, 2048)},
    "blocks": "blocks",
    "images": "training images",
    "held_images": "held-out images",
    "job_cycles": "cycles per job",
    "pass_cycles": "cycles per cached sample",
    "job_ms": "job, ms",
    "step_cycles": "cycles per step",
    "sample_cycles": "cycles per sample",
    "forward_cycles": "cycles per pass",
    "perturbed_cycles": "cycles per perturbed pass",
    "throughput_percent": "perturbed throughput, %",
    "reads_per_update": "reads per update",
    "writes_per_update": "writes per update",
    "epoch_cycles": "cycles per MNIST epoch",
    "epoch_s": "MNIST epoch, s",
    "step_ratio": "step over its forward passes",
    "frames": "frames",
    "cycles_per_second": "simulated cycles per second",
    "runs": "runs",
    "cycles": "cycles",
    "beats": "beats",
    "proved": "proved",
    "covers": "covers reached",
    "mutants": "mutants",
    "killed": "killed",
    "score_percent": "score %",
    "lane_autocorrelation": "lane, lags 1..8",
    "generator_autocorrelation": "generator, lags 1..8",
    "lane_to_lane": "lane to lane, lag 0",
    "any_pair": "any pair, lags 1..8",
    "bytes": "bytes",
    "period_bytes": "period, bytes",
    "tests": "tests",
    "failed": "failed",
    "weak": "weak",
    "reference_failed": "PCG64, failed",
    "failing": "failed tests",
    **{
        f"{pattern}_{way}": f"{pattern}, {way}"
        for pattern in ("stream", "bursts", "beats")
        for way in ("write", "read")
    },
    "exponents": "exponents",
    "commonest_percent": "share of the most frequent, %",
    "toggles": "toggles",
    "toggles_per_number": "toggles per number",
    "area_um2": "area, um²",
    "memory_bits": "memory bits, apart",
    "path_ns": "longest path, ns",
    "power_mw": "mW",
    "beat_pj": "pJ per beat",
    "number_pj": "pJ per number",
    "bits_per_weight": "bits per weight",
    "relative_error": "relative error",
    "plain_error": "block floating point",
    "paper_rule_error": "exponents as printed",
    "unscaled_error": "std 1e-3, no scale",
    "scale_spread_percent": "variation over scales, %",
    "blocks_per_second": "blocks per second",
    "literal_blocks_per_second": "Algorithm 1, blocks per second",
    "times_literal": "speed-up",
    "hours_7b": "hours for 7e9 weights",
    "products": "multiplications in the RTL",
    "numbers": "numbers",
    "seconds": "seconds",
    "cpu_seconds": "CPU seconds",
    "peak_mib": "peak MiB",
    "cosine": "cosine",
    "divergence": "divergence, nats",
    "perplexity": "perplexity",
    "accuracy_mean": "accuracy %, mean",
    "accuracy_std": "standard deviation",
    "accuracy_before": "before, %",
    "accuracy_after": "after, %",
    "accuracy_float": "float, %",
    "accuracy_conv_engine": "conv_engine, %",
    "accuracy_instantft": "instantft, %",
    "accuracy_zo_trainer": "zo_trainer, %",
    "jobs": "jobs",
    "points_to_gaussian": "points relative to Gaussian",
    "diverged": "diverged",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A titled table of text cells. Each of ``lines`` has the length of ``header``."""

    title: str
    text: str
    header: list[str]
    lines: list[list[str]]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers only."""

        def number(cell: str) -> bool:
            return not cell or cell.replace(",", "").replace(".", "").lstrip("-").isdigit()

        return [all(number(line[k]) for line in self.lines) for k in range(len(self.header))]


def format_figure(value: Any) -> str:
    """Return a figure as text with thousands separators and few digits; "" for ``None``."""
    if value is None:
        return ""
    if isinstance(value, float):
        magnitude = abs(value)
        return f"{value:,.1f}" if magnitude >= 10 else f"{value:.{2 if magnitude >= 1 else 4}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def data_set(row: JsonRow) -> str:
    """Return the name of the row's data set, or "" where there is only one."""
    return row["params"].get("data", "")


def seeds(row: JsonRow) -> str:
    """Return a row's seeds: a list, or a range where they are consecutive."""
    found = row.get("seeds", [])
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"{found[0]}..{found[-1]}"
    return ", ".join(map(str, found))


def published(row: JsonRow) -> dict[str, Any]:
    """Return the published reference figures of a row."""
    return (row["paper"] or {}).get("figures", {})


def design(row: JsonRow) -> str:
    """Return the name of a row's configuration, with a mark if it is of an earlier netlist."""
    return f"{row['config']} {STALE}" if row.get("stale") else row["config"]


def from_rows(title: str, text: str, rows: list[JsonRow], reference: Mapping[str, str]) -> Table:
    """Return a table with one line per row and one column per figure.

    ``reference`` maps published figures, which follow in further columns, to their headings.
    """
    return from_columns(title, text, [
        ("core", [row["core"] for row in rows]),
        ("configuration", [design(row) for row in rows]),
        ("target", [row["target"] or "" for row in rows]),
        ("data", [data_set(row) for row in rows]),
        *_figure_columns([row["figures"] for row in rows], HEADINGS),
        ("seeds", [seeds(row) for row in rows]),
        *_figure_columns([published(row) for row in rows], reference),
    ])  # fmt: skip


def from_columns(title: str, text: str, columns: list[tuple[str, list[str]]]) -> Table:
    """Return a table of the columns that are not empty."""
    columns = [(heading, cells) for heading, cells in columns if any(cells)]
    lines = [list(line) for line in zip(*(cells for _, cells in columns), strict=True)]
    return Table(title=title, text=text, header=[heading for heading, _ in columns], lines=lines)


def _figure_columns(
    rows: list[Mapping[str, Any]], headings: Mapping[str, str]
) -> list[tuple[str, list[str]]]:
    """Return a column of text cells for each figure in ``headings``."""
    return [
        (heading, [format_figure(figures.get(name)) for figures in rows])
        for name, heading in headings.items()
    ]


def markdown(table: Table) -> str:
    """Return the table in Markdown; numeric columns are right-aligned."""
    rules = ["---:" if right else "---" for right in table.numeric]
    cells = [table.header, rules, *table.lines]
    return "\n".join(
        "| " + " | ".join(c.replace("|", r"\|") for c in line) + " |" for line in cells
    )
