"""One measurement as a row of the report, and what every figure is called and counted in."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seedbed.flow.settings import text

__all__ = ["UNITS", "Row", "command", "kept_rows"]

#: Every figure that a row may hold, with its unit ("" for a plain number).
UNITS: dict[str, str] = {
    # Synthesis, placing and routing
    "lut": "LUT",
    "lut_carry": "LUT",
    "ff": "FF",
    "bram": "BRAM",
    "dsp": "DSP",
    "cells": "cells",
    "lut_per_lane": "LUT/lane",
    "bits": "bits",
    "fmax_mhz": "MHz",
    "fmax_min_mhz": "MHz",
    "fmax_max_mhz": "MHz",
    "fmax_by_seed_mhz": "MHz",
    "fmax_logic_mhz": "MHz",
    "fmax_free_mhz": "MHz",
    # Ratios between two designs of the same report
    "lut_per_beat": "times",
    "ff_per_beat": "times",
    "lut_per_number": "times",
    "ff_per_number": "times",
    "lut_per_lane_more": "LUT/lane",
    # Simulation, proof, mutation
    "runs": "runs",
    # Cycles of a matrix-vector product, by the matrix's side: packed, plain, and their ratio
    **{f"cycles_{side}": "cycles" for side in (512, 1024, 2048)},
    **{f"plain_cycles_{side}": "cycles" for side in (512, 1024, 2048)},
    **{f"speed_up_{side}": "times" for side in (512, 1024, 2048)},
    "cycles": "cycles",
    # A whole job of fine-tuning: all of it, by phase, and of a sample from the cache
    **{f"{part}_cycles": "cycles" for part in ("job", "load", "fill", "cached", "read")},
    "pass_cycles": "cycles/sample",
    "cycles_per_second": "cycles/s",
    # Images that a network is tuned on, and those that its accuracy is of
    "images": "images",
    "held_images": "images",
    "beats": "beats",
    "proved": "proofs",
    "covers": "covers",
    "mutants": "mutants",
    "killed": "mutants",
    "score_percent": "%",
    "survivors": "",
    # Statistics, as correlation coefficients
    "lane_autocorrelation": "",
    "generator_autocorrelation": "",
    "lane_to_lane": "",
    "any_pair": "",
    "lane_by_lag": "",
    "generator_by_lag": "",
    "any_pair_by_lag": "",
    # Lines of dieharder's table: in all, failed, weak, and failed by PCG64 over as many bytes
    **{name: "lines" for name in ("tests", "failed", "weak", "reference_failed")},
    "failing": "",
    "bytes": "bytes",
    "period_bytes": "bytes",
    # Exponents of the table of scales
    "exponents": "",
    "commonest_percent": "%",
    # A Gaussian generator's numbers
    "mean_lsb": "LSB",
    "sigma_lsb": "LSB",
    "excess_kurtosis": "",
    "magnitude_lag_1": "",
    "signs_repeat_after": "numbers",
    # Switching activity
    "toggles": "toggles",
    "toggles_per_number": "toggles/number",
    # Speed of the golden model
    "numbers": "numbers",
    "seconds": "s",
    "cpu_seconds": "s",
    "peak_mib": "MiB",
    # Compression
    "blocks": "blocks",
    "relative_error": "",
    "paper_rule_error": "",
    "plain_error": "",
    "unscaled_error": "",
    "scale_spread_percent": "%",
    "bits_per_weight": "bits/weight",
    "blocks_per_second": "blocks/s",
    "literal_blocks_per_second": "blocks/s",
    "times_literal": "times",
    "hours_7b": "hours",
    "products": "products",
    "accuracy_after": "%",
    # Demonstration
    "accuracy_mean": "%",
    "accuracy_std": "%",
    "accuracy_before": "%",
    "points_to_gaussian": "points",
    "loss_by_point": "",
    "diverged": "runs",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured of one configuration, and how to measure it again.

    Parameters
    ----------
    core, config, params
        The core's name, its variant's name, and all of the configuration's parameters; ``data``
        among them says what images or numbers the figures are of, where that may be more than one.
    kind
        ``synthesis``, ``place``, ``place_ready`` (ready behind a LUT), ``place_free`` (without a
        floorplan), ``ratio``, ``simulation``, ``cocotb``, ``cycles``, ``job``, ``proof``,
        ``mutation``, ``statistics``, ``dieharder``, ``activity``, ``speed``, ``demo``, ``sweep`` or
        ``weights``.
    figures
        Values by name, each name one of :data:`UNITS`: numbers, texts or lists of numbers.
    command
        The line that measures it again.
    target, seeds, tools
        FPGA family, seeds of whatever was random, versions by tool; where there are any.
    paper
        ``{"source", "table", "row", "figures"}`` of the published figures, or ``None``.
    aim
        What the project set itself: a relation and a value, by figure.

    Raises ``ValueError`` for a figure that has no unit or no value.
    """

    core: str
    config: str
    kind: str
    figures: Mapping[str, Any]
    command: str
    params: Mapping[str, Any] = field(default_factory=dict)
    target: str | None = None
    seeds: list[int] = field(default_factory=list)
    tools: Mapping[str, str] = field(default_factory=dict)
    paper: Mapping[str, Any] | None = None
    aim: Mapping[str, list] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.figures.items():
            if name not in UNITS:
                raise ValueError(f"{name!r} is not a figure of the report: name it in UNITS")
            if value is None or value != value:
                raise ValueError(f"{name} of {self.core} has no value: leave it out")

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values, units included."""
        return {**asdict(self), "units": {name: UNITS[name] for name in self.figures}}


def kept_rows(paths: Iterable[Path], make: Callable[[dict[str, Any]], list[Row]]) -> list[Row]:
    """Return what ``make`` makes of each JSON file that a demonstration wrote.

    One that is damaged, or of another version, is left out with a word on standard error: the
    demonstration writes it again, and the rest of a report does not wait for that.
    """
    found: list[Row] = []
    for path in sorted(paths):
        try:
            found += make(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            print(
                f"{path} is damaged or of another version, and left out: run its demonstration "
                f"again",
                file=sys.stderr,
            )
    return found


def command(verb: str, core: str, params: Mapping[str, Any], *options: str) -> str:
    """Return the ``seedbed`` line that runs ``verb`` on ``core`` with ``params`` set."""
    settings = []
    for name, value in params.items():
        settings += ["--set", f"{name}={text(value)}"]
    return shlex.join(["seedbed", verb, core, *settings, *options])
