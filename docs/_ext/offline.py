"""Ends the build with an error where a page loads a script, a style or a picture from a net."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"((?:https?:)?//[^\"]+)\"")


def loaded(html: str) -> list[str]:
    """Return the addresses from which a page loads something when it is viewed."""
    return _LOADED.findall(html)


def check(app: Sphinx, exception: Exception | None) -> None:
    """Look through all pages after the build."""
    if exception or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*.html")):
        if found := loaded(path.read_text()):
            raise SphinxError(f"{path.name} loads {found[0]}: a page needs no network")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the check."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
