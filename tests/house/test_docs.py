"""The README and the pages: what they show works, and what they link to is there."""

import re
from itertools import combinations
from pathlib import Path

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import wiring

from seedbed.flow.cores.registry import CORES
from seedbed.flow.cores.settings import read
from seedbed.flow.emit import port_docs
from seedbed.flow.report import block_diagram, docs, tables
from seedbed.sim.verilog.verilate import lint

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page):
    for source in blocks(page, "python"):
        names = {}
        exec(compile(source, page.name, "exec"), names)
        modules = [v for v in names.values() if isinstance(v, Module)]
        modules += [
            v()
            for v in names.values()
            if isinstance(v, type)
            and issubclass(v, wiring.Component)
            and v.__module__ == "builtins"
        ]
        for module in modules:
            Fragment.get(module, None)
            if isinstance(module, wiring.Component):
                port_docs.describe(type(module), module.signature)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_verilog_examples_fit_the_core(page, tmp_path, ports_of):
    """Verilator finds every port that is missing, misspelt or of another width.

    Of the core, its ports are enough: test_verilog.py shows that they are what is emitted.
    """
    lines = re.findall(r"seedbed verilog (\w+)((?: --set \S+=\S+)*)", page.read_text())
    lines = [line for line in lines if line[0] in CORES]
    examples = blocks(page, "verilog")
    assert len(lines) >= len(examples), "every example needs its 'seedbed verilog CORE ...' line"
    for (name, settings), source in zip(lines, examples, strict=False):
        params = read(CORES[name], re.findall(r"--set (\S+)", settings))
        ports = [f"{way} [{n - 1}:0] {port}" for way, _, n, port in ports_of(name, params)]
        path = tmp_path / f"{name}.v"
        path.write_text(f"{source}module {name}({', '.join(ports)});\nendmodule\n")
        top = re.search(r"^module (\w+)", source, re.MULTILINE)[1]
        wrong = re.compile("%Error|PINMISSING|PINNOTFOUND|port connection")
        assert list(filter(wrong.search, lint(path, top, waivers=None))) == []


@pytest.mark.parametrize("name", CORES)
def test_every_data_sheet_names_the_lines_of_python(name):
    assert "`--sources`" in (ROOT / f"docs/cores/{name}.md").read_text()


def anchors(page):
    """Return what a link into a page may name after its ``#``, as GitHub and the site have it."""
    found = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M), re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


def test_a_link_to_no_heading_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One thing\n\n```sh\n# no heading\n```\n\n## Look-up tables, `lut`\n")
    assert anchors(page) == {"one-thing", "look-up-tables-lut"}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 135


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_table_of_cores_is_that_of_the_registry(page):
    """It depends on no measurement, so a page cannot have an older one."""
    text = (ROOT / page).read_text()
    start = text.index("<!-- generated: cores -->")
    block = text[start : text.index("<!-- end -->", start) + len("<!-- end -->")]
    assert docs.fill(block, [], Path(page).stem) == block


@pytest.mark.parametrize("name", CORES)
def test_every_core_is_in_docs_and_block_diagram(name):
    text = (ROOT / "docs" / "cores" / f"{name}.md").read_text()
    assert "<!-- generated: resources -->" in text
    assert name in {box[0] for box in block_diagram.BOXES}


@pytest.mark.parametrize("block", ["ports", "paths", "timing"])
@pytest.mark.parametrize("name", CORES)
def test_tables_of_the_design_on_a_page_are_those_of_the_core(name, block):
    """A test of combinational paths compares their table with the designs."""
    page = ROOT / "docs" / "cores" / f"{name}.md"
    if block == "timing" and page.name in docs.BLOCKS["timing"]([], name):
        pytest.skip("the component says that its page has the cycles")
    (found,) = re.findall(rf"<!-- generated: {block} -->.*?<!-- end -->", page.read_text(), re.S)
    assert docs.fill(found, [], name) == found


def test_no_box_of_the_block_diagram_is_on_another_or_on_a_heading():
    places = {name: (x, y, x + w, y + h) for name, x, y, w, h, *_ in block_diagram.BOXES}
    for (one, a), (other, b) in combinations(places.items(), 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (one, other)
    for y, text in block_diagram.HEADINGS:
        on = [name for name, (_, low, _, high) in places.items() if low - 0.2 < y < high + 0.2]
        assert not on, text


def test_block_diagram_is_reproducible():
    first = block_diagram.draw()
    assert first.startswith(b"<?xml")
    assert first == block_diagram.draw()


def test_arrows_join_boxes():
    names = {box[0] for box in block_diagram.BOXES}
    ends = {end for start, stop, _ in block_diagram.ARROWS for end in (start[0], stop[0])}
    assert ends <= names


ROW = {
    "core": "lfsr", "config": "default", "kind": "synthesis", "target": "xcup", "params": {},
    "figures": {"lut": 1234}, "paper": None, "aim": {}, "command": "seedbed synth lfsr",
}  # fmt: skip
PAGE = "before\n<!-- generated: resources -->\nold\n<!-- end -->\nafter\n"


def test_blocks_are_filled_and_nothing_else_is_touched():
    once = docs.fill(PAGE, [ROW], "lfsr")
    assert once.startswith("before\n<!-- generated: resources -->\n")
    assert once.endswith("\n<!-- end -->\nafter\n")
    assert "1,234" in once
    assert "old" not in once
    assert docs.fill(once, [ROW], "lfsr") == once


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_markers_of_every_page_are_whole(page):
    docs.fill(page.read_text(), [], page.stem)


def test_a_block_without_rows_says_so():
    assert docs.NOTHING in docs.fill(PAGE, [ROW], "urng_array")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PAGE.replace("resources", "sources"), "no block is called 'sources'"),
        (PAGE.replace("<!-- end -->", ""), "has no '<!-- end -->'"),
        (PAGE.replace("<!-- end -->", "") + PAGE, "has no '<!-- end -->'"),
    ],
)
def test_broken_markers_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        docs.fill(text, [ROW], "lfsr")


def test_pages_are_filled_on_disk_or_not_at_all(tmp_path):
    page = tmp_path / "docs" / "cores" / "lfsr.md"
    page.parent.mkdir(parents=True)
    page.write_text(PAGE)
    (tmp_path / "README.md").write_text("<!-- generated: nothing -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match="no block is called 'nothing'"):
        docs.docs({"rows": [ROW]}, tmp_path)
    assert page.read_text() == PAGE
    (tmp_path / "README.md").write_text("<!-- generated: cores -->\n<!-- end -->\n")
    page.with_name("index.md").write_text("<!-- generated: cores -->\n<!-- end -->\n")
    docs.docs({"rows": [ROW]}, tmp_path)
    assert "1,234" in page.read_text()
    assert "| [lfsr](docs/cores/lfsr.md) |" in (tmp_path / "README.md").read_text()
    assert "| [lfsr](cores/lfsr.md) |" in page.with_name("index.md").read_text()


def test_highlights_have_a_ratio_only_where_the_paper_has_a_figure():
    """The README's rows: ours, the paper's, their quotient, and how ours was obtained."""
    published = {**ROW, "core": "urng_array", "config": "31 x 8", "figures": {"lut": 36, "ff": 9}}
    published["paper"] = {"figures": {"lut": 32}}
    placed = {**published, "kind": "place", "figures": {"lut": 99}}
    lines = tables.highlights([placed, published, {**ROW, "core": "lora"}]).lines
    assert lines == [
        ["urng_array", "31 x 8", "LUT", "36", "32", "1.12", "synthesized, yosys"],
        ["urng_array", "31 x 8", "FF", "9", "", "", "synthesized, yosys"],
    ]
    assert tables.highlights([ROW]) is None


def test_what_the_readme_shows_is_on_the_page_of_results():
    """Both are written from the same rows: a figure that differs was typed."""
    readme = (ROOT / "README.md").read_text().partition("<!-- generated: highlights -->")[2]
    rows = re.findall(r"^\| (\w+) \| (.*?) \| .*? \| ([\d,.]+) \|", readme, re.MULTILINE)
    assert len(rows) == len(tables.HIGHLIGHTS)
    lines = (ROOT / "docs" / "results.md").read_text().splitlines()
    for core, config, ours in rows:
        same = [line for line in lines if config in line]
        assert any(f"| {ours} |" in line for line in same), (core, config, ours)
