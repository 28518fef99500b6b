# amaranth: UnusedElaboratable=no
"""Generated blocks of the README and of the pages in docs/, filled from the report's JSON."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seedbed.flow.cores.registry import CORES, grouped
from seedbed.flow.emit import paths, port_docs
from seedbed.flow.report import tables
from seedbed.flow.report.sections import sections
from seedbed.flow.report.table import STALE, Table, markdown
from seedbed.flow.run.files import write_atomic
from seedbed.spec import registers
from seedbed.spec.axi_registers import AXI_REGISTERS

__all__ = ["BLOCKS", "docs", "fill"]

NOTHING = "No measurements yet: run `make`."

#: Below a block with such rows.
EARLIER = f"\n{STALE} Measured on an earlier netlist. `seedbed report --stale` measures it again.\n"

_BLOCK = re.compile(
    r"(<!-- generated: (?P<name>[a-z]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL
)


def _results(rows: list[dict[str, Any]], stem: str) -> str:
    chosen = {
        "Compared with the papers",
        "Aims",
        "Matrix-vector products",
        "Fine-tuning in the RTL",
        "Lanes, cycles and area",
        "Compression",
        "Speed of the compressor",
        "Formats compared",
        "Compressed networks",
        "Ratios",
        "Correlation",
        "Zeroth-order training in the RTL",
        "Tuning of kept weights in the RTL",
        "Zeroth-order fine-tuning",
    }
    found = [table for table in sections(rows) if table.title in chosen]
    return "\n\n".join(f"## {t.title}\n\n{t.text}\n\n{markdown(t)}" for t in found)


def _highlights(rows: list[dict[str, Any]], stem: str) -> str:
    table = tables.highlights(rows)
    return markdown(table) if table else ""


def _cores(rows: list[dict[str, Any]], stem: str) -> str:
    # The README is in the parent folder of docs/.
    folder = "docs/cores" if stem == "README" else "cores"
    lines = [
        [family, f"[{core.name}]({folder}/{core.name}.md)", core.title]
        for family, core in grouped(CORES.values())
    ]
    return markdown(Table(title="", text="", header=["", "core", "description"], lines=lines))


def _status(rows: list[dict[str, Any]], stem: str) -> str:
    table = tables.status(rows, "", "")
    return markdown(table) if table else ""


def _resources(rows: list[dict[str, Any]], stem: str) -> str:
    own = [row for row in rows if row["core"] == stem]
    chosen = {
        "Compared with the papers",
        "Matrix-vector products",
        "Resources",
        "Correlation",
        "Scaling exponents",
        "Lanes, cycles and area",
        "Zeroth-order training in the RTL",
        "Tuning of kept weights in the RTL",
    }
    return _tables(own, chosen)


def _energy(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Energy"})


def _memories(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Memory controllers"})


def _tests(rows: list[dict[str, Any]], stem: str) -> str:
    own = [row for row in rows if row["core"] == stem]
    return _tables(own, {"Statistical tests", "SmallCrush", "Crush"})


def _smallcrush(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"SmallCrush"})


def _crush(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Crush"})


def _correlations(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Correlation"})


def _compression(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Compression", "Speed of the compressor"})


def _formats(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Formats compared", "Formats in models"})


def _draws(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Formats of weights", "Formats by text"})


def _weights(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Compressed networks"})


def _checks(rows: list[dict[str, Any]], stem: str) -> str:
    titles = ("Imported networks", "Exported files", "Drivers")
    found = [table for table in sections(rows) if table.title in titles]
    return "\n\n".join(f"### {t.title}\n\n{t.text}\n\n{markdown(t)}" for t in found)


def _jobs(rows: list[dict[str, Any]], stem: str) -> str:
    return _tables(rows, {"Fine-tuning in the RTL"})


def _ports(rows: list[dict[str, Any]], stem: str) -> str:
    core = CORES[stem]
    found = port_docs.describe(core.component, core.signature(core.configure()))
    lines = [[f"`{name}`", f"`{path}`", *rest] for name, path, *rest in port_docs.table_rows(found)]
    return markdown(Table(title="", text="", header=port_docs.HEADER, lines=lines))


def _timing(rows: list[dict[str, Any]], stem: str) -> str:
    core = CORES[stem]
    latency, throughput = port_docs.timing(core.component(core.configure()))
    text = f"- Latency: {latency}.\n- Throughput: {throughput}."
    return re.sub(r"\d{4,}", lambda number: f"{int(number[0]):,}", text)


def _registers(rows: list[dict[str, Any]], stem: str) -> str:
    found = {f"0x{4 * k:02X}": register for k, register in enumerate(AXI_REGISTERS[stem])}
    return registers.table(found).rstrip()


def _paths(rows: list[dict[str, Any]], stem: str) -> str:
    parts = []
    for key, found in paths.listed().items():
        core, _, setting = key.partition(" ")
        if core not in (stem, f"{stem}_axi"):
            continue
        of = f"With `{setting}`" if setting else f"With AXI ports, `{core}`"
        of = "In the default configuration" if key == stem else of
        if not found:
            parts.append(f"{of}, every `ready` and `valid` output depends on registers only.")
            continue
        parts.append(
            f"{of}, these outputs depend on inputs in the same cycle. Every other `ready` and "
            "`valid` output depends on registers only."
        )
        lines = [
            [f"`{port}`", ", ".join(f"`{name}`" for name in names)] for port, names in found.items()
        ]
        header = ["output", "inputs in the same cycle"]
        parts.append(markdown(Table(title="", text="", header=header, lines=lines)))
    return "\n\n".join(parts)


def _tables(rows: list[dict[str, Any]], titles: set[str]) -> str:
    found = [table for table in sections(rows) if table.title in titles]
    return "\n\n".join(f"{t.text}\n\n{markdown(t)}" for t in found)


#: The content of each block, as a function of the rows and the page's stem.
BLOCKS: dict[str, Callable[[list[dict[str, Any]], str], str]] = {
    "results": _results,
    "highlights": _highlights,
    "cores": _cores,
    "status": _status,
    "resources": _resources,
    "tests": _tests,
    "smallcrush": _smallcrush,
    "crush": _crush,
    "correlations": _correlations,
    "energy": _energy,
    "memories": _memories,
    "compression": _compression,
    "jobs": _jobs,
    "checks": _checks,
    "ports": _ports,
    "paths": _paths,
    "timing": _timing,
    "registers": _registers,
    "weights": _weights,
    "formats": _formats,
    "draws": _draws,
}


def fill(text: str, rows: list[dict[str, Any]], stem: str) -> str:
    """Return ``text`` with every block between its markers replaced.

    Raises ``ValueError`` for a marker that is not one of :data:`BLOCKS` or has no end.
    """
    starts = re.findall(r"<!-- generated: (.*?) -->", text)
    for name in starts:
        if name not in BLOCKS:
            raise ValueError(
                f"{stem}: no block is called {name!r}; known blocks are {', '.join(BLOCKS)}"
            )
    # The body of a block without an end would contain the next marker.
    bodies = [block["body"] for block in _BLOCK.finditer(text)]
    if len(bodies) != len(starts) or any("<!-- generated:" in body for body in bodies):
        raise ValueError(f"{stem}: a generated block has no '<!-- end -->'")

    def content(block: re.Match[str]) -> str:
        made = BLOCKS[block["name"]](rows, stem) or NOTHING
        return f"{block[1]}{made}\n{EARLIER if STALE in made else ''}{block[4]}"

    return _BLOCK.sub(content, text)


def docs(report: dict[str, Any], root: Path) -> list[Path]:
    """Fill README.md and the pages below docs/ in ``root``; return the pages.

    Raises ``ValueError`` for a broken marker, before anything is written.
    """
    paths = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    texts = [fill(path.read_text(), report["rows"], path.stem) for path in paths]
    return [write_atomic(path, text) for path, text in zip(paths, texts, strict=True)]
