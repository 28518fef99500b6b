"""What README and pages show: the rows of docs/figures, and a mark on those of earlier netlists."""

import json
from pathlib import Path

import pytest

import seedbed.flow
from seedbed.flow.cores.registry import CORES
from seedbed.flow.report import figures, jobs
from seedbed.flow.report.docs import fill
from seedbed.flow.report.report import document
from seedbed.flow.report.tables import HIGHLIGHTS

ROOT = Path(seedbed.flow.__file__).parents[1]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "<!-- generated:" in path.read_text()
]
ROWS = figures.load(ROOT)
MEASURED = {row.core for row in ROWS}
#: Cores whose tables are still of an earlier report: the pages on all cores wait for them.
MISSING = [name for name in CORES if name not in MEASURED]


@pytest.fixture(scope="module", autouse=True)
def netlists(kept):
    """What has not changed since the figures were committed is not elaborated again."""
    figures.recall(ROOT, jobs.plan(kept))


def shown(path, is_stale):
    report = json.loads(json.dumps(document(ROWS, is_stale)))
    return fill(path.read_text(), report["rows"], path.stem)


@pytest.mark.parametrize("name", [name for name in CORES if name in MEASURED])
def test_the_page_of_a_core_shows_its_rows_and_marks_those_of_earlier_netlists(name, kept):
    path = ROOT / f"docs/cores/{name}.md"
    assert path.read_text() == shown(
        path, lambda row: row.core == name and figures.is_stale(row, kept)
    )


@pytest.mark.parametrize("path", [] if MISSING else PAGES, ids=lambda path: path.stem)
def test_a_page_shows_the_rows_and_marks_those_of_earlier_netlists(path, kept):
    assert path.read_text() == shown(path, lambda row: figures.is_stale(row, kept))


def test_the_highlights_are_configurations_of_the_registry():
    for core, config, _, _ in HIGHLIGHTS:
        assert config in CORES[core].variants
