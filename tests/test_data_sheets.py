"""A model or a host is written from the pages alone: their listings agree with the models."""

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from seedbed.golden.lutopt import Lutopt
from seedbed.golden.weight_perturb import WeightPerturb
from seedbed.spec import LutoptConfig, WeightPerturbConfig
from seedbed.spec.lutopt import DRAWS, SEED_LEAST, expansion

CORES = Path(__file__).parents[1] / "docs" / "cores"


def listings(page):
    """Return the Python examples of a page that define functions."""
    text = (CORES / f"{page}.md").read_text()
    return [b for b in re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M) if "\ndef " in b]


@cache
def listing(page):
    """Return the names that the listings of a page define."""
    names = {}
    for source in listings(page):
        exec(compile(source, page, "exec"), names)
    return names


@pytest.mark.parametrize("page", [path.stem for path in sorted(CORES.glob("*.md"))])
def test_a_listing_is_written_from_its_page_alone(page):
    """It imports tables of constants, and no model and no core."""
    for source in listings(page):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("seedbed"):
                assert node.module.startswith("seedbed.spec"), (page, node.module)
                assert all(each.name.isupper() for each in node.names), (page, node.module)


def test_the_page_of_lutopt_has_every_size():
    text = " ".join((CORES / "lutopt.md").read_text().split())
    assert [size for size in DRAWS if f"{size[0]} x {size[1]}" not in text] == []


@pytest.mark.parametrize("size", DRAWS, ids=str)
def test_lutopt(size):
    lanes, width, _ = size
    config = LutoptConfig(lanes=lanes, width=width)
    page = listing("lutopt")
    taps = page["taps"](lanes, width)
    assert list(map(tuple, taps)) == list(config.rows)
    if config.bits >= SEED_LEAST:
        model = Lutopt(config)
        for seed in (0, 1, 2**32 - 1):
            model.seed(seed)
            assert page["words"](lanes, width, seed, 3) == model.beats(3).tolist()


def test_the_taps_that_expand_a_seed_word_are_on_the_page():
    rows = re.findall(r"\| (\d+), \d+, \d+ \| ([\d,; ]+)", (CORES / "lutopt.md").read_text())
    found = {int(first): taps.split(";") for first, taps in rows}
    taps = [tuple(map(int, one.split(","))) for first in sorted(found) for one in found[first]]
    assert tuple(taps) == expansion()


@pytest.mark.parametrize(
    "config",
    [
        WeightPerturbConfig(lanes=8, ways=2, rows=4),
        WeightPerturbConfig(lanes=32, ways=1, rows=4),
        WeightPerturbConfig(lanes=16, ways=1, bits=3, rows=4),
        WeightPerturbConfig(lanes=32, ways=4, bits=6, rows=4),
    ],
    ids=str,
)
def test_weight_perturb(config):
    """From the seed on: the words are those of the page of lutopt."""
    page, model = listing("weight_perturb"), WeightPerturb(config)
    words = listing("lutopt")["words"](config.count, config.bits + 1, 7, 2)
    for magnitude in range(1, config.bits + 1):
        for zeros in (0, 5, 15):
            limits = {"magnitude": 2**magnitude - 1, "zeros": zeros}
            z = [page["perturbation"](row, config.bits, magnitude, zeros) for row in words]
            found = model.perturbation(7, 2, **limits)
            assert found.reshape(2, -1).tolist() == z
            u = [[page["rounded"](each, magnitude) for each in row] for row in z]
            up = model.updated(np.zeros_like(found, int), found, -1, limits["magnitude"])
            assert up.reshape(2, -1).tolist() == u


def test_the_worked_example_of_weight_perturb_starts_from_its_seed():
    assert listing("lutopt")["words"](16, 5, 7, 1) == [listing("weight_perturb")["words"]]


def test_the_table_of_rounded_perturbations():
    """Of each range: the magnitudes that an update does not round to 0."""
    rounded, found = listing("weight_perturb")["rounded"], {}
    text = (CORES / "weight_perturb.md").read_text().partition("for which u is not 0")[2]
    for c, row in re.findall(r"^\| (\d) \| ([\d., ]+) \|$", text, re.M)[:6]:
        ends = [each.partition("..") for each in row.split(", ")]
        found[int(c)] = [k for a, _, b in ends for k in range(int(a), int(b or a) + 1)]
    assert found == {c: [m for m in range(2**c) if rounded(m, c)] for c in range(1, 7)}
