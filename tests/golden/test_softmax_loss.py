"""Softmax and cross-entropy by tables: close to the exact values, correct at format limits."""

from math import log

import numpy as np
import pytest

from seedbed.golden.softmax_loss import SoftmaxLoss
from seedbed.spec.fixed import Q6_12, Q8_16, Fixed
from seedbed.spec.softmax_loss import SoftmaxLossConfig

CONFIGS = {
    "default": (SoftmaxLossConfig(), 0.0025, 0.005),
    "Q8.16": (SoftmaxLossConfig(logits=Q8_16), 0.0025, 0.005),
    "small tables": (SoftmaxLossConfig(exp_bits=7, exp_fraction=4, index_bits=6), 0.02, 0.04),
    # With so many classes, exponentials after the table's end add up.
    "many classes": (SoftmaxLossConfig(classes=100, gradients=Fixed(18, 14)), 0.01, 0.02),
}
FORMATS = pytest.mark.parametrize("form", [Q6_12, Q8_16], ids=str)


def real(z, labels):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p, -np.log(p[np.arange(len(z)), labels])


@pytest.mark.parametrize("name", CONFIGS)
def test_close_to_the_real_ones(name):
    """The exponent's step is the error: half of it, 2^-8 by default, by p (1 - p) at most."""
    config, bound, loss_bound = CONFIGS[name]
    rng = np.random.default_rng(1)
    z = np.rint(rng.normal(0, 2, (500, config.classes)) * config.logits.one).astype(int)
    labels = rng.integers(config.classes, size=500)
    model = SoftmaxLoss(config)
    result = model.run(z, labels)
    p, losses = real(z / config.logits.one, labels)
    error = np.abs(result.probabilities / 2**config.probability_bits - p)
    assert error.max() < bound
    expected = p - np.eye(config.classes)[labels]
    errors = np.abs(result.gradients / config.gradients.one - expected)
    assert errors.max() < bound + 1 / config.gradients.one
    assert np.abs(result.losses / config.logits.one - losses).max() < loss_bound
    np.testing.assert_array_equal(result.classes, p.argmax(axis=1))
    assert model.saturations.count == 0


@FORMATS
def test_a_worked_sample(form):
    """Two equal logits: s = 131070 = 2^16 (1 + f), f in the last interval of the tables."""
    config = SoftmaxLossConfig(classes=2, logits=form)
    result = SoftmaxLoss(config).run(np.array([[5, 5]]), np.array([1]))
    assert config.reciprocals[-1] == 32776
    assert result.probabilities.tolist() == [[65535 * 32776 >> 16] * 2] == [[32775, 32775]]
    assert result.gradients.tolist() == [[2048, -2048]]
    assert result.classes.tolist() == [0]
    expected = {Q6_12: 2838, Q8_16: 45410}[form]
    assert expected == round(form.one * log(1 + 2047 / 2048))
    assert result.losses.tolist() == [expected]
    assert result.losses[0] / form.one == pytest.approx(log(2), abs=3e-4)


@FORMATS
def test_a_sure_answer_has_no_gradient_and_no_loss(form):
    z = np.full((2, 10), form.low)
    z[:, 3] = 0
    config = SoftmaxLossConfig(logits=form)
    result = SoftmaxLoss(config).run(z, np.array([3, 4]))
    assert result.probabilities[:, 3].tolist() == [65535, 65535]
    assert not np.delete(result.probabilities, 3, axis=1).any()
    assert not result.gradients[0].any()
    assert result.gradients[1].tolist() == [0, 0, 0, 4096, -4096, 0, 0, 0, 0, 0]
    # s is one short of 2^16, whose logarithm is that of the last interval's middle.
    short = config.logs[-1] + config.floors[15]
    assert -20 * form.one < short * Q8_16.one < 0
    assert result.losses.tolist() == [0, -form.low + short]


@FORMATS
def test_a_loss_beyond_its_format_saturates_and_is_counted(form):
    model = SoftmaxLoss(SoftmaxLossConfig(logits=form))
    z = np.full((1, 10), form.low)
    z[0, 0] = form.high
    assert model.run(z, np.array([0])).losses.tolist() == [0]
    assert model.saturations.count == 0
    assert model.run(z, np.array([1])).losses.tolist() == [form.high]
    assert model.saturations.count == 1


@FORMATS
def test_beyond_the_table_nothing_is_left(form):
    config = SoftmaxLossConfig(logits=form)
    first = (len(config.exps) - 0.5) / 2**config.exp_fraction * config.logits.one
    z = np.zeros((2, 10), int)
    z[0, 1:], z[1, 1:] = -int(first) + 1, -int(first)
    result = SoftmaxLoss(config).run(z, np.zeros(2, int))
    assert config.exps[-1] == 22
    assert result.probabilities[0, 1] == 22 * 65536 // (65535 + 9 * 22)
    assert result.probabilities[1, 1] == 0


def test_the_lowest_of_equal_logits_is_the_class():
    z = np.array([[1, 7, 7, 0], [9, 7, 9, 9]])
    result = SoftmaxLoss(SoftmaxLossConfig(classes=4)).run(z, np.zeros(2, int))
    assert result.classes.tolist() == [1, 0]


@pytest.mark.parametrize("name", CONFIGS)
def test_tables_fit_their_words(name):
    config = CONFIGS[name][0]
    words = 1 << config.probability_bits
    assert config.exps[0] == words - 1
    assert all(a >= b >= 0 for a, b in zip(config.exps, config.exps[1:], strict=False))
    assert max(config.reciprocals) < words
    assert min(config.reciprocals) >= words // 2
    assert 0 <= min(config.logs) <= max(config.logs) < config.logits.one


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"classes": 1}, r"classes must be in 2\.\.256, not 1"),
        ({"exp_fraction": 11}, r"exp_fraction must be in 0\.\.10, not 11"),
        ({"exp_bits": 13}, r"exp_bits must be in 6\.\.12, not 13"),
        ({"index_bits": 3}, r"index_bits must be in 4\.\.12, not 3"),
        ({"probability_bits": 20}, r"probability_bits must be in 8\.\.18, not 20"),
        ({"gradients": Fixed(16, 15)}, r"the gradients' fraction must be in 0\.\.14, not 15"),
    ],
)
def test_bad_configurations(change, says):
    with pytest.raises(ValueError, match=says):
        SoftmaxLossConfig(**change)
