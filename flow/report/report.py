"""The report: JSON rows, and Markdown, HTML and plots made from that JSON alone."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from seedbed.flow.report import aims, tables
from seedbed.flow.report.plots import PLOTS
from seedbed.flow.report.ratio import ratios
from seedbed.flow.report.row import Row
from seedbed.flow.report.sections import sections
from seedbed.flow.report.table import markdown
from seedbed.flow.run.files import write_atomic

__all__ = ["build", "document", "draw", "summary"]


def document(
    rows: Iterable[Row], is_stale: Callable[[Row], bool] = lambda row: False
) -> dict[str, Any]:
    """Return the report as plain JSON values: version, versions of the tools, and the rows.

    Ratios between the designs among ``rows`` are added as further rows. ``stale`` of a row says
    whether it is of an earlier netlist.
    """
    rows = list(rows)
    plain = [row.to_json() | {"stale": is_stale(row)} for row in [*rows, *ratios(rows)]]
    tools = {name: text for row in plain for name, text in row["tools"].items()}
    return {"version": version("seedbed"), "tools": dict(sorted(tools.items())), "rows": plain}


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write report.md, report.html and the plots to ``folder``; return the paths.

    The plots are embedded in the page, so that it needs no other file and no network. Plots
    without measurements are omitted.
    """
    written, plots = [], []
    for stem, caption, plot in PLOTS:
        image = plot(report["rows"])
        if image is None:
            (folder / f"{stem}.png").unlink(missing_ok=True)
            continue
        written.append(write_atomic(folder / f"{stem}.png", image))
        data = b64encode(image).decode()
        plots.append({"file": f"{stem}.png", "caption": caption, "data": data})
    templates = Environment(
        loader=PackageLoader("seedbed.flow.report", "."),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["markdown"] = markdown
    for name in ("report.md", "report.html"):
        text = templates.get_template(f"{name}.j2").render(
            version=report["version"],
            tools=report["tools"],
            summary=aims.summary(report["rows"]),
            sections=sections(report["rows"]),
            plots=plots,
        )
        written.append(write_atomic(folder / name, text))
    return written


#: Summary text of each kind of check, and the ``make`` target that runs it.
CHECKS = {
    "simulation": ("simulated, bit-exact with the models", "sim"),
    "cocotb": ("simulated as emitted Verilog in cocotb, bit-exact", "cocotb"),
    "proof": ("proven by induction", "formal"),
    "mutation": ("mutated, mutants detected by simulation", "mutate"),
    "synthesis": ("synthesized", "synth"),
    "place": ("placed and routed", "synth"),
}


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Return a summary of the checks, and the missed aims, as lines of text."""
    lines, unchecked = ["Checked:"], []
    for kind, (verb, target) in CHECKS.items():
        found = [row for row in rows if row["kind"] == kind]
        if not found:
            unchecked.append(f"'make {target}'")
            continue
        cores = len({row["core"] for row in found})
        targets = ", ".join(dict.fromkeys(row["target"] for row in found if row["target"]))
        parts = [f"{cores} core{'s' * (cores > 1)} {verb}", tables.amount(kind, found), targets]
        lines.append(f"  {'; '.join(filter(None, parts))}")
    if unchecked:
        lines.append(f"Not checked so far: {', '.join(dict.fromkeys(unchecked))}.")
    if met := aims.aims_table(rows, "", ""):
        missed = [line for line in met.lines if line[-1] == "missed"]
        lines.append(f"Aims: {len(met.lines) - len(missed)} of {len(met.lines)} are met.")
        for line in missed:
            cells = dict(zip(met.header, line, strict=True))
            where = f" on {cells['target']}" if cells.get("target") else ""
            lines.append(
                f"  missed: {cells['design']}{where}, {cells['figure']}: {cells['measured']}, "
                f"the aim is {cells['aim']}"
            )
    return lines


def build(rows: Iterable[Row], folder: Path) -> Path:
    """Write report.json, tables and plots to ``folder``; return the path of the JSON file.

    Every file is written under a temporary name and renamed. Raises ``OSError`` where ``folder``
    cannot be written.
    """
    text = json.dumps(document(rows), indent=1, allow_nan=False) + "\n"
    path = write_atomic(folder / "report.json", text)
    draw(json.loads(text), folder)
    return path
