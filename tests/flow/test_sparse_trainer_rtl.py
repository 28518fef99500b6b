import json
from dataclasses import dataclass, replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from seedbed.flow.cli import sparse_trainer_rtl as sparse_trainer_demo
from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.jobs import sparse_trainer_rtl
from seedbed.flow.jobs.data import Split, digits, rotated
from seedbed.flow.jobs.mlp_task import SETTINGS, flat, prepare
from seedbed.flow.jobs.sparse_network import activations, compress, sensitivity
from seedbed.flow.jobs.sparse_trainer_rtl import Settings
from seedbed.golden.classifier import Mlp
from seedbed.sim.cases.sparse_trainer import drawn
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Memory
from seedbed.sim.jobs import sparse_job
from seedbed.spec import SparseTrainerConfig


@dataclass(frozen=True, kw_only=True)
class Small(SparseTrainerConfig):
    """A core for images of 8 x 8."""

    layers: int = 2
    columns: int = 64


@pytest.fixture(scope="module", params=["seedlm", "trellis"])
def trained(tmp_path_factory, request):
    """A short training on few images: folder, result, what was printed."""
    folder, shown = tmp_path_factory.mktemp("rtl"), StringIO()
    with pytest.MonkeyPatch.context() as patch:
        find = registry.find
        patch.setattr(registry, "find", lambda name: replace(find(name), config=Small))
        patch.setattr(sparse_trainer_rtl, "sized", lambda images: images)
        patch.setattr(sparse_trainer_rtl, "HELD", 100)
        patch.setattr(sparse_trainer_rtl, "CLASSIFIED", 20)
        settings = Settings(images=40, batch=16, epochs=2, kept=60)

        def run(**options):
            return sparse_trainer_demo.run_sparse(
                None, folder / "out", build=folder, rtl=True, settings=settings,
                decode=request.param, **options,
            )  # fmt: skip

        result = run(console=Console(file=shown, width=120))
        # What is kept is not simulated again.
        patch.setattr(sparse_job, "run", None)
        assert run() == result
    (path,) = (folder / "out").iterdir()
    assert path.name == {"seedlm": "sparse_rtl.json"}.get(request.param, "sparse_trellis_rtl.json")
    assert json.loads(path.read_text()) == result
    return SimpleNamespace(result=result, shown=shown.getvalue())


def test_a_training_in_the_rtl(trained):
    """Each value is read once by a pass, and read and written once by an update."""
    result = trained.result
    assert result["steps"] == 2 * 3
    assert len(result["gains"]) == 6
    assert sum(result["entries"]) == 60
    for name in ("reads_per_pass", "reads_per_update", "writes_per_update"):
        assert result[name] == [1, 1]
    beats = sum(result["bytes"][name] for name in ("base",)) / 8
    assert result["pass_beats"] == beats
    # An update takes a cycle for each entry; so few samples as 13 a step are more than 2 %.
    assert 1 < result["step_ratio"] < 1.05
    assert "bit-exact with the model" in trained.shown
    figures = sparse_trainer_rtl.row_figures(result)
    assert figures["writes_per_update"] == 1


SMALL = registry.find("sparse_trainer").configure(registry.find("sparse_trainer").small)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    core = registry.find("sparse_trainer")
    path = verilog.write(core, core.small, folder, plain=True)
    return sparse_job.executable(path, core.name, SMALL, build=folder)


def noise_job(**changes):
    rng = np.random.default_rng(1)
    model = drawn(SMALL, rng, (18, 14, 5))
    fields = {
        "config": SMALL, "layers": model.layers, "parameters": model.parameters,
        "x": rng.integers(-2000, 2000, (12, 18)), "labels": rng.integers(0, 5, 12),
        "order": np.array([rng.permutation(9), rng.permutation(9)]), "batch": 4, "seed": 3,
        "rate": 900, "decay": 100, "shift": 6, "classified": np.arange(12),
    }  # fmt: skip
    return sparse_job.Job(**fields | changes)


@pytest.mark.parametrize("pauses", [0, 8])
def test_pauses_change_no_bit(bench, pauses):
    memory = Memory(latency=(1, 90), gaps=pauses)
    done = sparse_job.run(bench, noise_job(), seed=5, pauses=pauses, memory=memory)
    assert len(done.log) == 6
    assert {entry.gain for entry in done.log} != {0}
    assert (done.writes == 6).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": 4}, "step 0: sample 1 has class, loss and error"),
        ({"rate": 1800}, r"step \d: seed and gain are \[\d+, "),
    ],
)
def test_another_model_is_found(bench, change, sentence, monkeypatch):
    train = sparse_job.Job.train
    monkeypatch.setattr(
        sparse_job.Job, "train", lambda self, model: train(replace(self, **change), model)
    )
    with pytest.raises(Mismatch, match=sentence):
        sparse_job.run(bench, noise_job(), seed=5)


@pytest.mark.parametrize("decode", ["seedlm", "trellis"])
def test_the_integers_learn_rotated_digits(decode):
    """Of a base of 4 bits, a tenth of the weights regains a third of what the rotation cost."""
    split, config = digits(), SparseTrainerConfig(layers=2, columns=64, decode=decode)
    task = prepare(split, replace(SETTINGS["digits"], degrees=30))
    network = compress(
        config, task.model, task.theta, flat(split.pre[0]), split.pre[1], kept=240, unit=14,
        scale=0, update_shift=8,
    )  # fmt: skip
    model = network.trainer(config)
    upright, held = (activations(images) for images in (split.test[0], rotated(split.test[0], 30)))
    x, labels, names = activations(rotated(split.tune[0], 30)), split.tune[1], split.test[1]
    # The compressed network does what the one in floating point does.
    assert abs((model.infer(upright) == names).mean() - task.upright) < 0.02
    before = (model.infer(held) == names).mean()
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(20):
        order = rng.permutation(512).reshape(-1, 32)
        batches.append([(x[part], labels[part]) for part in order])
    for _ in model.train(batches, seed=0, rate=1024, shift=12, decay=1024 // 20):
        pass
    after = (model.infer(held) == names).mean()
    assert after > before + (task.upright - before) / 3


def test_sensitivity_is_the_sum_of_squared_gradients():
    rng = np.random.default_rng(2)
    model = Mlp((6, 5, 3))
    theta = model.init(rng)
    x, labels = rng.random((7, 6)), rng.integers(0, 3, 7)
    total = sum(model.gradient(theta, x[k : k + 1], labels[k : k + 1]) ** 2 for k in range(7))
    found = sensitivity(model, theta, x, labels)
    for (wanted, _), square in zip(model.layers(total), found, strict=True):
        np.testing.assert_allclose(square, wanted.T, rtol=1e-9)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"kept": 0}, r"kept must be in 1\.\.65536, not 0"),
        ({"rate": 65536}, r"rate must be in 1\.\.65535, not 65536"),
        ({"epochs": 0}, r"epochs must be in 1\.\.65535, not 0"),
    ],
)
def test_settings_refuse(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        Settings(**fields)


def test_more_images_or_entries_than_there_are():
    split = Split("noise", *((np.zeros((20, 8, 8)), np.arange(20) % 10) for _ in range(3)))
    for fields, sentence in (
        ({"images": 21}, r"images must be in 1\.\.20, not 21"),
        ({"kept": 257}, r"kept must be in 1\.\.256, not 257"),
    ):
        with pytest.raises(ValueError, match=sentence):
            sparse_trainer_rtl.draw(SparseTrainerConfig(), split, Settings(**fields))
