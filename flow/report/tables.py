"""Report tables that combine rows of several kinds, or need more than one line per row."""

import re
from collections.abc import Iterable
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
    "DESIGN", "HIGHLIGHTS", "amount", "commands", "formats", "formats_compared", "highlights",
    "job_resources",
    "matrix_vector", "merge_designs", "paper_comparison", "status", "surviving_mutants",
    "zeroth_order",
]  # fmt: skip

#: Kinds of rows with figures of a mapped design.
DESIGN = ("synthesis", "place", "place_ready", "place_free")


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


def formats(rows: list[JsonRow], title: str, text: str, *, judged: bool) -> Table | None:
    """Return what methods of few bits a weight lose: of weights, or of ``judged`` models."""
    found = [row for row in rows if row["kind"] == "formats"]
    found = [row for row in found if ("divergence" in row["figures"]) == judged]
    params = [row["params"] for row in found]
    columns = [
        ("data", [", ".join(filter(None, (p["data"], p.get("text")))) for p in params]),
        ("method", [p["method"] for p in params]),
        ("feedback", ["yes" if p["feedback"] else "" for p in params]),
        ("kept, %", [f"{100 * p['kept']:g}" if p["kept"] else "" for p in params]),
        ("bits per weight", [f"{row['figures']['bits_per_weight']:.3f}" for row in found]),
        ("draws", [str(row["figures"]["draws"]) if judged else "" for row in found]),
    ]
    for name, digits in (("relative_error", 4), ("divergence", 3), ("perplexity", 3)):
        if judged or name == "relative_error":
            cells = [_range(row["figures"], name, digits) for row in found]
            columns.append((HEADINGS[name], cells))
    return from_columns(title, text, columns) if found else None


def formats_compared(rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return a line for each method without kept weights, with a column for each kind of data."""
    found = [row for row in rows if row["kind"] == "formats" and not row["params"]["kept"]]
    cells: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in found:
        params = row["params"]
        key = params["data"], params.get("text", ""), params["feedback"], params["method"]
        cells[key] = row["figures"]
    methods = list(dict.fromkeys(key[3] for key in cells))

    def column(key: tuple[Any, ...], name: str) -> list[str]:
        values = (cells.get((*key, method), {}).get(name) for method in methods)
        return ["" if value is None else f"{value:.3f}" for value in values]

    columns, bits = [("method", methods)], [""]
    for data, judged in dict.fromkeys(key[:2] for key in cells):
        plain = data, judged, False
        if column(plain, "bits_per_weight") != bits:
            bits = column(plain, "bits_per_weight")
            columns.append((f"bits per weight, {data}", bits))
        if not judged:
            columns.append((f"error, {data}", column(plain, "relative_error")))
            continue
        columns.append((f"divergence, {judged}", column(plain, "divergence")))
        columns.append((f"with feedback, {judged}", column((data, judged, True), "divergence")))
    return from_columns(title, text, columns) if found else None


def _range(figures: dict[str, Any], name: str, digits: int) -> str:
    """Return the mean of a figure, and its range if it has one."""
    mean, least, most = (f"{figures[name + end]:.{digits}f}" for end in ("", "_least", "_most"))
    return mean if least == most else f"{mean} ({least}..{most})"
