"""Report tables that combine rows of several kinds, or need more than one line per row."""

import re
from collections.abc import Iterable
from itertools import product
from typing import Any

from seedbed.flow.report.table import (
    HEADINGS,
    JsonRow,
    Table,
    design,
    format_figure,
    from_columns,
    from_rows,
    published,
    seeds,
)  # fmt: skip

__all__ = [
    "DESIGN", "HIGHLIGHTS", "amount", "commands", "formats", "formats_compared",
    "formats_judged", "highlights", "job_resources",
    "matrix_vector", "merge_designs", "paper_comparison", "status", "surviving_mutants",
    "zeroth_order",
]  # fmt: skip

#: Kinds of rows with figures of a mapped design.
DESIGN = ("synthesis", "place", "place_ready", "place_free")
#: Bits of a kept weight in the comparison of formats: an index and a value.
KEPT_BITS = 48


def merge_designs(rows: Iterable[JsonRow]) -> list[JsonRow]:
    """Return one row per design, with the figures of its synthesis and place rows."""
    designs: dict[tuple, JsonRow] = {}
    for row in rows:
        if row["kind"] in DESIGN:
            key = (row["core"], row["config"], row["target"])
            known = designs.setdefault(key, {**row, "figures": {}})
            known["figures"] = known["figures"] | row["figures"]
            known["paper"] = known["paper"] or row["paper"]
            known["stale"] = known.get("stale") or row.get("stale", False)
            # The seeds are those of place and route; synthesis has none.
            known["seeds"] = known.get("seeds") or row.get("seeds", [])
    return list(designs.values())


def paper_comparison(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return measured and published figures in alternating columns."""
    found = [row for row in merge_designs(rows) if row["paper"]]
    names = [n for n in ("lut", "ff", "bram", "fmax_mhz") if any(n in r["figures"] for r in found)]
    heads = [head for n in names for head in (HEADINGS[n], "paper")]
    lines = []
    for row in found:
        paper = row["paper"]
        line = [f"{row['core']} {design(row)}"]
        for name in names:
            for figures in (row["figures"], paper["figures"]):
                line.append(format_figure(figures.get(name)))
        lines.append([*line, f"{paper['table']}, {paper['row']}"])
    header = ["design", *heads, "row of the paper"]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


#: Method of measurement, by kind.
METHODS = {
    "synthesis": "synthesized, yosys",
    "cycles": "simulated, Verilator",
    "job": "simulated, Verilator",
}

#: Table of the README: core, configuration, target and figure.
HIGHLIGHTS: list[tuple[str, str, str | None, str]] = [
    ("urng_array", "31 x 8", "xcup", "lut"),
    ("urng_array", "31 x 8", "xcup", "ff"),
    ("prng_pool", "8 lanes x 12", "xcup", "bram"),
    ("seedlm_decompress", "4 bits x 16", "xcup", "lut"),
    ("gemv", "4 bits, 64 bytes", "xcup", "lut"),
    ("gemv", "4 bits, 64 bytes", None, "cycles_2048"),
    ("instantft", "LeNet-5, 32 lanes", None, "job_cycles"),
    ("instantft", "LeNet-5, 32 lanes", None, "pass_cycles"),
    ("zo_trainer", "LeNet-5, 32 lanes", None, "epoch_cycles"),
    ("sparse_trainer", "4 bits x 2", None, "step_ratio"),
]


def highlights(rows: list[JsonRow]) -> Table | None:
    """Return measured figure, published figure and ratio for each of :data:`HIGHLIGHTS`."""
    lines = []
    for core, config, target, name in HIGHLIGHTS:
        for row in rows:
            key = row["core"], row["config"], row["target"], row["kind"] in METHODS
            if key != (core, config, target, True) or name not in row["figures"]:
                continue
            ours, paper = row["figures"][name], published(row).get(name)
            lines.append([
                core, design(row), HEADINGS[name], format_figure(ours), format_figure(paper),
                f"{ours / paper:.2f}" if paper else "", METHODS[row["kind"]],
            ])  # fmt: skip
            break
    header = ["core", "configuration", "figure", "seedbed", "paper", "seedbed / paper", "method"]
    return Table(title="", text="", header=header, lines=lines) if lines else None


def matrix_vector(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return the cycles of matrix-vector products, one line per matrix size."""
    names = {"cycles": "cycles", "plain_cycles": "uncompressed", "speed_up": "speed-up"}
    kept = {"tenth_percent_cycles": "0.1 % kept", "one_percent_cycles": "1 % kept"}
    lines = []
    for row in [row for row in rows if row["kind"] == "cycles"]:
        paper = published(row)
        for side in (512, 1024, 2048):
            line = [design(row), f"{side} x {side}"]
            for name in names:
                key = f"{name}_{side}"
                line += [
                    format_figure(row["figures"].get(key)),
                    format_figure(paper.get(key)),
                ]
            line += [format_figure(row["figures"].get(f"{name}_{side}")) for name in kept]
            lines.append([*line, seeds(row)])
    heads = [head for name in names.values() for head in (name, "paper")]
    header = ["configuration", "matrix", *heads, *kept.values(), "seeds"]
    columns = [list(cells) for cells in zip(*lines, strict=True)]
    return from_columns(title, text, list(zip(header, columns, strict=True))) if lines else None


def job_resources(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return resources and job duration of each design on which a complete job was run."""
    fine_tuned = [row for row in rows if row["kind"] == "job" and "pass_cycles" in row["figures"]]
    ran = {(row["core"], row["config"]): row for row in fine_tuned}
    found = []
    for row in merge_designs(rows):
        job = ran.get((row["core"], row["config"]))
        if job is None:
            continue
        figures = row["figures"] | {n: job["figures"][n] for n in ("job_cycles", "pass_cycles")}
        if "fmax_mhz" in figures:
            figures["job_ms"] = figures["job_cycles"] / figures["fmax_mhz"] / 1e3
        for name in ("lut_per_lane", "lut_carry"):
            figures.pop(name, None)
        found.append({**row, "figures": figures, "params": job["params"]})
    return from_rows(title, text, found, {}) if found else None


def zeroth_order(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return trainings by zeroth order; with the time of an epoch where the core was placed."""
    found = []
    for row in rows:
        if row["kind"] != "job" or "epoch_cycles" not in row["figures"]:
            continue
        placed = [
            {**row, "target": other["target"], "figures": row["figures"] | _epoch(row, other)}
            for other in rows
            if (other["kind"], other["core"], other["config"])
            == ("place", row["core"], row["config"])
        ]
        found += placed or [row]
    return from_rows(title, text, found, {}) if found else None


def _epoch(row: JsonRow, placed: JsonRow) -> dict[str, float]:
    mhz = placed["figures"]["fmax_mhz"]
    return {"fmax_mhz": mhz, "epoch_s": row["figures"]["epoch_cycles"] / mhz / 1e6}


def surviving_mutants(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return a line for each undetected mutant: fault, cell and line of the Verilog."""
    lines = [
        [row["core"], row["config"], *_mutation(each)]
        for row in rows
        if row["kind"] == "mutation"
        for each in row["figures"]["survivors"]
    ]
    header = ["core", "configuration", "fault", "cell", "line of the Verilog"]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


def _mutation(command: str) -> tuple[str, str, str]:
    """Return fault, cell and line of a yosys ``mutate`` command."""
    options = dict(re.findall(r" -(\w+) (\S+)", command))
    bit = f"{options['port']}[{options['portbit']}]"
    return f"{options['mode']} at {bit}", options["cell"], options.get("src", "").split(".v:")[-1]


def commands(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return the command that reproduces each row."""
    found = dict.fromkeys(
        (row["kind"], row["core"], row["config"], row["target"] or "", row["command"])
        for row in rows
    )
    header = ["kind", "core", "configuration", "target", "command"]
    lines = [list(line) for line in found]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


def amount(kind: str, rows: list[JsonRow]) -> str:
    """Return the number of proofs, killed mutants or configurations, as text."""
    if not rows:
        return "-"
    if kind == "mutation":
        killed, mutants = (sum(row["figures"][n] for row in rows) for n in ("killed", "mutants"))
        return f"{killed} of {mutants} killed"
    count = len({row["config"] for row in rows})
    noun = "proof" if kind == "proof" else "configuration"
    return f"{count} {noun}{'s' if count > 1 else ''}"


def status(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return the checks of each core: number of configurations, or targets."""
    header = ["core", "simulated", "cocotb", "proven", "mutated", "synthesized", "placed"]
    kinds = ["simulation", "cocotb", "proof", "mutation", "synthesis", "place"]
    lines = []
    for core in dict.fromkeys(row["core"] for row in rows if row["kind"] in kinds):
        line = [core]
        for kind in kinds:
            found = [row for row in rows if (row["core"], row["kind"]) == (core, kind)]
            targets = dict.fromkeys(row["target"] for row in found if row["target"])
            line.append(", ".join(targets) or amount(kind, found))
        lines.append(line)
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


#: What a model with texts is judged by, and its digits.
JUDGED = {"divergence": 3, "cosine": 4, "perplexity": 3}


def _formats(rows: list[JsonRow], *, judged: bool) -> list[JsonRow]:
    found = [row for row in rows if row["kind"] == "formats"]
    return [row for row in found if ("text" in row["params"]) == judged]


def formats(rows: list[JsonRow], title: str, text: str, *, judged: bool) -> Table | None:
    """Return what methods of few bits a weight lose: of weights, or of ``judged`` models."""
    found = _formats(rows, judged=judged)
    params = [row["params"] for row in found]
    columns = [
        ("data", [", ".join(filter(None, (p["data"], p.get("text")))) for p in params]),
        ("method", [p["method"] for p in params]),
        ("feedback", ["yes" if p["feedback"] else "" for p in params]),
        ("kept, %", [f"{100 * p['kept']:g}" if p["kept"] else "" for p in params]),
        ("bits per weight", [f"{row['figures']['bits_per_weight']:.3f}" for row in found]),
        ("draws", [str(row["figures"]["draws"]) if judged else "" for row in found]),
    ]
    for name, digits in ({"relative_error": 4} | JUDGED).items():
        cells = [_range(row["figures"], name, digits) for row in found]
        columns.append((HEADINGS[name], cells))
    return from_columns(title, text, columns) if found else None


def formats_compared(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return a line for each method without kept weights: bits and errors of each kind of data."""
    found = [row for row in _formats(rows, judged=False) if not row["params"]["kept"]]
    cells = {(row["params"]["data"], row["params"]["method"]): row["figures"] for row in found}
    methods = list(dict.fromkeys(method for _, method in cells))
    columns, bits = [("method", methods)], [""]
    for data in dict.fromkeys(data for data, _ in cells):
        figures = [cells.get((data, method), {}) for method in methods]
        same, errors = (
            [f"{each[name]:.3f}" if each else "" for each in figures]
            for name in ("bits_per_weight", "relative_error")
        )
        if same != bits:
            bits = same
            columns.append((f"bits per weight, {data}", bits))
        columns.append((f"error, {data}", errors))
    return from_columns(title, text, columns) if found else None


def formats_judged(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return a line for each model and method: means over texts, by feedback and kept weights."""
    found = _formats(rows, judged=True)
    cells: dict[tuple[str, str], dict[tuple[bool, bool], list[JsonRow]]] = {}
    for row in found:
        params = row["params"]
        kinds = cells.setdefault((params["data"], params["method"]), {})
        kinds.setdefault((bool(params["kept"]), params["feedback"]), []).append(row)
    lines = []
    for (data, method), kinds in cells.items():
        first = kinds[min(kinds)][0]
        name = next(name for name in JUDGED if name in first["figures"])
        # Those of a method by itself, also where only its sum with kept weights was measured.
        bits = first["figures"]["bits_per_weight"] - KEPT_BITS * first["params"]["kept"]
        means = []
        for kept, feedback in product((False, True), repeat=2):
            values = [row["figures"][name] for row in kinds.get((kept, feedback), [])]
            means.append(f"{sum(values) / len(values):.{JUDGED[name]}f}" if values else "")
        lines.append([data, method, f"{bits:.3f}", name, *means])
    header = ["model", "method", "bits per weight", "judged by", "alone", "with feedback"]
    header += ["with kept weights", "with both"]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


def _range(figures: dict[str, Any], name: str, digits: int) -> str:
    """Return the mean of a figure, and its range if it has one; "" without the figure."""
    if name not in figures:
        return ""
    mean, least, most = (f"{figures[name + end]:.{digits}f}" for end in ("", "_least", "_most"))
    return mean if least == most else f"{mean} ({least}..{most})"
