import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from seedbed.flow.jobs import instantft_task
from seedbed.flow.jobs.data import digits
from seedbed.flow.jobs.instantft_task import Settings, prepare, sized, to_bytes
from seedbed.flow.run import pool
from seedbed.studies import instantft, instantft_job
from seedbed.studies.finetune_methods import METHODS
from seedbed.studies.instantft_job import FIXED, Job, Methods

SETTINGS = Settings(phases=((6, 1e-3), (2, 1e-4)), images=30, epochs=2, batch=10, rate=0.02)
PLOTS = {"instantft_angle.png", "instantft_time.png"}


@pytest.fixture
def small(monkeypatch):
    """The whole demonstration with few steps, images and angles."""
    monkeypatch.setitem(instantft_task.SETTINGS, "digits", SETTINGS)
    monkeypatch.setattr(instantft, "ANGLES", (15, 90))


def test_whole_demonstration(tmp_path, small, monkeypatch):
    shown, out = StringIO(), tmp_path / "new" / "out"
    result = instantft.run_instantft(
        None, out, angle=40, seeds=2, console=Console(file=shown, width=120)
    )
    assert json.loads((out / "instantft.json").read_text()) == json.loads(json.dumps(result))
    assert {path.name for path in out.iterdir()} == {"instantft.json", "instantft_cache", *PLOTS}
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in PLOTS)
    assert [(row["method"], row["cache"]) for row in result["table"]] == [
        ("InstantFT", "exact"),
        ("InstantFT", "nf4"),
        (FIXED, "exact"),
        (FIXED, "nf4"),
    ]
    assert {row["method"] for row in result["times"]} == set(METHODS)
    assert {row["angle"] for row in result["table"] + result["times"]} == {40}
    assert {(row["angle"], row["method"]) for row in result["angles"]} == {
        (angle, method) for angle in (15, 90) for method in (*METHODS, FIXED)
    }
    for row in result["table"] + result["angles"]:
        assert row["after_held"] == pytest.approx(np.mean(row["accuracies"]))
        assert row["after_held_std"] == pytest.approx(np.std(row["accuracies"], ddof=1))
    assert result["gaps"]["nf4_in_fixed_point"] == pytest.approx(
        result["table"][2]["after_held"] - result["table"][3]["after_held"]
    )
    assert (result["tuned"], result["held"]) == (30, 30)
    assert result["cache_bytes"] == {"float32": 30 * 7160, "exact": 30 * 4028, "nf4": 30 * 957}
    for text in ("rotated by 40 degrees", "fixed point, with NF4", "61,706", "InstantFT, forward"):
        assert text in shown.getvalue()

    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.*")}
    # Nothing is left to run.
    monkeypatch.setattr(instantft_job.Methods, "run", None)
    monkeypatch.setattr(instantft_task, "_pretrain", None)
    assert instantft.run_instantft(None, out, angle=40, seeds=2, workers=1) == result
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.*")} == before


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    steps = []
    found = prepare(digits(), SETTINGS, tmp_path_factory.mktemp("kept"), steps.append)
    assert sum(steps) == 8
    return Methods(found)


def test_cached_results_depend_on_all_inputs(task, monkeypatch):
    start = task.start
    changed = [
        replace(start, settings=replace(SETTINGS, rate=0.03)),
        replace(start, images=start.images[::-1].copy()),
        replace(start, labels=start.labels[::-1].copy()),
        replace(start, parameters={n: v + 1 for n, v in start.parameters.items()}),
    ]
    digests = {Methods(each).digest for each in (start, *changed)}
    assert replace(task).digest == task.digest
    monkeypatch.setattr(instantft_job, "code", lambda name: "another")
    digests.add(replace(task).digest)
    assert len(digests) == 6


def test_methods_share_images_and_order(task, monkeypatch):
    seen = []

    def record(self, job, start, images, labels, turns):
        seen.append((images, labels, np.concatenate(list(turns)), start.random()))
        return {}

    for name in ("_fixed", "_float"):
        monkeypatch.setattr(instantft_job.Methods, name, record)
    task.run(Job("FT-All", "none", 90.0, 5))
    task.run(Job(FIXED, "nf4", 90.0, 5))
    task.run(Job(FIXED, "nf4", 90.0, 6))
    for one, two, three in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, two)
        assert not np.array_equal(one, three)


def test_fixed_point_learns_as_float_does(tmp_path):
    settings = replace(
        instantft_task.SETTINGS["digits"], phases=((150, 1e-3),), images=300, epochs=6, rate=0.01
    )
    task = Methods(prepare(digits(), settings, tmp_path, lambda steps: None))
    real = task.run(Job("InstantFT", "exact", 60.0, 0))
    ours = task.run(Job(FIXED, "nf4", 60.0, 0))
    assert task.start.upright > 0.85
    for each in (real, ours):
        assert each["after_held"] > each["before_held"] + 0.15
    assert abs(ours["before_held"] - real["before_held"]) < 0.01
    assert abs(ours["after_held"] - real["after_held"]) < 0.05


def test_a_run_that_diverges_says_so(task):
    wild = Methods(replace(task.start, settings=replace(SETTINGS, rate=1e6, epochs=20)))
    assert wild.run(Job("FT-Last", "none", 90.0, 0))["diverged"] is False
    assert wild.run(Job("LoRA-All", "none", 90.0, 0))["diverged"] is True
    assert "diverged" not in task.run(Job(FIXED, "nf4", 90.0, 0))


def test_digits_stand_in_the_middle_as_those_of_mnist():
    images = sized(digits().test[0])
    assert images.shape[1:] == (28, 28)
    assert not images[:, :4].any()
    assert images[:, 4:24, 4:24].any(axis=0).mean() > 0.9
    full = np.zeros((2, 28, 28))
    assert sized(full) is full
    assert to_bytes(np.array([-0.1, 0, 0.5, 1, 1.2])).tolist() == [0, 0, 128, 255, 255]


def test_a_pool_runs_each_uncached_job_once(tmp_path, task, monkeypatch):
    jobs = [Job("InstantFT", "exact", 90.0, seed) for seed in range(2)]
    pool.run_jobs(task, jobs[:1], tmp_path, workers=1, progress=False)
    run = instantft_job.Methods.run
    ran = []
    monkeypatch.setattr(
        instantft_job.Methods, "run", lambda self, job: ran.append(job) or run(self, job)
    )
    done = pool.run_jobs(task, [*jobs, *jobs], tmp_path, workers=1, progress=False)
    assert ran == jobs[1:]
    assert set(done) == set(jobs)


@pytest.mark.parametrize("name", ["seeds", "workers"])
def test_bad_numbers(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        instantft.run_instantft(None, tmp_path, **{name: 0})


@pytest.mark.parametrize("angle", [14.9, 91, float("nan")])
def test_bad_angle(tmp_path, angle):
    with pytest.raises(ValueError, match=r"angle must be in 15\.\.90 degrees, not "):
        instantft.run_instantft(None, tmp_path / "out", angle=angle)
    assert list(tmp_path.iterdir()) == []


def test_bad_data_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        instantft.run_instantft(tmp_path / "nowhere", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
