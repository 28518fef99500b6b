"""A dense network as a program of the streamed engine, whose kept weights are trained."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from seedbed.flow.cli.app import app
from seedbed.flow.cli.dense_program import TRAINER, run_program
from seedbed.flow.cores import registry
from seedbed.flow.jobs import dense_program, sparse_trainer_rtl
from seedbed.flow.jobs.kept_tuning import Model
from seedbed.flow.jobs.program_core import fitted
from seedbed.flow.jobs.sparse_trainer_rtl import Settings
from seedbed.golden.kept_weights import tuned


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(sparse_trainer_rtl, "sized", lambda images: images)
    monkeypatch.setattr(sparse_trainer_rtl, "HELD", 100)


def test_a_training_in_the_rtl(small, tmp_path):
    """Every loss and class is the model's; the model alone takes the same steps."""
    shown, settings = (
        StringIO(),
        Settings(images=20, batch=12, epochs=2, kept=40, **dense_program.LEARNS),
    )
    results = [
        run_program(
            None, tmp_path / "out", build=tmp_path, rtl=rtl, settings=settings,
            console=Console(file=shown, width=120),
        )
        for rtl in (True, False)
    ]  # fmt: skip
    rtl, model = results
    assert rtl["steps"] == 2 * 2
    assert len(rtl["changes"]) == 4
    assert {name: rtl[name] for name in model if name != "command"} == {
        name: value for name, value in model.items() if name != "command"
    }
    assert rtl["kept"] <= 40
    assert rtl["weights"] == 64 * 16 + 16 * 10
    assert rtl["block_cycles"] > rtl["block_beats"] > 0
    assert "bit-exact with the model" in shown.getvalue()
    path = tmp_path / "out" / "sparse_program_rtl.json"
    assert json.loads(path.read_text()) == rtl


def test_one_command_trains_in_the_rtl(small, tmp_path):
    """Log, losses and classes are the model's, which takes the same steps alone."""
    settings = Settings(images=16, batch=8, epochs=2, kept=40, **dense_program.LEARNS)
    shown = StringIO()
    rtl, model = (
        run_program(
            None, tmp_path / "out", build=tmp_path, core=TRAINER, rtl=rtl, settings=settings,
            console=Console(file=shown, width=120),
        )
        for rtl in (True, False)
    )  # fmt: skip
    assert rtl["steps"] == len(rtl["changes"]) == 4
    assert {name: rtl[name] for name in model if name != "command"} == {
        name: value for name, value in model.items() if name != "command"
    }
    assert rtl["step_cycles"] > rtl["read_beats"] > 0
    assert any(rtl["changes"])
    assert "One command trains" in shown.getvalue()


def test_it_learns(small, tmp_path):
    settings = Settings(images=200, batch=20, epochs=10, kept=100, **dense_program.LEARNS)
    found = run_program(None, tmp_path, build=tmp_path, settings=settings)
    assert found["after"]["loss"] < found["before"]["loss"] * 0.9
    assert found["after"]["correct"] > found["before"]["correct"]


def test_a_step_is_that_of_its_page(small):
    """Two passes with the signs of a seed; what is left is the change times the signs."""
    drawn = sparse_trainer_rtl.images(
        sparse_trainer_rtl.digits(), Settings(images=16, epochs=1, kept=30)
    )
    engine = dense_program.dense_program(drawn.task, *drawn.statistics, kept=30)
    of = fitted(registry.find("stream_engine"), engine, block=8, context=8)
    found = Model(engine, of.config, of.image)
    first = found.tuner.words.copy()
    settings = Settings(images=16, batch=16, epochs=1, kept=30, rate=1 << 12, shift=10)
    [(step, plus, minus)] = dense_program.train(
        found, settings, drawn.x[:16], drawn.labels[:16], drawn.order, block=8
    )
    losses = []
    for k in (1, -1):
        found.tuner.words = tuned(found.tuner.config, first, seed=step.seed, delta=k * 64)
        found.tune(seed=step.seed, delta=0)
        given = dense_program.judged(found, drawn.x[:16], drawn.labels[:16], 16)
        losses.append(int(given[:, 0].sum()))
    assert losses == [plus, minus]
    wanted = np.floor((plus - minus) * (1 << 12) / (1 << 10) + 0.5)
    assert step.change == int(np.clip(wanted, -1024, 1024))


def test_a_base_of_seedlm_is_refused():
    words = ["demo", "sparse", "--core", "stream_engine", "--decode", "seedlm"]
    result = CliRunner().invoke(app, words)
    assert "--decode must be trellis with --core stream_engine, not seedlm" in str(
        result.exception or result.output
    )
