"""The MLP's personalisation, on the embedded digits."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from seedbed.flow.jobs import mlp_task
from seedbed.flow.jobs.data import digits
from seedbed.golden.classifier import Mlp
from seedbed.spec.network import Layer, NetworkConfig
from seedbed.studies import finetune
from seedbed.studies import personalise_mlp as demo
from seedbed.studies.finetune_methods import METHODS
from seedbed.studies.personalise_mlp_job import (
    Adapters,
    Job,
    Settings,
    prepare,
    squared_gradients,
)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    split = digits()
    start = mlp_task.prepare(split, replace(mlp_task.SETTINGS["digits"], degrees=45, pre_steps=200))
    return prepare(start, split.pre, Settings(steps=100), tmp_path_factory.mktemp("mlp"))


def job(**changed):
    known = {"tuned": "task", "count": 42, "method": "zo", "rate": 0.1, "seed": 0, "steps": 50}
    return Job(**{**known, "points": 2, **changed})


def test_kept_weights_are_those_of_the_network_in_16_bits(task):
    places = np.sort(task.orders["magnitude"])
    assert len(places) == 64 * 32 + 32 * 10
    # The biases are neither compressed nor kept.
    biases = np.setdiff1d(np.arange(task.model.d), places)
    assert np.array_equal(task.exact[biases], task.theta[biases])
    assert len(biases) == 42
    wrong = np.abs(task.theta - task.exact)
    assert wrong[places].max() > 0.01
    tuned = task.tuned(job(tuned="magnitude", count=100))
    assert np.array_equal(tuned.theta, task.exact[tuned.places])
    assert len(tuned.places) == 100
    others = np.setdiff1d(places, tuned.places)
    # Kept values are rounded to 16 bits.
    assert np.abs(tuned.theta).min() >= np.abs(task.exact[others]).max() - 1e-3


def test_squared_gradients_are_those_of_single_images(task):
    x, labels = (part[:20] for part in task.tune)
    found = squared_gradients(task.model, task.theta, x, labels)
    wanted = sum(
        task.model.gradient(task.theta, x[k : k + 1], labels[k : k + 1]) ** 2 for k in range(20)
    )
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-9)


def config(sizes):
    layers = [
        Layer(kind="dense", name=f"fc{k}", inputs=(m, 1, 1), outputs=n, relu=k < len(sizes) - 2)
        for k, (m, n) in enumerate(pairwise(sizes))
    ]
    return NetworkConfig(layers=tuple(layers))


@pytest.mark.parametrize(("count", "rank", "layers"), [(116, 1, 2), (250, 2, 2), (84, 2, 1)])
def test_adapters_are_those_of_instantft(task, count, rank, layers):
    """Logits and gradients, from any values of the adapters."""
    model, x, labels = task.model, task.tune[0][:20], task.tune[1][:20]
    count = Adapters.sizes(model)[layers == 1] * rank
    adapters = Adapters(model, count)
    assert (adapters.rank, len(adapters.inputs)) == (rank, layers)
    begun = adapters.begin(np.random.default_rng(1), 0.05)
    assert np.array_equal(adapters.logits(task.theta, begun, x), model.logits(task.theta, x))
    theta = np.random.default_rng(2).normal(size=count) / 4
    network = config(model.sizes)
    parameters = {}
    for k, (weights, biases) in enumerate(model.layers(task.theta)):
        parameters |= {f"fc{k}.weight": weights.T, f"fc{k}.bias": biases}
    for (a, b), layer in zip(adapters.parts(theta), network.layers[-layers:], strict=True):
        parameters |= {f"{layer.name}.a": a, f"{layer.name}.b": b}
    method = METHODS["InstantFT" if layers == 2 else "LoRA-Last"]
    found = adapters.logits(task.theta, theta, x)
    wanted = finetune.logits(network, method, parameters, x)
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    slopes = finetune.gradients(network, method, parameters, x, labels)
    parts = adapters.parts(adapters.gradient(task.theta, theta, x, labels))
    for (a, b), layer in zip(parts, network.layers[-layers:], strict=True):
        assert 20 * a == pytest.approx(slopes[f"{layer.name}.a"], rel=1e-3, abs=1e-4)
        assert 20 * b == pytest.approx(slopes[f"{layer.name}.b"], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("tuned", ["task", "adapters", "all"])
@pytest.mark.parametrize("method", ["zo", "bp"])
def test_a_training_lowers_the_loss(task, tuned, method):
    count = {"all": 2368, "adapters": 116}.get(tuned, 42)
    rate = {"zo": 5 / count, "bp": 0.3}[method]
    wanted = job(tuned=tuned, count=count, method=method, rate=rate, points=0, steps=200)
    begun = task.tuned(wanted)
    before = float(begun.losses(begun.theta[None], *task.judged)[0])
    found = task.run(wanted)
    assert found["accuracies"] == []
    assert found["loss"] < before
    assert task.run(wanted) == found
    assert task.run(replace(wanted, seed=1)) != found


def test_points_of_a_training_are_accuracies(task):
    still = task.run(job(rate=0.0))
    assert still == {"accuracies": [task.before(job())] * 2, "loss": None}
    assert task.run(job(rate=1e300, points=0))["loss"] is None


def test_gradients_of_kept_weights_are_those_of_the_loss(task):
    """By differences, in double precision."""
    x, labels = task.tune[0][:30].astype(np.float64), task.tune[1][:30]
    tuned = task.tuned(job(count=5))
    found = tuned.gradient(tuned.theta.astype(np.float64), x, labels)
    offsets = 1e-6 * np.eye(5)
    both = [tuned.losses(tuned.theta + sign * offsets, x, labels) for sign in (1, -1)]
    assert found == pytest.approx((both[0] - both[1]) / 2e-6, rel=1e-4, abs=1e-7)


def run(out, **changed):
    settings = {"fractions": (0.018,), "steps": 20, "seeds": 2, **changed}
    return demo.personalise_mlp(None, out, **settings)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(demo, "ZEROTH", ("sensitive", "adapters"))
    monkeypatch.setattr(demo, "BACKPROP", ("all",))


def test_masks_have_as_many_weights_as_adapters(few, tmp_path):
    found = run(tmp_path)
    kinds = [(row["tuned"], row["numbers"], row["method"]) for row in found["rows"]]
    assert kinds == [
        ("sensitive", 42, "zo"), ("sensitive", 116, "zo"), ("adapters", 42, "zo"),
        ("adapters", 116, "zo"), ("all", 2368, "bp"),
    ]  # fmt: skip
    for row in found["rows"]:
        assert [len(curve) for curve in row["curves"]] == [demo.POINTS + 1] * 2
        assert row["mean"] == pytest.approx(np.mean(row["after"]))
    assert json.loads((tmp_path / "personalise.json").read_text()) == found
    assert (tmp_path / "personalise.png").stat().st_size > 10_000
    finished = {path.name for path in (tmp_path / "cache").iterdir()}
    assert run(tmp_path) == found
    assert {path.name for path in (tmp_path / "cache").iterdir()} == finished


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "dice"}, "a perturbation source is one of"),
        ({"fractions": ()}, "a fraction must be above 0 and below 1"),
        ({"fractions": (1.0,)}, "a fraction must be above 0 and below 1"),
        ({"rotate": 200}, "the rotation must be in -180..180 degrees, not 200"),
        ({"steps": 9}, "10 steps or more"),
        ({"seeds": 0}, "there must be a seed"),
        ({"batch": 0}, "an image of a step"),
    ],
)
def test_bad_settings_are_refused(changed, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, **changed)


def test_numbers_are_those_of_the_nearest_adapters():
    model = Mlp((784, 16, 10))
    assert Adapters.sizes(model) == (820, 26)
    counts = {5: 5, 13: 13, 127: 130, 270: 260, 300: 300, 815: 815, 1300: 1640}
    assert {count: demo._count(model, count) for count in counts} == counts
