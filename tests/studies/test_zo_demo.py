import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from seedbed.flow.jobs.data import Split, digits
from seedbed.flow.jobs.mlp_task import Settings, prepare
from seedbed.flow.run import pool
from seedbed.flow.run.pool import NotCachedError, cached_run
from seedbed.studies import zo, zo_job
from seedbed.studies.zeroth_order import Run
from seedbed.studies.zo_job import Job, Sources, run

SETTINGS = Settings(hidden=4, shots=(4, 8), steps=10, rate=4e-3, eps=2**-7, pre_steps=30)
PLOTS = {"zo_loss.png", "zo_numbers.png", "zo_bits.png", "zo_rates.png"}


@pytest.fixture(scope="module")
def task():
    return prepare(digits(), SETTINGS)


@pytest.fixture
def small(monkeypatch):
    """The whole demonstration, on a small network and few configurations."""
    monkeypatch.setitem(zo.SETTINGS, "digits", SETTINGS)
    for name, (source, parameter, values) in zo.SWEEPS.items():
        monkeypatch.setitem(zo.SWEEPS, name, (source, parameter, values[:2]))


def test_whole_demonstration(tmp_path, small, monkeypatch):
    shown = StringIO()
    result = zo.run_zo(None, tmp_path / "new" / "out", seeds=2, console=Console(file=shown))
    out = tmp_path / "new" / "out"
    assert json.loads((out / "zo.json").read_text()) == json.loads(json.dumps(result))
    assert {path.name for path in out.iterdir()} == {"zo.json", "zo_cache", *PLOTS}
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in PLOTS)
    rows = {(row["source"], row["shots"]): row for row in result["rows"]}
    assert set(rows) == {(s, k) for s in zo.DEFAULTS for k in (4, 8)}
    for row in rows.values():
        assert row["mean"] == pytest.approx(np.mean(row["accuracies"]))
        assert row["std"] == pytest.approx(np.std(row["accuracies"], ddof=1))
        assert row["gap"] == pytest.approx(row["mean"] - rows["gaussian", row["shots"]]["mean"])
    rated = {(row["source"], round(row["rate"] / SETTINGS.rate, 2)): row for row in result["rates"]}
    assert {eta for _, eta in rated} == {0.67, 1, 1.33, 2}
    assert rated["on-the-fly", 1]["accuracies"] == rows["on-the-fly", 8]["accuracies"]
    gap = rated["on-the-fly", 2]["mean"] - rated["gaussian", 2]["mean"]
    assert rated["on-the-fly", 2]["gap"] == pytest.approx(gap)
    assert rows["gaussian", 4]["diverged"] == 0
    assert rows["unscaled", 4]["diverged"] == 2
    assert rows["unscaled", 4]["loss"] is None
    assert "PeZO, on the fly" in shown.getvalue()

    found = zo.rows(tmp_path / "new")
    assert len(found) == len(rows) + 6 + 4 * len(zo.RATE_SWEEP)
    pezo = [row for row in found if row.aim]
    assert {row.params["source"] for row in pezo} == {"on-the-fly", "pre-generated"}
    assert all(row.kind == "demo" and row.paper["table"] == "Table 3" for row in pezo)
    assert zo.rows(tmp_path / "nothing") == []

    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.*")}
    # Nothing is left to run, so that no process may be started.
    monkeypatch.setattr(pool, "processes", None)
    assert zo.run_zo(None, out, seeds=2) == result
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.*")} == before


def test_cached_results_depend_on_all_inputs(tmp_path, task, monkeypatch):
    job = Job("gaussian", (), 4, 0)
    with pytest.raises(NotCachedError):
        cached_run(Sources(task), job, tmp_path)
    first = cached_run(Sources(task), job, tmp_path, may_run=True)
    assert cached_run(Sources(task), job, tmp_path) == first
    changed = [
        (task, Job("gaussian", (), 4, 1)),
        (task, Job("gaussian", (), 8, 0)),
        (task, Job("rademacher", (), 4, 0)),
        (task, Job("gaussian", (), 4, 0, 2.0)),
        (prepare(digits(), Settings(**{**vars(SETTINGS), "rate": 5e-3})), job),
        (prepare(other_images(), SETTINGS), job),
    ]
    for other_task, other_job in changed:
        with pytest.raises(NotCachedError):
            cached_run(Sources(other_task), other_job, tmp_path)
    monkeypatch.setattr(zo_job, "code", lambda name: "another")
    with pytest.raises(NotCachedError):
        cached_run(Sources(prepare(digits(), SETTINGS)), job, tmp_path)


def other_images():
    whole = digits()
    images, labels = whole.test
    return Split("digits", whole.pre, whole.tune, (images[::-1].copy(), labels[::-1].copy()))


def test_sources_share_the_images(task, monkeypatch):
    seen = {}

    def record(batches, theta, source, *, steps, eps, rate, rng):
        first = next(batches)
        seen[type(source).__name__] = (theta, first.keywords["x"], steps, eps, rate)
        return Run(theta, np.ones(10), None)

    monkeypatch.setattr(zo_job, "train", record)
    for name in sorted({*zo.DEFAULTS} - {zo.BACKPROP}):
        run(task, Job(name, (), 4, 7))
    first, *others = seen.values()
    # The array with three leaps is one class.
    assert len(others) == 5
    for other in others:
        for one, two in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_fine_tuning_helps():
    settings = Settings(hidden=16, shots=(16,), steps=800, rate=6e-3, eps=2**-7)
    task = prepare(digits(), settings)
    before = task.model.accuracy(task.theta, *task.test)
    assert task.upright > 0.9 > 0.5 > before
    for name in zo.RATE_SWEEP:
        after = run(task, Job(name, tuple(zo.DEFAULTS[name].items()), 16, 0))["accuracy"]
        assert after > before + 0.2, name
    naive = run(task, Job("unscaled", (), 16, 0))["accuracy"]
    assert naive < 0.3


@pytest.mark.parametrize("name", ["seeds", "steps", "workers"])
def test_bad_numbers(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        zo.run_zo(None, tmp_path, **{name: 0})


def test_bad_data_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        zo.run_zo(tmp_path / "nowhere", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        zo.run_zo(None, tmp_path / "file")
