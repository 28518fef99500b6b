from itertools import islice, repeat

import numpy as np
import pytest

from seedbed.golden.classifier import Mlp, adam
from seedbed.studies.zeroth_order import SOURCES, make_source, step, train

#: Narrow enough to be quick, and lengths that are no multiple of the lanes or the pool.
PARAMS = {
    "on-the-fly": {"lanes": 7, "width": 8},
    "leap-3": {"lanes": 7, "width": 8},
    "leap-14": {"lanes": 7, "width": 14},
    "pre-generated": {"size": 255},
    "unscaled": {"lanes": 7, "width": 8},
}


def source(name):
    return make_source(name, **PARAMS.get(name, {}))


class Recorded:
    """z = e_seed: the seed names a coordinate. Keeps what it was asked for."""

    def __init__(self):
        self.asked = []

    def numbers(self, seed, d):
        self.asked.append((seed, d))
        return np.eye(d)[seed]

    def seeds(self, rng, d):
        while True:
            yield from range(d)


def quadratic(theta):
    return (theta**2 * np.arange(1, theta.shape[-1] + 1)).sum(axis=-1)


@pytest.mark.parametrize("name", SOURCES)
def test_a_seed_names_its_perturbation(name):
    model = source(name)
    first, second = islice(model.seeds(np.random.default_rng(3), 300), 2)
    z = model.numbers(first, 300)
    assert z.shape == (300,)
    assert z.dtype == np.float64
    assert not np.array_equal(z, model.numbers(second, 300))
    np.testing.assert_array_equal(z, model.numbers(first, 300))
    np.testing.assert_array_equal(z, source(name).numbers(first, 300))


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in ("unscaled", "uniform")])
def test_modulus_is_a_gaussians(name):
    model, d = make_source(name), 2000
    seeds = islice(model.seeds(np.random.default_rng(4), d), 20)
    ratio = np.mean([np.linalg.norm(model.numbers(seed, d)) for seed in seeds]) / d**0.5
    # A scale rounded to a power of two is at most a factor sqrt(2) off; the others are exact.
    exact = name in ("gaussian", "rademacher", "pre-generated")
    assert ratio == pytest.approx(1, rel=0.02 if exact else 0.42)


def test_unscaled_is_on_the_fly_without_its_scale():
    raw, scaled = source("unscaled").numbers(9, 300), source("on-the-fly").numbers(9, 300)
    assert np.all(raw == np.rint(raw))
    assert np.abs(raw).max() > 100
    some = raw != 0
    exponents = np.log2(scaled[some] / raw[some])
    np.testing.assert_array_equal(exponents, np.rint(exponents))


def test_uniform_is_unscaled_as_fractions():
    raw, fractions = (make_source(n).numbers(9, 30_000) for n in ("unscaled", "uniform"))
    np.testing.assert_array_equal(fractions * 2**13, raw)
    assert -1 <= fractions.min() < -0.9
    assert 0.9 < fractions.max() < 1


def test_rademacher_is_signs():
    z = source("rademacher").numbers(5, 1000)
    assert set(z) == {-1.0, 1.0}
    assert abs(z.mean()) < 0.15


def test_pool_goes_on_where_it_ended():
    model = source("pre-generated")
    seeds = list(islice(model.seeds(np.random.default_rng(6), 100), 6))
    joined = np.concatenate([model.numbers(seed, 100) for seed in seeds])
    np.testing.assert_array_equal(joined, model.numbers(seeds[0], 600))
    np.testing.assert_array_equal(joined[:345], joined[255:])


def test_step_is_equations_1_and_2():
    theta, recorded = np.array([1.0, -2.0, 0.5]), Recorded()
    updated, level = step(quadratic, theta, recorded, 1, eps=0.25, rate=0.1)
    # A quadratic's central difference is exact: dL/dtheta_1 = 2 * 2 * -2.
    np.testing.assert_allclose(updated, [1.0, -2.0 + 0.1 * 8, 0.5])
    assert level == pytest.approx(quadratic(theta) + 2 * 0.25**2)
    assert recorded.asked == [(1, 3)], "the same for both losses and the update"


def test_train_descends_and_is_repeatable():
    theta = np.ones(30)
    runs = [
        train(
            repeat(quadratic),
            theta,
            source("on-the-fly"),
            steps=200,
            eps=2**-7,
            rate=1e-4,
            rng=np.random.default_rng(8),
        )
        for _ in range(2)
    ]
    assert runs[0].losses[-1] < 0.6 * runs[0].losses[0]
    assert runs[0].diverged is None
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
    np.testing.assert_array_equal(theta, 1)


def test_train_stops_before_what_is_not_finite():
    run = train(
        repeat(lambda theta: np.exp(quadratic(theta))),
        np.ones(3),
        source("gaussian"),
        steps=1000,
        eps=2**-7,
        rate=2e-3,
        rng=np.random.default_rng(8),
    )
    assert 0 < run.diverged < 1000
    assert len(run.losses) == run.diverged
    assert np.isfinite(run.theta).all()
    assert np.isfinite(run.losses).all()


def test_unknown_source_is_refused():
    with pytest.raises(ValueError, match=r"one of gaussian, .* not 'sobol'"):
        make_source("sobol")


def test_gradient_is_the_losss():
    model, rng = Mlp((6, 5, 4, 3)), np.random.default_rng(1)
    theta = model.init(rng) + 0.1 * rng.standard_normal(model.d)
    x, labels = rng.standard_normal((8, 6)), rng.integers(3, size=8)
    gradient = model.gradient(theta, x, labels)
    steps = 1e-6 * np.eye(model.d)
    numeric = [
        (model.loss(theta + h, x, labels) - model.loss(theta - h, x, labels)) / 2e-6 for h in steps
    ]
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)


def test_layers_are_the_whole_vector_in_order():
    model = Mlp((2, 3, 2))
    (w, b), (v, c) = model.layers(np.arange(model.d))
    assert (model.d, w.shape, v.shape) == (17, (2, 3), (3, 2))
    np.testing.assert_array_equal(w[1], [3, 4, 5])
    joined = np.concatenate([part.ravel() for part in (w, b, v, c)])
    np.testing.assert_array_equal(joined, np.arange(17))


def test_loss_and_accuracy_by_hand():
    model = Mlp((2, 2))
    theta = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    x, labels = np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([0, 0])
    assert model.loss(theta, x, labels) == pytest.approx(np.log1p(np.exp([-2, 1])).mean())
    assert model.accuracy(theta, x, labels) == 0.5
    both = np.stack([theta, 3 * theta])
    np.testing.assert_array_equal(
        model.loss(both, x, labels), [model.loss(each, x, labels) for each in both]
    )
    # No overflow where the logits are huge.
    assert model.loss(1e6 * theta, x, labels) == pytest.approx(5e5)


def test_adam_learns():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 4)).astype(np.float32)
    labels, model = (x[:, 0] * x[:, 1] > 0).astype(int), Mlp((4, 16, 2))
    theta = model.init(rng)
    after = adam(model, theta, x, labels, steps=300, batch=32, rate=1e-2, rng=rng)
    assert model.accuracy(theta, x, labels) < 0.8
    assert model.accuracy(after, x, labels) > 0.95
