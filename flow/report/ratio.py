"""Cost ratios between designs of one report: per beat, per new number, per lane."""

from collections.abc import Iterable

from seedbed.flow.report import paper
from seedbed.flow.report.row import Row

__all__ = ["ratios"]

BASELINE, OURS = "tree_grng", "urng_array"
#: Target of the comparison: the family of the paper's device.
DEVICE = "xcup"
#: Lanes of the compared beat: the paper's tile.
BEAT = 1024


def ratios(rows: Iterable[Row]) -> list[Row]:
    """Return the ratios of LUT and FF, baseline to array, for the same target and tools.

    Ratios per *beat* are for 1,024 lanes: as many generators for the baseline (a measurement with
    fewer is scaled), and the array's lanes repeated by wiring. Ratios per *number* divide both by
    the new numbers per beat. A perturbation with such an array has a row with its additional LUT
    per lane.
    """
    rows = [row for row in rows if row.kind == "synthesis"]
    found = _perturbation_overhead(rows)
    arrays = [row for row in rows if row.core == OURS and _is_published_design(row)]
    for baseline in [row for row in rows if row.core == BASELINE and row.target == DEVICE]:
        for ours in arrays:
            if (baseline.target, baseline.tools) != (ours.target, ours.tools):
                continue
            instances, lanes = baseline.params["instances"], ours.params["lanes"]
            figures = {}
            for name in ("lut", "ff"):
                if ours.figures.get(name) and baseline.figures.get(name):
                    times = baseline.figures[name] / instances / ours.figures[name]
                    figures[f"{name}_per_beat"] = times * BEAT
                    figures[f"{name}_per_number"] = times * lanes
            if figures:
                found.append(
                    Row(
                        core=baseline.core,
                        config=f"{baseline.config}, over {ours.core} {ours.config}",
                        kind="ratio",
                        target=baseline.target,
                        params={**baseline.params, "over": dict(ours.params)},
                        figures=figures,
                        tools=baseline.tools,
                        command="seedbed report",
                    )
                )
    return found


def _is_published_design(row: Row) -> bool:
    """Return whether an array has serial seeding and no repair, as in the paper; any leap."""
    return row.params.get("seeding") == "serial" and not row.params.get("repair")


def _perturbation_overhead(rows: list[Row]) -> list[Row]:
    """Return the LUT per lane of a perturbation beyond those of its array."""
    found = []
    for whole in [row for row in rows if row.core == "perturbation"]:
        wanted = {name: whole.params.get(name) for name in ("lanes", "width", "leap")}
        wanted |= {"seeding": "serial", "repair": False}
        for array in [row for row in rows if row.core == OURS]:
            if (
                whole.params.get("source") == "urng"
                and (whole.target, whole.tools) == (array.target, array.tools)
                and all(array.params.get(name) == value for name, value in wanted.items())
            ):
                more = (whole.figures["lut"] - array.figures["lut"]) / array.params["lanes"]
                params = {**whole.params, "over": dict(array.params)}
                found.append(
                    Row(
                        core=whole.core,
                        config=f"{whole.config}, over {OURS} {array.config}",
                        kind="ratio",
                        target=whole.target,
                        params=params,
                        figures={"lut_per_lane_more": more},
                        tools=whole.tools,
                        command="seedbed report",
                        aim=paper.aims(whole.core, params, "ratio", whole.target),
                    )
                )
    return found
