import json
from dataclasses import dataclass, replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from seedbed.flow.cli import zo_trainer_rtl as zo_trainer_rtl_demo
from seedbed.flow.cores import registry
from seedbed.flow.jobs import zo_trainer_rtl
from seedbed.flow.jobs.data import Split
from seedbed.flow.jobs.elasticzo_checkpoint import load
from seedbed.flow.report import jobs, kinds
from seedbed.flow.report.sections import sections
from seedbed.sim.jobs import zo_job
from seedbed.spec.zo_trainer import ZoTrainerConfig

IMAGES, BATCH, EPOCHS = 30, 8, 2


@dataclass(frozen=True, kw_only=True)
class Small(ZoTrainerConfig):
    """Of the network and the lanes of the demonstration, CI runs a short training."""

    lanes: int = 8
    ways: int = 2


def noise():
    """Return small images of noise."""
    rng = np.random.default_rng(1)
    sets = [(rng.random((n, 6, 6)), rng.integers(5, size=n)) for n in (20, 20, 10)]
    return Split("noise", *sets)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A short training: folder, result, what was printed."""
    folder, shown = tmp_path_factory.mktemp("rtl"), StringIO()
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        result = run(folder, console=Console(file=shown, width=120))
        # What is kept is not simulated again.
        patch.setattr(zo_job, "run", None)
        assert run(folder) == result
    return SimpleNamespace(folder=folder, result=result, shown=shown.getvalue())


def small(patch):
    find = registry.find
    patch.setattr(registry, "find", lambda name: replace(find(name), config=Small))
    patch.setattr(zo_trainer_rtl_demo, "digits", noise)
    patch.setattr(zo_trainer_rtl_demo, "NETWORKS", {6: "tiny"})


def run(folder, **options):
    given = {"images": IMAGES, "batch": BATCH, "epochs": EPOCHS, "magnitude": 7, "seed": 3}
    return zo_trainer_rtl_demo.run_rtl(None, folder / "out", build=folder, **given | options)


def test_a_training_is_counted(trained):
    result = trained.result
    text = (trained.folder / "out" / "elasticzo_rtl.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(result))
    assert (result["steps"], len(result["log"])) == (8, 8)
    assert [entry[:3] for entry in result["log"]] == [
        [3 + step, 3, 8 if step < 4 else 14] for step in range(8)
    ]
    assert result["job_cycles"] == sum(result["cycles"][name] for name in ("load", "train", "read"))
    assert result["step_cycles"] * 8 == pytest.approx(result["cycles"]["train"])
    assert result["sample_cycles"] * 60 == pytest.approx(result["cycles"]["train"])
    assert result["throughput_percent"] == pytest.approx(
        100 * result["forward_cycles"] / result["perturbed_cycles"]
    )
    # A sample takes two passes, and the rest of a step is less than one.
    sample = 2 * result["perturbed_cycles"]
    assert 60 * sample < result["cycles"]["train"] < 60 * sample + 8 * sample
    assert 60_000 * sample < result["epoch_cycles"] < 60_235 * sample
    accesses = result["parameters"]
    assert accesses["updates"] == sum(entry[3] != 0 for entry in result["log"]) > 0
    assert accesses["writes_per_update"] == accesses["reads_per_update"] == [1, 1]
    assert accesses["reads_per_pass"] == [1, 36]
    assert "--images 30 --batch 8 --epochs 2 --seed 3 --magnitude 7" in result["command"]
    for part in (
        f"{result['job_cycles']:,}",
        "Writes of a parameter per update by zeroth order: 1.",
    ):
        assert part in trained.shown


def test_another_batch_of_one_image_has_no_pass_between_two(trained, monkeypatch):
    small(monkeypatch)
    shown = StringIO()
    console = Console(file=shown, width=120)
    found = run(trained.folder, images=2, batch=1, epochs=1, console=console)
    assert "perturbed_cycles" not in found
    assert found["steps"] == 2
    assert "bit-exact" in shown.getvalue()


def test_a_tail_is_trained_and_has_no_log(tmp_path, monkeypatch):
    small(monkeypatch)
    shown = StringIO()
    found = run(tmp_path, method="cls1", console=Console(file=shown, width=120))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"elasticzo_rtl-cls1{end}" for end in (".json", "-first.npz", "-final.npz")}
    first, final = (
        load(tmp_path / "out" / f"elasticzo_rtl-cls1-{name}.npz")[0] for name in ("first", "final")
    )
    last = Small(network="tiny").layers[-1].name
    assert (first[last] != final[last]).any()
    accesses = found["parameters"]
    assert accesses["writes_per_update"] == accesses["reads_per_update"] == [1, 1]
    assert accesses["tail_writes_per_step"][1] == 1
    assert "--method cls1" in found["command"]
    assert "There is no log" in shown.getvalue()


@pytest.fixture
def files(trained, tmp_path, monkeypatch):
    """The log, the first and the final weights of the training."""
    small(monkeypatch)
    run(trained.folder)
    out = trained.folder / "out"
    return [out / f"elasticzo_rtl{end}" for end in (".log", "-first.npz", "-final.npz")]


def test_the_log_is_replayed(files, called, tmp_path):
    log, first, final = files
    words = ["replay-log", str(log), str(first), "-o", "again.npz"]
    code, printed, _ = called(words, tmp_path)
    assert (code, printed) == (0, "again.npz: the weights after 8 steps\n")
    assert (tmp_path / "again.npz").read_bytes() == final.read_bytes()
    before, after = (load(path)[0] for path in (first, final))
    assert any((before[name] != values).any() for name, values in after.items())
    code, _, printed = called(words, tmp_path)
    assert code == 2
    assert "again.npz exists already; --force overwrites it" in printed
    assert called([*words, "--force"], tmp_path)[0] == 0


def test_a_log_or_weights_that_are_not_right_are_refused(files, called, tmp_path):
    log, first, final = files
    text = log.read_text()
    lines = text.splitlines(keepends=True)
    (tmp_path / "cut.log").write_text("".join(lines[:-1]))
    (tmp_path / "less.log").write_text("".join([*lines[:3], *lines[4:]]))
    (tmp_path / "bytes.log").write_bytes(b"\xff" * 99)
    (tmp_path / "text").write_text("text")
    np.savez(tmp_path / "other.npz", state=np.frombuffer(b"{}", np.uint8))
    for words, sentence in [
        (["cut.log", first], "cut.log cannot be replayed: it is truncated"),
        (["less.log", first], "less.log cannot be replayed: it is damaged"),
        (["bytes.log", first], "bytes.log cannot be replayed: it is not a training log"),
        (["text", first], "text cannot be replayed: it is not a training log"),
        ([log, final], "the weights are not those that the training began with"),
        ([log, "text"], "text is not a checkpoint of this demonstration"),
        ([log, "other.npz"], "other.npz has no int8 weights of"),
    ]:
        code, _, printed = called(["replay-log", *map(str, words), "-o", "o.npz"], tmp_path)
        assert code == 2
        assert sentence in printed
        assert len(printed.splitlines()) == 1
        assert not (tmp_path / "o.npz").exists()


def test_a_truncated_log_is_replayed_on_request(files, called, tmp_path):
    log, first, _ = files
    lines = log.read_text().splitlines(keepends=True)
    (tmp_path / "cut.log").write_text("".join([*lines[:6], lines[6][:4]]))
    words = ["replay-log", "cut.log", str(first), "-o", "part.npz"]
    code, _, printed = called(words, tmp_path)
    assert code == 2
    assert "does not end with a checksum, and is only replayed as a partial log" in printed
    code, printed, _ = called([*words, "--partial"], tmp_path)
    assert (code, printed) == (0, "part.npz: the weights after 5 steps\n")
    assert load(tmp_path / "part.npz")[0].keys() == load(first)[0].keys()


def test_a_training_starts_from_a_checkpoint(files):
    _, first, final = files
    config, kept = Small(network="tiny"), load(final)[0]
    job = zo_trainer_rtl.draw(config, noise(), images=8, batch=8, seed=3, start=final)
    assert all((kept[name] == values).all() for name, values in job.weights.items())
    other = zo_trainer_rtl.draw(config, noise(), images=8, batch=8, seed=3)
    assert any((kept[name] != values).any() for name, values in other.weights.items())
    assert all((load(first)[0][name] == values).all() for name, values in other.weights.items())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rtl", "--images", "0"], "images must be in 1..1097, not 0"),
        (["--rtl", "--images", "1098"], "images must be in 1..1097, not 1098"),
        (["--rtl", "--batch", "257"], "batch must be in 1..256, not 257"),
        (["--rtl", "--epochs", "0"], "epochs must be in 1..65535, not 0"),
        (["--rtl", "--seed", "-1"], "seed must be in 0..4294967295, not -1"),
        (["--rtl", "--magnitude", "5"], "magnitude must be one of 1, 3, 7, 15, not 5"),
        (["--rtl", "--method", "full-bp"], "full-zo, cls2, cls1 with --rtl, not 'full-bp'"),
        (["--rtl", "--method", "all"], "must be one of full-zo, cls2, cls1, full-bp, not 'all'"),
        (["--rtl", "--float"], "--float does not go with --rtl"),
        (["--rtl", "--rotate", "30"], "--rotate does not go with --rtl"),
        (["--rtl", "--resume"], "--resume does not go with --rtl"),
        (["--rtl", "--start", "text"], "text is not a checkpoint of this demonstration"),
        (["--images", "9"], "--images goes with --rtl"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(called, tmp_path, words, sentence):
    (tmp_path / "text").write_text("text")
    code, _, printed = called(["demo", "elasticzo", *words], tmp_path)
    assert code == 2
    assert sentence in printed
    assert not (tmp_path / "build").exists()


RESULT = {
    "lanes": 32, "data": "mnist", "seed": 0, "images": 1024, "epochs": 1, "batch": 32,
    "network": "lenet5_padded", "method": "full-zo", "job_cycles": 10,
    "step_cycles": 2.5, "sample_cycles": 3.5,
    "forward_cycles": 4.5, "perturbed_cycles": 5.5, "throughput_percent": 99.5,
    "epoch_cycles": 12_000_000, "cycles_per_second": 1e5,
    "parameters": {"reads_per_update": [1, 1], "writes_per_update": [1, 1]},
    "tools": {"verilator": "Verilator 0"}, "command": "seedbed demo elasticzo --rtl",
}  # fmt: skip


@pytest.mark.parametrize(
    "change", [{"epochs": 2}, {"batch": 64}, {"images": 64}, {"method": "cls1"}]
)
def test_one_training_on_mnist_is_in_the_report(tmp_path, change):
    path = tmp_path / "mnist" / "elasticzo_rtl.json"
    path.parent.mkdir()
    path.write_text(json.dumps(RESULT | change))
    assert zo_trainer_rtl_demo.rows(tmp_path) == []
    path.write_text(json.dumps(RESULT))
    (row,) = zo_trainer_rtl_demo.rows(tmp_path)
    assert row.aim == {"throughput_percent": [">=", 98], "writes_per_update": ["<=", 1]}
    (table,) = [t for t in sections([row.to_json()]) if t.title.startswith("Zeroth-order training")]
    printed = dict(zip(table.header, table.lines[0], strict=True))
    assert printed["cycles per MNIST epoch"] == "12,000,000"
    assert "MNIST epoch, s" not in printed


def test_the_report_has_the_time_of_an_epoch_where_the_core_was_placed(monkeypatch, tmp_path):
    monkeypatch.setattr(zo_trainer_rtl, "measure", lambda *_, **__: RESULT)
    monkeypatch.setattr(jobs, "memo", lambda folder, kind, key, compute: compute())
    monkeypatch.setattr(kinds, "emitted", lambda job, plain: tmp_path / "zo_trainer.v")
    job, other = jobs.plan(tmp_path, kinds={"job"}, cores={"zo_trainer"})
    assert [job.config, other.config] == ["LeNet-5, 32 lanes", "LeNet-5, 32 lanes, rank 1"]
    (row,) = jobs._rows(job)
    assert row.params["data"] == "digits"
    placed = replace(row, kind="place", target="ecp5", figures={"fmax_mhz": 60.0})
    titles = {table.title: table for table in sections([row.to_json(), placed.to_json()])}
    assert "Fine-tuning in the RTL" not in titles
    assert "Lanes, cycles and area" not in titles
    table = titles["Zeroth-order training in the RTL"]
    printed = dict(zip(table.header, table.lines[0], strict=True))
    assert printed["MNIST epoch, s"] == "0.2000"
    assert (printed["target"], printed["data"], printed["seeds"]) == ("ecp5", "digits", "0")


def test_images_are_scaled_to_the_network():
    job = zo_trainer_rtl.draw(ZoTrainerConfig(), zo_trainer_rtl.digits(), images=40)
    assert job.images.shape == (40 + zo_trainer_rtl.CLASSIFIED, 1, 28, 28)
    assert job.images[:, :, :4].max() == 0 < job.images.max()
    assert job.schedule == [(0, 4, 14, 3)]
    assert [len(batch) for batch, _ in job.batches()] == [32, 8]
