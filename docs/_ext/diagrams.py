"""Two directives that draw SVG when the pages are built: ``wavedrom`` and ``blocks``.

``wavedrom`` holds a timing diagram in WaveJSON. ``blocks`` holds a block diagram as lines of text::

    seed   0,0 port   i_seed
    select 1,0 select load
    state  2,0 reg    state|K bits

    seed -> select
    select -> state: next
    state.s -> select.s

A line names a block, its column and row, its kind and its text; ``|`` starts a new line of text.
An arrow (``->`` or ``<->``) joins two blocks, by the sides that are given (``n``, ``s``, ``e``,
``w``), with a text.
"""

import hashlib
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import schemdraw
import wavedrom
from docutils import nodes
from docutils.parsers.rst import directives
from schemdraw import elements, flow
from schemdraw.segments import SegmentText
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: Columns and rows are so far apart, in schemdraw's units.
COLUMN, ROW = 4.6, 2.0
WIDTH, HEIGHT = 3.2, 1.1
#: Each kind of block: its element, and how it is drawn.
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "port": (flow.RoundBox, {"fill": "#ffffff", "h": 0.8}),
    "block": (flow.Box, {"fill": "#e4eef8"}),
    "reg": (flow.Box, {"fill": "#e9f3e4"}),
    "memory": (flow.Subroutine, {"fill": "#fbf0e0", "w": 3.0, "s": 0.15}),
    "select": (flow.Data, {"fill": "#e4eef8", "s": 0.35}),
    "core": (flow.Box, {"fill": "#e4eef8", "lw": 2.6}),
    "off": (flow.Box, {"fill": "#f2f2f2", "ls": "--"}),
}
#: Where each side is, as a step away from the block.
SIDES = {"n": (0, 1), "s": (0, -1), "e": (1, 0), "w": (-1, 0)}
#: How far a way around stays away from the blocks, and how far lines of text are apart.
AROUND, LINE = 0.55, 0.36
_BLOCK = re.compile(r"(\w+)\s+(-?[\d.]+),(-?[\d.]+)\s+(\w+)\s+(.+)")
_ARROW = re.compile(r"(\w+)(?:\.([nsew]))?\s*(<?->)\s*(\w+)(?:\.([nsew]))?(?::\s*(.+))?")

Point = tuple[float, float]


def draw_blocks(lines: list[str]) -> bytes:
    """Return a block diagram as SVG; raise ``ValueError`` for a line that is neither kind."""
    schemdraw.use("svg")
    drawing = schemdraw.Drawing(show=False)
    drawing.config(fontsize=11, font="sans-serif", lw=1.4, margin=0.15, bgcolor="white")
    found: dict[str, tuple[Any, Point]] = {}
    for line in filter(None, map(str.strip, lines)):
        if arrow := _ARROW.fullmatch(line):
            _arrow(drawing, found, *arrow.groups())
        elif block := _BLOCK.fullmatch(line):
            name, column, row, kind, text = block.groups()
            if kind not in KINDS:
                raise ValueError(f"a block is {', '.join(KINDS)}, not {kind}")
            element, style = KINDS[kind]
            style = {"w": WIDTH, "h": HEIGHT, **style}
            style["h"] = max(style["h"], 0.4 + LINE * (text.count("|") + 1))
            place = (float(column) * COLUMN, -float(row) * ROW)
            found[name] = (drawing.add(element(**style).anchor("center").at(place)), place)
            _text(drawing, place, text)
        else:
            raise ValueError(f"neither a block nor an arrow: {line!r}")
    return drawing.get_imagedata("svg")


def _text(drawing: Any, place: Point, text: str, size: int = 11, align: str = "center") -> None:
    lines = text.split("|")
    for k, line in enumerate(lines):
        at = place[0], place[1] + (len(lines) / 2 - 0.5 - k) * LINE * size / 11
        words = elements.Element().at(at)
        style = {"align": (align, "center"), "fontsize": size}
        words.segments.append(SegmentText((0, 0), line.strip(), **style))
        drawing.add(words)


def _route(start: Point, leave: str, stop: Point, enter: str) -> list[Point]:
    """Return the corners of an arrow between two sides, with right angles."""
    (x0, y0), (x1, y1) = start, stop
    if {leave, enter} == {"e", "w"}:
        middle = (x0 + x1) / 2
        return [start, stop] if y0 == y1 else [start, (middle, y0), (middle, y1), stop]
    if {leave, enter} == {"n", "s"}:
        middle = (y0 + y1) / 2
        return [start, stop] if x0 == x1 else [start, (x0, middle), (x1, middle), stop]
    if leave == enter:
        dx, dy = SIDES[leave]
        # Out on one side, along beyond the farther block, and in on the same side.
        far = max(x0 * dx + y0 * dy, x1 * dx + y1 * dy) + AROUND
        if dx:
            return [start, (far * dx, y0), (far * dx, y1), stop]
        return [start, (x0, far * dy), (x1, far * dy), stop]
    return [start, (x1, y0), stop] if leave in "ew" else [start, (x0, y1), stop]


def _end(block: Any, place: Point, side: str) -> Point:
    """Return where an arrow meets a side: a slanting block has its top off its centre."""
    x, y = getattr(block, side.upper())
    return (place[0], y) if side in "ns" else (x, place[1])


def _arrow(
    drawing: Any, found: dict[str, tuple[Any, Point]], start: str, leave: str | None, kind: str,
    stop: str, enter: str | None, text: str | None,
) -> None:  # fmt: skip
    for name in (start, stop):
        if name not in found:
            raise ValueError(f"an arrow ends at {name!r}, which is no block above it")
    (_, (x0, y0)), (_, (x1, y1)) = found[start], found[stop]
    leave = leave or (("e" if x1 > x0 else "w") if x0 != x1 else ("s" if y1 < y0 else "n"))
    enter = enter or (("w" if x1 > x0 else "e") if x0 != x1 else ("n" if y1 < y0 else "s"))
    ends = [_end(*found[start], leave), _end(*found[stop], enter)]
    route = _route(ends[0], leave, ends[1], enter)
    for k, (here, there) in enumerate(pairwise(route)):
        heads = ("<" if k == 0 and kind == "<->" else "") + (">" if k == len(route) - 2 else "")
        arrow = {"": None, "<": "<-", ">": "->", "<>": "<->"}[heads]
        drawing.add(elements.Line(arrow=arrow).at(here).to(there))
    if text:
        # Beside the longest part of the way.
        here, there = max(pairwise(route), key=lambda two: math.dist(*two))
        middle = (here[0] + there[0]) / 2, (here[1] + there[1]) / 2
        if abs(here[0] - there[0]) > abs(here[1] - there[1]):
            up = 0.1 + 0.15 * (text.count("|") + 1)
            _text(drawing, (middle[0], middle[1] + up), text, 9)
        else:
            _text(drawing, (middle[0] + 0.12, middle[1]), text, 9, "left")


def draw_timing(source: str) -> bytes:
    """Return a timing diagram in WaveJSON as SVG."""
    return wavedrom.render(source).tostring().encode()


class _Diagram(SphinxDirective):
    """A picture that is drawn from the directive's content; ``alt`` is its text for readers."""

    has_content = True
    option_spec = {"alt": directives.unchanged}  # noqa: RUF012 - docutils' way
    alt = ""

    def picture(self) -> bytes:
        """Return the picture as SVG."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        try:
            picture = self.picture()
        except Exception as wrong:
            raise self.error(f"{self.name}: {wrong}") from wrong
        name = f"{self.name}-{hashlib.sha256(picture).hexdigest()[:16]}.svg"
        folder = Path(self.env.app.outdir) / "_images"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture)
        depth = self.env.docname.count("/")
        alt = self.options.get("alt", f"{self.alt} of {Path(self.env.docname).name}")
        source = f"{'../' * depth}_images/{name}"
        html = f'<p class="scroll"><img class="diagram" src="{source}" alt="{alt}"/></p>'
        return [nodes.raw("", html, format="html")]


class Timing(_Diagram):
    """``wavedrom``: a timing diagram."""

    alt = "Timing diagram"

    def picture(self) -> bytes:
        return draw_timing("\n".join(self.content))


class Blocks(_Diagram):
    """``blocks``: a block diagram."""

    alt = "Block diagram"

    def picture(self) -> bytes:
        return draw_blocks(list(self.content))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("wavedrom", Timing)
    app.add_directive("blocks", Blocks)
    return {"parallel_read_safe": True}
