import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from seedbed.flow.jobs.data import digits
from seedbed.studies import elasticzo_choices, elasticzo_job, elasticzo_passes
from seedbed.studies.elasticzo import run_elasticzo
from seedbed.studies.elasticzo_choices import run_choices
from seedbed.studies.elasticzo_job import Images, Settings, Task
from seedbed.studies.elasticzo_passes import run_passes

SETTINGS = Settings(method="cls1", epochs=3, batch=128)
#: Enough steps to learn.
LONG = replace(SETTINGS, batch=16)


def train(out, settings=SETTINGS, **options):
    return run_elasticzo(None, out, settings, console=None, **options)


def histories(result):
    return [
        [{n: v for n, v in each.items() if n != "seconds"} for each in run["history"]]
        for run in result["runs"]
    ]


def test_a_training_is_written(tmp_path):
    whole = train(tmp_path, LONG)
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".npz"} == {
        "elasticzo-int8-cls1.json",
        "elasticzo-int8.png",
    }
    assert json.loads((tmp_path / "elasticzo-int8-cls1.json").read_text()) == json.loads(
        json.dumps(whole)
    )
    (run,) = whole["runs"]
    assert len(run["history"]) == 3
    assert (tmp_path / run["checkpoint"]).is_file()
    assert run["history"][-1]["accuracy"] > run["before"]["accuracy"] + 10
    assert run["history"][-1]["test_loss"] < run["before"]["test_loss"]


def test_an_interrupted_training_is_resumed_where_asked(tmp_path, monkeypatch):
    whole = train(tmp_path / "whole")
    epoch = Task._epoch
    done = []

    def interrupted(task, trainer, job, number, now):
        if number == 2:
            raise KeyboardInterrupt
        return epoch(task, trainer, job, number, now)

    def counted(task, trainer, job, number, now):
        done.append(number)
        return epoch(task, trainer, job, number, now)

    monkeypatch.setattr(Task, "_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts")
    monkeypatch.setattr(Task, "_epoch", counted)
    with pytest.raises(ValueError, match=r"holds 2 of 3 epochs: --resume goes on"):
        train(tmp_path / "parts")
    parts = train(tmp_path / "parts", resume=True)
    assert done == [2]
    assert histories(parts) == histories(whole)
    assert len(parts["runs"][0]["versions"]) == 1
    # A finished training is not repeated with it, and is without it.
    train(tmp_path / "parts", resume=True)
    assert done == [2]
    assert histories(train(tmp_path / "parts")) == histories(whole)
    assert done == [2, 0, 1, 2]
    # A checkpoint that is damaged is none.
    (checkpoint,) = (tmp_path / "parts").glob("*.npz")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-40])
    again = train(tmp_path / "parts", resume=True)
    assert done == [2, 0, 1, 2, 0, 1, 2]
    assert histories(again) == histories(whole)


def test_the_versions_of_the_code_that_trained_are_recorded(tmp_path, monkeypatch):
    epoch = Task._epoch

    def interrupted(task, trainer, job, number, now):
        if number == 1:
            raise KeyboardInterrupt
        return epoch(task, trainer, job, number, now)

    with monkeypatch.context() as patch:
        patch.setattr(Task, "_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path)
    monkeypatch.setattr(elasticzo_job, "code", lambda name: "other")
    assert len(train(tmp_path, resume=True)["runs"][0]["versions"]) == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_command_goes_on(tmp_path, jobs):
    words = ["demo", "elasticzo", "--method", "cls2", "--epochs", "8", "--batch", "128"]
    words += ["--seeds", "2", "--jobs", str(jobs)]

    def start(folder, *more):
        return subprocess.Popen(
            [sys.executable, "-m", "seedbed", *words, "--build", str(folder), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    killed = start(tmp_path / "parts")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("parts/demo/digits/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert list(tmp_path.glob("parts/demo/digits/*.npz"))
    assert not list(tmp_path.glob("parts/demo/digits/elasticzo-int8-cls2.json"))
    resumed, whole = start(tmp_path / "parts", "--resume"), start(tmp_path / "whole")
    for each in (resumed, whole):
        _, error = each.communicate(timeout=300)
        assert not each.returncode, error
    found, wanted = (
        json.loads((tmp_path / name / "demo/digits/elasticzo-int8-cls2.json").read_text())
        for name in ("parts", "whole")
    )
    assert found["seeds"] == [0, 1]
    assert histories(found) == histories(wanted)


def test_another_seed_is_another_training(tmp_path):
    found = train(tmp_path, replace(SETTINGS, epochs=1), seeds=2)
    first, second = histories(found)
    assert first != second
    assert [second] == histories(train(tmp_path / "b", replace(SETTINGS, epochs=1, seed=1)))


def test_floating_point_trains(tmp_path):
    settings = Settings(arithmetic="float", method="cls1", epochs=4, batch=16, rate=0.003)
    history = train(tmp_path, settings)["runs"][0]["history"]
    assert history[-1]["accuracy"] > 20
    assert history[-1]["loss"] < history[0]["loss"]
    assert all(each["agreement"] == 100 for each in history)


@pytest.mark.parametrize("source", ["buffer", "urng", "urng-row"])
def test_sources_train(tmp_path, source):
    found = train(tmp_path, replace(LONG, source=source))
    (run,) = found["runs"]
    assert run["history"][-1]["loss"] < run["history"][0]["loss"]
    assert found["accuracy"] > run["before"]["accuracy"] + 5
    assert (tmp_path / f"elasticzo-int8-cls1-{source}.json").is_file()


def test_a_network_is_fine_tuned_on_rotated_images(tmp_path):
    upright = train(tmp_path, Settings(method="full-bp", epochs=4, batch=32))
    start = tmp_path / upright["runs"][0]["checkpoint"]
    found = train(tmp_path, LONG, degrees=45, start=start)
    # It starts from weights that have not seen rotated images.
    before = found["runs"][0]["before"]["accuracy"]
    assert before < upright["accuracy"] - 10
    assert found["accuracy"] > before
    assert (tmp_path / "elasticzo-int8-cls1-rotated45.json").is_file()


def test_rotated_images_are_as_many_as_the_papers():
    split = digits()
    many = replace(split, pre=(np.repeat(split.pre[0], 3, axis=0), np.repeat(split.pre[1], 3)))
    images = Images.of(many, degrees=30)
    assert len(images.train[1]) == 1024
    assert 0 <= images.train[0].min() < images.train[0].max() <= 127
    assert len(Images.of(split, limit=200).train[1]) == 200


def test_choices_are_trained(tmp_path, monkeypatch):
    few = tuple(each for each in elasticzo_choices.CHOICES if each[1] in ("in place", "0"))
    monkeypatch.setattr(elasticzo_choices, "CHOICES", few)
    found = run_choices(
        None, tmp_path, images=256, epochs=1, batch=64, seeds=2, jobs=1, console=None
    )
    assert [row["changes"] for row in found["rows"]] == [{"in_place": True}, {"fraction": 0}]
    assert all(len(row["accuracy"]) == 2 for row in found["rows"])
    assert json.loads((tmp_path / "elasticzo-choices.json").read_text()) == found


def test_variants_have_equal_passes_and_go_on(tmp_path, monkeypatch):
    """The average of the differences is in a checkpoint: the same numbers as without a stop."""
    names = ("batch 32, levels", "all, 6 bits")
    options = {"names": names, "epochs": 2, "seeds": 2, "magnitudes": (7, 15), "console": None}
    whole = run_passes(None, tmp_path / "whole", **options)
    assert whole["passes"] == 2 * 2 * whole["images"]
    assert [row["name"] for row in whole["rows"]] == [*names]
    for row in whole["rows"]:
        scores = row["validation"]
        assert scores[str(row["magnitude"])] == max(scores.values())
        assert len(row["accuracy"]) == 2
    epoch, done = Task._epoch, []

    def interrupted(task, trainer, job, number, now):
        done.append(number)
        if len(done) == 2:
            raise KeyboardInterrupt
        return epoch(task, trainer, job, number, now)

    monkeypatch.setattr(Task, "_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_passes(None, tmp_path / "parts", **options)
    assert run_passes(None, tmp_path / "parts", **options) == whole
    assert json.loads((tmp_path / "parts/elasticzo-passes.json").read_text()) == whole


def test_every_variant_is_a_configuration():
    for name in elasticzo_passes.VARIANTS:
        elasticzo_passes._settings(name, Settings()).config("lenet5_padded")


def test_every_choice_is_a_configuration():
    for _, _, method, changes in elasticzo_choices.CHOICES:
        elasticzo_choices._settings(method, changes, Settings()).config("lenet5_padded")


def test_the_command_prints_a_table(called, tmp_path):
    words = ["--epochs", "1", "--source", "urng", "--build", "b"]
    code, printed, _ = called(["demo", "elasticzo", *words], tmp_path)
    assert not code
    assert "ElasticZO-INT8, full-zo, digits" in printed
    assert (tmp_path / "b" / "demo" / "digits" / "elasticzo-int8.png").is_file()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "cls3"], "method must be one of full-zo, cls2, cls1, full-bp, not 'cls3'"),
        (["--epochs", "0"], "epochs must be in 1..10000, not 0"),
        (["--batch", "2000"], "batch must be at most 1097, the images, not 2000"),
        (["--magnitude", "64"], "magnitude must be in 1..63, not 64"),
        (["--fraction", "9"], "fraction must be in 0..8, not 9"),
        (["--source", "urng", "--magnitude", "5"], "magnitude must be 2^c - 1"),
        (["--source", "noise"], "source must be one of software, buffer, urng, urng-row"),
        (["--float", "--source", "urng"], "source must be software in floating point, not 'urng'"),
        (["--float", "--rate", "0"], "rate must be more than 0, not 0.0"),
        (["--rotate", "200"], "degrees must be in 0..180, not 200"),
        (["--seeds", "0"], "seeds must be in 1..100, not 0"),
        (["--jobs", "0"], "jobs must be in 1..256, not 0"),
        (["--start", "text"], "text is not a checkpoint of this demonstration"),
    ],
)
def test_bad_input_is_one_sentence(called, tmp_path, words, sentence):
    (tmp_path / "text").write_text("text")
    code, _, printed = called(["demo", "elasticzo", *words], tmp_path)
    assert code == 2
    assert sentence in printed
