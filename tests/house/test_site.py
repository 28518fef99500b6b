"""The site: its diagrams are drawn, its reference is complete, it needs no network."""

import importlib.util
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from seedbed.flow.cli.app import app
from seedbed.flow.cores.registry import CORES

DOCS = Path(__file__).parents[2] / "docs"
INDEX = DOCS / "index.md"
PAGES = sorted(DOCS.rglob("*.md"))


def extension(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


diagrams, offline, reference = map(extension, ("diagrams", "offline", "reference"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_diagrams_are_drawn_alike_every_time(page):
    drawn = {"blocks": lambda text: diagrams.draw_blocks(text.splitlines()),
             "wavedrom": diagrams.draw_timing}  # fmt: skip
    text = page.read_text()
    for kind, source in re.findall(r"^```{(blocks|wavedrom)}\n(.*?)^```$", text, re.M | re.S):
        picture = drawn[kind](source)
        assert b"<svg" in picture
        assert picture == drawn[kind](source)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a 0,0 box text"], "a block is port, .* not box"),
        (["a 0,0 block text", "a -> b"], "ends at 'b', which is no block above it"),
        (["a at 0,0"], "neither a block nor an arrow: 'a at 0,0'"),
    ],
)
def test_a_diagram_that_cannot_be_drawn_is_refused(lines, message):
    with pytest.raises(ValueError, match=message):
        diagrams.draw_blocks(lines)


def test_arrows_have_right_angles_and_join_the_sides():
    sides = {"n": (0, 1), "s": (0, -1), "e": (1, 0), "w": (-1, 0)}
    for leave in sides:
        for enter in sides:
            route = diagrams._route((0.0, 0.0), leave, (3.0, 2.0), enter)
            assert (route[0], route[-1]) == ((0.0, 0.0), (3.0, 2.0))
            for (x0, y0), (x1, y1) in pairwise(route):
                assert x0 == x1 or y0 == y1


def test_every_command_is_in_the_reference():
    text = reference.command_pages()
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    for name in names:
        assert f"## `seedbed {name.replace('_', '-')}`" in text


def test_every_component_is_in_the_reference():
    modules = reference.public("seedbed.hw")
    assert {core.component.__module__ for core in CORES.values()} <= set(modules)


def test_docstrings_are_read_as_they_are_meant():
    lines = """
Add.

Parameters
----------
a, b
    Numbers.

Members
-------
o : Out(8)
bus_awaddr .. bus_rready
    The bus.

Latency: 1 cycle. Members of
the sum are integers.
"""
    assert (
        reference.sections(lines.splitlines())
        == """
Add.

Parameters
----------
a, b
    Numbers.

Attributes
----------
o : Out(8)
bus_awaddr .. bus_rready
    The bus.


Notes
-----
Latency: 1 cycle. Members of
the sum are integers.""".splitlines()
    )
    assert reference.sections(["Add.", "", "In words."]) == ["Add.", "", "In words."]


def test_fields_of_a_port_are_a_definition_list():
    lines = """
Members
-------
i : In(stream of struct)
    numbers
    value (2 x signed(8)) : next numbers: -1 to 1. Of
        a frame.
    last : last number
o : Out(1)
""".splitlines()
    assert (
        reference.definitions(lines)
        == """
Members
-------
i : In(stream of struct)
    numbers

    value : 2 x signed(8)
        next numbers: -1 to 1. Of
        a frame.
    last
        last number
o : Out(1)
""".splitlines()
    )


def test_no_two_pages_of_the_sidebar_have_one_name():
    listed = re.findall(r"^```{toctree}\n.*?\n\n(.*?)^```$", INDEX.read_text(), re.M | re.S)
    pages = [DOCS / f"{name}.md" for part in listed for name in part.split()]
    titles = [page.read_text().partition("\n")[0] for page in pages if page.exists()]
    assert len(titles) > len(CORES)
    assert len(set(titles)) == len(titles)


def test_every_core_is_in_the_sidebar():
    for name in CORES:
        assert f"\ncores/{name}\n" in INDEX.read_text()


def test_wide_parts_of_a_page_scroll_by_themselves(tmp_path):
    """A diagram and a table of ports on a narrow screen do not shrink, nor widen the page."""
    text = (DOCS / "cores/lfsr.md").read_text()
    (diagram,) = re.findall(r"^```{blocks}\n.*?^```$", text, re.M | re.S)
    ports = text.partition("<!-- generated: ports -->\n")[2].partition("<!-- end -->")[0]
    (tmp_path / "index.md").write_text(f"# Page\n\n{diagram}\n\n{ports}\n")
    words = ["-q", "-c", DOCS, "-D", "extensions=myst_parser,diagrams", tmp_path, tmp_path / "html"]
    subprocess.run([sys.executable, "-m", "sphinx", *map(str, words)], check=True)
    page = (tmp_path / "html/index.html").read_text()
    assert '<p class="scroll"><img class="diagram" ' in page
    assert re.search(r'<div class="table-wrapper[^>]*>\s*<table', page)
    assert "_static/site.css" in page
    rules = (tmp_path / "html/_static/site.css").read_text()
    assert re.search(r"^\.scroll, .*, \.table-wrapper { overflow-x: auto; }$", rules, re.M)
    wide, _, narrow = rules.partition("@media (max-width: 40rem) {")
    assert "max-width" not in wide
    assert re.search(r"^  img\.diagram, .*max-width: none;", narrow, re.M)


def test_a_port_on_a_narrow_screen_is_a_block_with_all_columns():
    """The rules name the columns by their number."""
    rules = (DOCS / "_static/site.css").read_text()
    areas = re.findall(r"^  #ports .* td:nth-child\((\d)\) { grid-area: (\w+); }$", rules, re.M)
    named = {"name": "Verilog", "text": "description"}
    header = [named.get(area, area.capitalize()) for _, area in areas]
    assert [number for number, _ in areas] == [str(k) for k in range(1, len(areas) + 1)]
    for name in CORES:
        text = (DOCS / f"cores/{name}.md").read_text()
        table = text.partition("<!-- generated: ports -->\n")[2].partition("\n")[0]
        assert [part.strip().capitalize() for part in table.strip("|").split("|")] == [
            part.capitalize() for part in header
        ]


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/x.css"/>', ["//fonts.example/x.css"]),
        ('<img alt="x" src="_images/a.svg"/><a href="https://example.org">x</a>', []),
    ],
)
def test_what_is_loaded_from_a_net_is_found(html, found):
    assert offline.loaded(html) == found
