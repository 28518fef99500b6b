"""The tables of TestU01's results: a line for each stream of words of a core."""

from collections.abc import Callable
from functools import partial

from seedbed.flow.report.table import JsonRow, Table, design

__all__ = ["battery_table"]

STREAMS = {"beat": "all lanes", "lane": "a lane", "pair": "two lanes"}


def battery_table(kind: str) -> Callable[[list[JsonRow], str, str], Table | None]:
    """Return a function that makes a table of the rows of a kind, a battery of tests."""
    return partial(_table, kind)


def _table(kind: str, rows: list[JsonRow], title: str, text: str) -> Table | None:
    """Return failed statistics by stream, and their causes."""
    lines = []
    for row in rows:
        figures = row["figures"] if row["kind"] == kind else {}
        for stream, called in STREAMS.items():
            if f"{stream}_failed" in figures:
                lines.append(
                    [
                        row["core"],
                        design(row),
                        called,
                        str(figures["tests"]),
                        str(figures[f"{stream}_failed"]),
                        str(figures[f"{stream}_reference"]),
                        _causes(figures[f"{stream}_failing"]),
                    ]
                )
    header = ["core", "configuration", "words", "statistics", "failed", "PCG64, failed", "causes"]
    return Table(title=title, text=text, header=header, lines=lines) if lines else None


def _causes(text: str) -> str:
    """Return the causes with the names of the tests; tests that repeats fail are counted."""
    found = []
    for part in text.split("; "):
        cause, _, names = part.partition(": ")
        count = len(names.split(", "))
        found.append(f"{cause}: {count}" if cause == "repeats" else part)
    return "; ".join(found)
