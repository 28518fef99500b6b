import numpy as np
import pytest

from seedbed.golden.elasticzo import ElasticZo, Network
from seedbed.golden.elasticzo_sources import SOURCES, RankOneSource, StageSource
from seedbed.golden.zo_trainer import LogEntry, ZoTrainer
from seedbed.spec import ZoTrainerConfig
from seedbed.spec.elasticzo import Phase

SMALL = ZoTrainerConfig(network="tiny", lanes=8, ways=2, batch=8)


def drawn(config, rng):
    """Return a model with random weights."""
    shapes = {layer.name: (layer.outputs, layer.fan_in) for layer in config.layers}
    weights = {name: rng.integers(-127, 128, shape) for name, shape in shapes.items()}
    return ZoTrainer(config, weights, dict.fromkeys(shapes, -9))


def test_a_log_is_replayed():
    rng = np.random.default_rng(1)
    model = drawn(SMALL, rng)
    other = ZoTrainer(SMALL, model.weights, model.exponents)
    images = rng.integers(0, 256, (6, *SMALL.layers[0].inputs))
    labels = rng.integers(0, SMALL.classes, 6)
    log = [
        model.step(images, labels, seed=seed, magnitude=3, zeros=zeros)[1]
        for seed, zeros in enumerate([0, 5, 15, 2] * 4)
    ]
    assert {1, -1} <= {entry.sign for entry in log}
    for entry in log:
        other.replay(entry)
    assert all((other.weights[name] == w).all() for name, w in model.weights.items())


@pytest.mark.parametrize(
    ("tail", "ways"),
    [
        (0, {}),
        (1, {}),
        (2, {}),
        (0, {"perturbation": "rank1"}),
        (1, {"perturbation": "rank1", "levels": 4, "fraction": 8}),
    ],
)
def test_the_core_trains_as_the_model_of_the_paper(tail, ways):
    """The same steps as ElasticZo with the stage's source, on the network's weights."""
    config = ZoTrainerConfig(network="lenet_digits", tail=tail, **ways)
    rng = np.random.default_rng(2)
    core = drawn(config, rng)
    network = Network({n: w.astype(np.float32) for n, w in core.weights.items()}, core.exponents)
    assert SOURCES["lutopt"] is StageSource
    source = RankOneSource if ways else StageSource
    paper = ElasticZo(config.model, network, source(0, config.model))
    images = rng.integers(0, 256, (16, 1, 8, 8))
    labels = rng.integers(0, 10, 16)
    phase = Phase(epoch=0, magnitude=7, zeros=80, update_bits=4)
    levels = set()
    for step in range(6 if config.levels == 1 else 24):
        found = paper.step(step, (images >> 1).astype(np.float32), labels, phase)
        numbers = {"seed": step, "magnitude": 3, "zeros": 5, "update_bits": 4}
        _, entry = core.step(images, labels, **numbers)
        assert found.sign == entry.sign
        levels.add(entry.level)
    assert len(levels) == config.levels
    assert all((network.weights[name] == w).all() for name, w in core.weights.items())


def test_a_log_does_not_replay_a_tail():
    config = ZoTrainerConfig(network="tiny", tail=1, lanes=8, ways=2)
    model = drawn(config, np.random.default_rng(1))
    with pytest.raises(ValueError, match=r"a log replays zeroth-order training only"):
        model.replay(LogEntry(1, 1, 1, 1))
