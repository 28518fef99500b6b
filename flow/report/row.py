"""Report rows: one measurement each; names and units of all figures."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seedbed.flow.cores.settings import text
from seedbed.flow.report import paper

__all__ = ["UNITS", "Row", "command", "job_row", "load_rows", "saved_rows"]

#: Units of all figures ("" for a dimensionless number).
UNITS: dict[str, str] = {
    # Synthesis, place and route
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
    "clock_mhz": "MHz",
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
    "frames": "frames",
    # Cycles of a matrix-vector product by matrix size: compressed, uncompressed, and their ratio
    **{f"cycles_{side}": "cycles" for side in (512, 1024, 2048)},
    **{f"plain_cycles_{side}": "cycles" for side in (512, 1024, 2048)},
    **{f"tenth_percent_cycles_{side}": "cycles" for side in (512, 1024, 2048)},
    **{f"one_percent_cycles_{side}": "cycles" for side in (512, 1024, 2048)},
    **{f"speed_up_{side}": "times" for side in (512, 1024, 2048)},
    "cycles": "cycles",
    # A fine-tuning job: total, by phase, and per cached sample
    **{f"{part}_cycles": "cycles" for part in ("job", "load", "fill", "cached", "read")},
    "pass_cycles": "cycles/sample",
    "cycles_per_second": "cycles/s",
    # Zeroth-order training: cycles by step, sample and pass; throughput of perturbed passes; an
    # epoch of MNIST; reads and writes of a parameter in an update
    "step_cycles": "cycles/step",
    "sample_cycles": "cycles/sample",
    **{f"{name}_cycles": "cycles/pass" for name in ("forward", "perturbed")},
    "throughput_percent": "%",
    "step_ratio": "times",
    "epoch_cycles": "cycles",
    "reads_per_update": "reads",
    "writes_per_update": "writes",
    # Training images and held-out images
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
    # Lines of dieharder's table: all, failed, weak; failed by PCG64 with as many bytes
    **{name: "lines" for name in ("tests", "failed", "weak", "reference_failed")},
    "failing": "",
    # Failed statistics of TestU01's SmallCrush: of all lanes, of one, and of two that alternate
    **{f"{stream}_failed": "statistics" for stream in ("beat", "lane", "pair")},
    **{f"{stream}_reference": "statistics" for stream in ("beat", "lane", "pair")},
    **{f"{stream}_failing": "" for stream in ("beat", "lane", "pair")},
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
    # Energy in cells of a 180 nm library: area, memories that are left out, power, and its parts
    "area_um2": "um2",
    "memory_bits": "bits",
    "path_ns": "ns",
    "power_mw": "mW",
    "beat_pj": "pJ/beat",
    "number_pj": "pJ/number",
    # Memory controllers: bytes a cycle of a stream, of bursts and of single beats at random
    **{
        f"{pattern}_{way}": "bytes/cycle"
        for pattern in ("stream", "bursts", "beats")
        for way in ("write", "read")
    },
    # Speed of the golden model
    "numbers": "numbers",
    "seconds": "s",
    "cpu_seconds": "s",
    "peak_mib": "MiB",
    # Compression
    "blocks": "blocks",
    **dict.fromkeys(("relative_error", "relative_error_least", "relative_error_most"), ""),
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
    "draws": "draws",
    **{f"divergence{end}": "nats" for end in ("", "_least", "_most")},
    **{f"{name}{end}": "" for name in ("cosine", "perplexity") for end in ("", "_least", "_most")},
    "accuracy_after": "%",
    # Demonstration
    "accuracy_mean": "%",
    "accuracy_std": "%",
    "accuracy_before": "%",
    **{f"accuracy_{core}": "%" for core in ("float", "conv_engine", "instantft", "zo_trainer")},
    # Drivers
    "jobs": "jobs",
    "points_to_gaussian": "points",
    "loss_by_point": "",
    "diverged": "runs",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """Figures of one configuration, and the command that reproduces them.

    Parameters
    ----------
    core, config, params
        The core's name, its variant's name, and all parameters of the configuration; the
        parameter ``data`` names the data set, where there are several.
    kind
        ``synthesis``, ``place``, ``place_ready`` (ready driven by a LUT), ``place_free`` (without a
        floorplan), ``ratio``, ``simulation``, ``cocotb``, ``icarus``, ``hostile``, ``cycles``,
        ``job``, ``proof``, ``mutation``, ``mapping`` (yosys's plain command), ``netlist``
        (simulated), ``statistics``, ``dieharder``, ``testu01``, ``crush``, ``activity``,
        ``energy``, ``speed``, ``demo``, ``sweep``, ``weights``, ``formats``, ``check`` (what tests
        have compared), ``bitstream`` (of an application, for the board ``config``) or ``memory``
        (of a controller of a memory).
    figures
        Values by name (a key of :data:`UNITS`): numbers, text or lists of numbers.
    command
        The command that reproduces the row.
    target, seeds, tools
        FPGA family, random seeds, tool versions; where there are any.
    netlist
        The hash of the elaborated design that was measured; "" where there is none.
    evidence
        The hash of everything that a check depends on, :func:`seedbed.flow.report.jobs.evidence`:
        with the same one, it would give this row again. "" for a figure.
    paper
        ``{"source", "table", "row", "figures"}`` of the published figures, or ``None``.
    aim
        The project's aim: a relation and a value, by figure.

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
    netlist: str = ""
    evidence: str = ""
    paper: Mapping[str, Any] | None = None
    aim: Mapping[str, list] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.figures.items():
            if name not in UNITS:
                raise ValueError(f"{name!r} is not a figure of the report: add it to UNITS")
            if value is None or value != value:
                raise ValueError(f"{name} of {self.core} has no value: leave it out")

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values, units included."""
        return {**asdict(self), "units": {name: UNITS[name] for name in self.figures}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Row":
        """Return the row of what :meth:`to_json` returned."""
        return cls(
            **{name: value for name, value in values.items() if name not in ("units", "stale")}
        )


def load_rows(paths: Iterable[Path], convert: Callable[[dict[str, Any]], list[Row]]) -> list[Row]:
    """Return the rows that ``convert`` returns for the JSON files of other commands.

    A file that is damaged, or of another version, is skipped with a message on standard error.
    """
    found: list[Row] = []
    for path in sorted(paths):
        try:
            found += convert(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            print(
                f"{path} is damaged or of another version, and is skipped: run its command again",
                file=sys.stderr,
            )
    return found


def saved_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a JSON file that has them as :meth:`Row.to_json` gives them."""
    return [Row.from_json(row) for row in result["rows"]]


def job_row(core: str, result: Mapping[str, Any], figures: dict[str, Any]) -> Row:
    """Return the row of a job in the RTL, on LeNet-5, from the JSON file of its demonstration."""
    params = {name: result[name] for name in ("lanes", "data", "seed")}
    return Row(
        core=core,
        config=f"LeNet-5, {result['lanes']} lanes, {result['data']}",
        kind="job",
        params=params,
        figures=figures,
        seeds=[result["seed"]],
        tools=result["tools"],
        # A result of an earlier version has none.
        netlist=result.get("netlist", ""),
        command=result["command"],
        paper=paper.reference(core, params, "job", None),
        aim=paper.aims(core, params, "job", None),
    )


def command(verb: str, core: str, params: Mapping[str, Any], *options: str) -> str:
    """Return the ``seedbed`` line that runs ``verb`` on ``core`` with ``params`` set."""
    settings = []
    for name, value in params.items():
        settings += ["--set", f"{name}={text(value)}"]
    return shlex.join(["seedbed", verb, core, *settings, *options])
