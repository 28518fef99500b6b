"""What designs of the same report cost beside one another: a beat, a fresh number, a lane."""

from collections.abc import Iterable

from seedbed.flow import paper
from seedbed.flow.row import Row

__all__ = ["ratios"]

BASELINE, OURS = "tree_grng", "urng_array"
#: Where the baseline is compared: the family of the paper's device.
DEVICE = "xcup"
#: Lanes of the beat that is compared: the paper's tile.
BEAT = 1024


def ratios(rows: Iterable[Row]) -> list[Row]:
    """Return how often the array's LUT and FF go into the baseline's, on the same target and tools.

    *A beat* is of 1,024 lanes: for the baseline as many generators (one that was measured with
    fewer is counted as often as it takes), for the array its lanes repeated, as wiring. *A number*
    divides both by the fresh numbers that they make a beat. Of a perturbation from such an array it
    is told how many LUT a lane it takes beyond the array alone.
    """
    rows = [row for row in rows if row.kind == "synthesis"]
    found = _surplus(rows)
    arrays = [row for row in rows if row.core == OURS and _plain(row)]
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


def _plain(row: Row) -> bool:
    """Tell whether an array is seeded serially and repairs nothing: the paper's, or with a leap."""
    return row.params.get("seeding") == "serial" and not row.params.get("repair")


def _surplus(rows: list[Row]) -> list[Row]:
    """Return what a perturbation takes over the array that PeZO builds it of, a LUT a lane."""
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
