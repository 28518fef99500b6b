"""The loss sign: as printed in ElasticZO, against floating point, and what does not count."""

from math import floor, log2

import numpy as np
import pytest

from seedbed.golden.elasticzo import loss
from seedbed.golden.loss_sign import LossSign, loss_sign
from seedbed.spec.loss_sign import LossSignConfig


def printed(plus, minus, labels):
    """Eq. 6 to 12 for each sample, in Python's integers."""
    total = 0
    for a, sa, b, sb, label in zip(*plus, *minus, labels, strict=True):
        terms = []
        for logits, s in ((a, sa), (b, sb)):
            scaled = [47274 * (int(v) - int(logits[label])) for v in logits]
            terms.append([floor(v * 2.0 ** (int(s) - 15)) for v in scaled])
        p = max(map(max, terms)) - 10
        sums = [sum(2 ** max(e - p, 0) for e in each) for each in terms]
        total += floor(log2(sums[0])) - floor(log2(sums[1]))
    return (total > 0) - (total < 0)


def logits_of(rng, samples=8):
    return rng.integers(-127, 128, (samples, 10)), rng.integers(-8, -2, samples)


def test_the_sign_without_fraction_bits_is_as_printed():
    rng = np.random.default_rng(3)
    found = set()
    for _ in range(200):
        plus, minus = logits_of(rng), logits_of(rng)
        labels = rng.integers(0, 10, 8)
        sign = loss_sign(plus, minus, labels, fraction=0)
        assert sign == printed(plus, minus, labels)
        found.add(sign)
    assert found == {-1, 0, 1}


def test_fraction_bits_bring_the_sign_to_that_of_floating_point():
    rng = np.random.default_rng(4)
    agree = dict.fromkeys((0, 2, 4, 8), 0)
    for _ in range(300):
        plus = logits_of(rng, 32)
        # A step changes logits little.
        minus = np.clip(plus[0] + rng.integers(-4, 5, plus[0].shape), -127, 127), plus[1]
        labels = rng.integers(0, 10, 32)
        exact = np.sign(loss(*plus, labels) - loss(*minus, labels))
        for fraction in agree:
            agree[fraction] += loss_sign(plus, minus, labels, fraction=fraction) == exact
    assert agree[0] < agree[2] < agree[4] <= agree[8]
    assert agree[4] >= 0.95 * 300


def test_equal_losses_have_the_sign_0():
    both = logits_of(np.random.default_rng(5))
    assert loss_sign(both, both, np.zeros(8, int), fraction=4) == 0


def test_a_worked_sample():
    """e is 47274 / 2^15, 1.44, a unit: S is 1 + 2^-1.5 of the + pass, 1 + 2^-2.9375 of the -.

    With the largest exponent 10 2^F above the least, that is 2^10 + 2^(10 - 24 / 16) and 2^10 +
    2^(10 - 47 / 16), about 1386 and 1158, whose logarithms are 10 6/16 and 10 2/16, rounded down.
    """
    logits = np.array([[[0, -1]], [[0, -2]]])
    result = LossSign(LossSignConfig(classes=2)).run(logits, np.zeros((2, 1), int), np.array([0]))
    assert [floor(-47274 * k / 2**11) for k in (1, 2)] == [-24, -47]
    assert [floor(16 * log2(2**10 + 2 ** (10 - k / 16))) for k in (24, 47)] == [166, 162]
    assert result.sign == 1


def test_samples_that_do_not_count():
    config = LossSignConfig(classes=3, batch=2)
    logits = np.array([[[9, 0, 0]] * 4, [[0, 9, 0]] * 4])
    exponents, labels = np.full((2, 4), -2), np.zeros(4, int)
    model = LossSign(config)
    assert model.run(logits[:, :2], exponents[:, :2], labels[:2]).sign == -1
    # The third and the fourth are too many: they would turn the sign.
    relabelled = labels.copy()
    relabelled[2:] = 1
    result = model.run(logits, exponents, relabelled)
    assert (result.sign, result.error) == (-1, True)
    assert not result.errors.any()
    assert result.classes.tolist() == [[0] * 4, [1] * 4]
    for change, found in (
        ({"labels": np.array([3, 0])}, [[True, False]] * 2),
        ({"exponents": np.array([[-2, 12], [-2, 11]])}, [[False, True], [False, False]]),
        ({"wrong": np.array([[False, False], [True, False]])}, [[False, False], [True, False]]),
    ):
        given = {"logits": logits[:, :2], "exponents": exponents[:, :2], "labels": labels[:2]}
        result = model.run(**given | change)
        assert (result.sign, result.error) == (-1, True)
        assert result.errors.tolist() == found


def test_without_samples_that_count_the_sign_is_0():
    config = LossSignConfig(classes=2)
    result = LossSign(config).run(
        np.array([[[9, 0]], [[0, 9]]]), np.full((2, 1), 12), np.array([0])
    )
    assert (result.sign, result.error) == (0, True)


@pytest.mark.parametrize("fraction", [0, 4, 8])
def test_widths_hold_the_extremes(fraction):
    """One logit alone, and all equal: the least and the greatest sum of powers."""
    config = LossSignConfig(classes=256, fraction=fraction, batch=3)
    equal, alone = np.zeros((3, 256), int), np.full((3, 256), -128)
    alone[:, 0] = 127
    exponents, labels = np.zeros((2, 3), int), np.zeros(3, int)
    model = LossSign(config)
    assert model.run(np.stack([equal, alone]), exponents, labels).sign == 1
    assert model.run(np.stack([alone, equal]), exponents, labels).sign == -1
    assert config.sum_bits == 33
    assert 3 * (8 << fraction) < 1 << config.total_bits - 1


@pytest.mark.parametrize("fraction", range(9))
def test_tables(fraction):
    config = LossSignConfig(fraction=fraction)
    assert len(config.powers) == 1 << fraction
    assert config.powers[0] == 1 << 14
    assert max(config.powers) < 1 << 15
    assert len(config.logarithms) == 256
    assert config.logarithms[0] == 0
    assert config.logarithms[-1] == (1 << fraction) - 1
    assert config.logarithms[128] == floor(log2(1.5) * 2**fraction)
