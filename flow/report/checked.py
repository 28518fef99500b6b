"""Rows of what tests have checked, from the file that ``make test`` writes."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

from seedbed.flow.report.row import Row

__all__ = ["rows"]


def rows(path: Path) -> list[Row]:
    """Return the rows of the tests that have passed; those of one configuration are added up.

    A test records a row as the property ``row``: core, configuration, command and figures in JSON.
    A file that is damaged is skipped with a message on standard error.
    """
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    try:
        for case in ElementTree.parse(path).iter("testcase") if path.exists() else ():
            if any(case.find(tag) is not None for tag in ("failure", "error", "skipped")):
                continue
            for made in case.iterfind("properties/property[@name='row']"):
                core, config, command, figures = json.loads(made.attrib["value"])
                known = found.setdefault((core, config, command), {})
                for name, value in figures.items():
                    known[name] = known.get(name, 0) + value
    except (OSError, ElementTree.ParseError, ValueError, KeyError):
        print(f"{path} is damaged, and is skipped: run 'make test' again", file=sys.stderr)
        return []
    return [
        Row(core=core, config=config, kind="check", figures=figures, command=command)
        for (core, config, command), figures in found.items()
    ]
