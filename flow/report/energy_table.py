"""The table of energies, with the baseline's for a beat of as many numbers."""

from seedbed.flow.report import paper
from seedbed.flow.report.ratio import BASELINE, BEAT
from seedbed.flow.report.table import HEADINGS, JsonRow, Table, design, format_figure

__all__ = ["energy_table"]

FIGURES = (
    "cells", "area_um2", "memory_bits", "path_ns", "power_mw", "beat_pj", "numbers", "number_pj",
)  # fmt: skip
#: Cores that generate perturbations: they are compared with the baseline.
COMPARED = ("urng_array", "lutopt", "prng_pool", "perturbation")


def energy_table(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return the energies of all configurations, and how much less than the baseline's they are."""
    found = [row for row in rows if row["kind"] == "energy"]
    # The baseline of the paper is the published generator.
    baseline = [r for r in found if r["core"] == BASELINE and r["config"] == "published"]
    lines = []
    for row in found:
        figures = row["figures"]
        less = printed = ""
        if baseline and row["core"] in COMPARED:
            whole = BEAT * baseline[0]["figures"]["number_pj"]
            less = f"{100 * (1 - figures['beat_pj'] / whole):.1f}"
            printed = _printed(row)
        cells = [format_figure(figures[name]) for name in FIGURES]
        lines.append([row["core"], design(row), *cells, less, printed])
    header = ["core", "configuration", *(HEADINGS[name] for name in FIGURES)]
    return (
        Table(
            title=title,
            text=text,
            header=[*header, "less than TreeGRNG, %", "paper, %"],
            lines=lines,
        )
        if found
        else None
    )


def _printed(row: JsonRow) -> str:
    """Return the paper's saving for the row's design, "" if it prints none."""
    found = paper.reference(row["core"], row["params"], "synthesis", "xcup")
    watts = found["figures"].get("power_w") if found else None
    return f"{100 * (1 - watts / paper.PEZO_TABLE_6['MeZO']['power_w']):.1f}" if watts else ""
