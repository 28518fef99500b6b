"""The search for trellis codes."""

import ast

import numpy as np
import pytest

from seedbed.flow.jobs.trellis import gaussian_error, search
from seedbed.golden import trellis
from seedbed.spec import TrellisConfig
from seedbed.spec.trellis import CODES, draw

FEW = {"draws": 4, "steps": 6, "weights": 2048}


def test_codes_are_in_the_order_of_their_errors():
    counted = []
    found = search(3, 6, **FEW, progress=lambda done, error: counted.append((done, error)))
    assert [done for done, _ in counted] == list(range(1, 11))
    assert found[0].error == counted[-1][1]
    assert found[0].origin == f"{found[1].origin}, improved"
    errors = [each.error for each in found]
    assert errors == sorted(errors)
    assert len(found) == 5
    for each in found[1:]:
        assert each.code == draw(6, int(each.origin.removeprefix("seed ")))
    assert {len(each.code) for each in found} == {3}
    assert len(search(3, 6, **(FEW | {"steps": 0}))) == 4


def test_the_error_is_that_of_the_model():
    config = TrellisConfig(bits=2, state_bits=6, code=draw(6, 1))
    rows = np.random.default_rng(1).normal(size=(3, 60))
    values = trellis.table(config)
    errors = []
    for scale in (0.92, 1.0, 1.08):
        codes = trellis.search(config, (rows * (values.std() * scale)).astype(np.float32))
        path = values[trellis.states(config, codes)]
        factor = (path * rows).sum() / (path * path).sum()
        errors.append(np.sqrt(((rows - factor * path) ** 2).sum() / (rows**2).sum()))
    assert gaussian_error(config, rows) == pytest.approx(min(errors), rel=1e-12)


@pytest.mark.parametrize(("bits", "state_bits"), CODES)
def test_a_code_of_the_table_is_better_than_drawn_ones(bits, state_bits):
    rows = np.random.default_rng(2).normal(size=(16, 512))
    drawn = [
        gaussian_error(TrellisConfig(bits=bits, state_bits=state_bits, code=code), rows)
        for code in (draw(state_bits, seed) for seed in range(5))
    ]
    assert gaussian_error(TrellisConfig(bits=bits, state_bits=state_bits), rows) < min(drawn)


def test_at_the_command_line(called, tmp_path):
    words = ["--bits", "2", "--state-bits", "6", "--draws", "3", "--steps", "5"]
    code, out, _ = called(["trellis", "search", *words, "--weights", "1024"], tmp_path)
    assert code == 0
    table, row = out.split("    (2, 6): ")
    assert "improved" in table
    assert (
        ast.literal_eval(row.strip().rstrip(","))
        == search(2, 6, draws=3, steps=5, weights=1024)[0].code
    )
    for words, sentence in (
        (["--draws", "0"], "draws must be in 1..1048576, not 0"),
        (["--bits", "7"], "bits must be in 2..4, not 7"),
        (["--bits", "2", "--state-bits", "4"], "15 different masks are needed, but 4 state bits"),
    ):
        code, out, err = called(["trellis", "search", *words], tmp_path)
        assert (code, out) == (2, "")
        assert sentence in err
