"""The six methods: Table 1 from the layer table, gradients against differences, caches."""

from dataclasses import replace

import numpy as np
import pytest

from seedbed.golden import network
from seedbed.golden.instantft import batches
from seedbed.golden.nf4 import through
from seedbed.spec.network import LENET5, Layer, NetworkConfig
from seedbed.studies import finetune
from seedbed.studies.finetune_methods import METHODS, Method, cost

#: The same for images of 32 x 32 in three channels; Table 1's SVHN columns.
SVHN = NetworkConfig((replace(LENET5.layers[0], inputs=(3, 32, 32), padding=0), *LENET5.layers[1:]))

#: Trained parameters, FLOPs forward and backward in M, memory in KB: InstantFT, Table 1.
TABLE_1 = {
    "FT-All": ((61706, "0.851", "1.444", "567.8"), (62006, "1.321", "1.914", "579.4")),
    "FT-Last": ((850, "0.851", "0.002", "285.8"), (850, "1.321", "0.002", "296.1")),
    "FT-Bias": ((236, "0.851", "0.611", "322.0"), (236, "1.321", "0.611", "332.3")),
    "LoRA-All": ((36328, "0.923", "0.743", "611.8"), (45480, "1.412", "0.762", "695.4")),
    "LoRA-Last": ((376, "0.852", "0.001", "285.4"), (376, "1.322", "0.001", "295.8")),
    "InstantFT": ((10456, "0.872", "0.036", "366.2"), (19608, "1.360", "0.054", "449.8")),
}

SMALL = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(2, 6, 6), outputs=3, kernel=3, padding=1, pool=2),
        Layer(name="b", kind="conv", inputs=(3, 3, 3), outputs=4, kernel=2),
        Layer(name="c", kind="dense", inputs=(16, 1, 1), outputs=5),
        Layer(name="d", kind="dense", inputs=(5, 1, 1), outputs=3, relu=False),
    )
)


@pytest.fixture
def problem():
    """Parameters in double precision, biases that are not zero, six images and labels."""
    rng = np.random.default_rng(2)
    parameters = {
        name: value.astype(np.float64) + 0.1 * rng.normal(size=value.shape)
        for name, value in network.init(SMALL, rng).items()
    }
    return parameters, rng.normal(size=(6, 2, 6, 6)), np.array([0, 1, 2, 1, 0, 2])


def started(name, parameters):
    """The method's parameters, with adapters that are past their start."""
    rng = np.random.default_rng(3)
    theta = finetune.begin(SMALL, METHODS[name], parameters, rng, rank=2, deviation=0.3)
    moved = {key: rng.normal(0, 0.3, value.shape) for key, value in theta.items() if ".b" in key}
    return theta | {key: value for key, value in moved.items() if key.endswith(".b")}


@pytest.mark.parametrize(("column", "config"), [(0, LENET5), (1, SVHN)])
@pytest.mark.parametrize("name", METHODS)
def test_the_counting_rule_gives_table_1(name, column, config):
    found = cost(config, METHODS[name], as_printed=True)
    printed = (
        found.parameters,
        f"{found.forward / 1e6:.3f}",
        f"{found.backward / 1e6:.3f}",
        f"{found.memory / 1e3:.1f}",
    )
    assert printed == TABLE_1[name][column]


def test_ratios_of_the_text():
    """Sections 2 and 3 have more digits than the table: they pin the rule down."""
    for column, config, last, lora in ((0, LENET5, 854, 40.6), (1, SVHN, 1133, 14.1)):
        costs = {name: cost(config, m, as_printed=True) for name, m in METHODS.items()}
        everything = costs["FT-All"].backward
        assert round(everything / costs["FT-Last"].backward) == last
        compared = everything if column == 0 else costs["LoRA-All"].backward
        assert round(compared / costs["InstantFT"].backward, 1) == lora
    assert round(costs["LoRA-All"].backward / everything, 3) == 0.398


def test_the_printed_backward_pass_has_gradients_that_nothing_needs():
    """2 x 4 x (1176 + 400 + 120 + 84) of them, which the method's text says are not computed."""
    method = METHODS["InstantFT"]
    assert cost(LENET5, method).backward == 2 * (10256 + 2 * 200) == 21312
    assert cost(LENET5, method, as_printed=True).backward == 21312 + 14240
    for name in set(METHODS) - {"InstantFT"}:
        assert cost(LENET5, METHODS[name]) == cost(LENET5, METHODS[name], as_printed=True)


@pytest.mark.parametrize("name", METHODS)
def test_gradients_are_the_slopes_of_the_loss(name, problem):
    parameters, x, labels = problem
    method, theta = METHODS[name], started(name, parameters)
    found = finetune.gradients(SMALL, method, theta, x, labels)
    assert sum(g.size for g in found.values()) == cost(SMALL, method, rank=2).parameters
    for key, gradient in found.items():
        assert gradient.shape == theta[key].shape
        for place in np.ndindex(gradient.shape):
            losses = []
            for step in (1e-6, -1e-6):
                moved = {**theta, key: theta[key].copy()}
                moved[key][place] += step
                losses.append(network.loss(finetune.logits(SMALL, method, moved, x), labels))
            slope = (losses[0] - losses[1]) / 2e-6
            assert gradient[place] / len(x) == pytest.approx(slope, abs=1e-7)


def test_training_everything_is_backpropagation(problem):
    parameters, x, labels = problem
    found = finetune.gradients(SMALL, METHODS["FT-All"], parameters, x, labels)
    expected = network.gradients(SMALL, parameters, x, labels)
    assert set(found) == set(expected)
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient / len(x), expected[name], atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_begins_as_the_network_and_moves_only_its_own(name, problem):
    parameters, x, labels = problem
    method = METHODS[name]
    theta = finetune.begin(SMALL, method, parameters, np.random.default_rng(1), rank=2)
    np.testing.assert_allclose(
        finetune.logits(SMALL, method, theta, x), network.logits(SMALL, parameters, x), atol=1e-12
    )
    before = network.loss(finetune.logits(SMALL, method, theta, x), labels)
    order = list(batches(6, 4, 30, np.random.default_rng(2)))
    after = finetune.train(SMALL, method, theta, x, labels, order, rate=0.02)
    changed = {key for key in theta if not np.array_equal(theta[key], after[key])}
    assert changed == set(finetune.gradients(SMALL, method, theta, x, labels))
    assert network.loss(finetune.logits(SMALL, method, after, x), labels) < before


def test_a_cache_of_the_same_numbers_changes_nothing(problem):
    parameters, x, labels = problem
    method, theta = METHODS["InstantFT"], started("InstantFT", parameters)
    order = list(batches(6, 4, 3, np.random.default_rng(2)))
    results = {
        name: finetune.train(SMALL, method, theta, x, labels, order, rate=0.1, cache=cache)
        for name, cache in {
            "none": None,
            "exact": np.asarray,
            "nf4": lambda part: through(part, 8),
        }.items()
    }
    for key, value in results["none"].items():
        np.testing.assert_allclose(results["exact"][key], value, atol=1e-12)
    apart = np.abs(results["nf4"]["b.a"] - results["none"]["b.a"]).max()
    assert 1e-6 < apart < 0.1


def test_classes_are_those_of_the_largest_logit(problem):
    parameters, _, _ = problem
    x = np.random.default_rng(4).normal(size=(300, 2, 6, 6))
    theta = started("InstantFT", parameters)
    found = finetune.predict(SMALL, METHODS["InstantFT"], theta, x)
    z = finetune.logits(SMALL, METHODS["InstantFT"], theta, x)
    np.testing.assert_array_equal(found, z.argmax(axis=1))


@pytest.mark.parametrize("name", ["weights", "biases", "adapters"])
def test_other_words_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be one of none, last, all.*, not 'first'"):
        Method(**{name: "first"})
