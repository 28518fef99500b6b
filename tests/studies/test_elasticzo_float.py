"""ElasticZO in floating point against derivatives: numerical ones, and of the chain rule."""

import numpy as np
import pytest

from seedbed.golden.network import gradients, init, logits, loss
from seedbed.spec.network import TINY
from seedbed.studies.elasticzo_float import ElasticZoFloat

RATE = 0.05


def made(partition, *, eps=1e-5, clip=np.inf, seed=0):
    parameters = init(TINY, np.random.default_rng(seed))
    double = {name: value.astype(np.float64) for name, value in parameters.items()}
    return ElasticZoFloat(TINY, partition, double, seed, eps=eps, clip=clip)


def batch(samples=32, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, samples)
    # Brighter to the right, the larger the label is.
    images = rng.random((samples, 1, 6, 6)) * (1 + np.arange(6) * labels[:, None, None, None] / 5)
    return images, labels


def moved(trainer, images, labels):
    before = {name: value.copy() for name, value in trainer.parameters.items()}
    trainer.step(0, images, labels, RATE)
    return before, {name: trainer.parameters[name] - value for name, value in before.items()}


@pytest.mark.parametrize("partition", [1, 2, 4])
def test_zeroth_order_follows_the_derivative_along_the_perturbation(partition):
    trainer = made(partition)
    images, labels = batch()
    z = trainer.perturbation(0)
    before, step = moved(trainer, images, labels)
    gradient = gradients(TINY, before, images, labels)
    slope = sum((gradient[name] * each).sum() for name, each in z.items())
    layers = [layer.name for layer in TINY.layers[:partition]]
    assert {name.split(".")[0] for name in z} == set(layers)
    for name, each in z.items():
        np.testing.assert_allclose(step[name], -RATE * slope * each, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("partition", [0, 2, 3])
def test_the_tail_goes_against_a_numerical_gradient_at_the_later_pass(partition):
    trainer = made(partition)
    images, labels = batch()
    z = trainer.perturbation(0)
    before, step = moved(trainer, images, labels)
    at = before | {name: before[name] - trainer.eps * each for name, each in z.items()}
    rng = np.random.default_rng(1)
    for layer in TINY.layers[partition:]:
        name = f"{layer.name}.weight"
        for place in rng.integers(0, before[name].size, 5):
            found = []
            for h in (1e-6, -1e-6):
                changed = at[name].copy()
                changed.flat[place] += h
                found.append(loss(logits(TINY, at | {name: changed}, images), labels))
            wanted = -RATE * (found[0] - found[1]) / 2e-6
            assert step[name].flat[place] == pytest.approx(wanted, rel=1e-3, abs=1e-8)


def test_a_steep_difference_is_limited():
    trainer = made(4, clip=0.01)
    z = trainer.perturbation(0)
    _, step = moved(trainer, *batch())
    for name, each in z.items():
        np.testing.assert_allclose(np.abs(step[name]), RATE * 0.01 * np.abs(each))


@pytest.mark.parametrize(("partition", "factor"), [(4, 0.97), (2, 0.6), (0, 0.5)])
def test_each_way_learns(partition, factor):
    trainer = made(partition, eps=1e-3, clip=5.0)
    images, labels = batch(64)
    before, _ = trainer.evaluate(images, labels)
    for k in range(200):
        trainer.step(k, images, labels, RATE if partition < 4 else 0.003)
    after, _ = trainer.evaluate(images, labels)
    assert after < factor * before


def test_bad_partitions_are_refused():
    with pytest.raises(ValueError, match=r"partition must be in 0\.\.4, not 5"):
        made(5)
