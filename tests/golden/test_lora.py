"""Adapters: against the formulas in Python's integers, against real SGD, and at the ends."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from seedbed.golden.lora import Lora
from seedbed.spec.fixed import Q4_12, Q6_12, Q8_16, Fixed
from seedbed.spec.lora import LoraConfig

#: Formats so narrow that everything saturates in a few samples.
NARROW = LoraConfig(
    widths=(3, 5),
    classes=4,
    rank=2,
    values=Fixed(10, 6),
    parameters=Fixed(8, 5),
    gradients=Fixed(8, 5),
    accumulators=Fixed(10, 6),
    rate_width=6,
    rate_fraction=7,
)
#: By the formats of values and accumulators; with ``both``, accumulators are the finer ones.
SMALL = {
    "Q6.12": LoraConfig(widths=(6, 9), classes=5, rank=3),
    "Q8.16": LoraConfig(widths=(6, 9), classes=5, rank=3, values=Q8_16, accumulators=Q8_16),
    "both": LoraConfig(widths=(6, 9), classes=5, rank=3, accumulators=Q8_16),
}


def drawn(config, rng, samples):
    form = config.values
    x = [rng.integers(form.low, form.high + 1, (samples, width)) for width in config.widths]
    base = rng.integers(form.low, form.high + 1, (samples, config.classes))
    high = config.gradients.one
    return x, base, rng.integers(-high, high + 1, (samples, config.classes))


def adapters(config, rng):
    low, high = config.parameters.low, config.parameters.high
    a = [rng.integers(low, high + 1, (config.rank, width)) for width in config.widths]
    b = [rng.integers(low, high + 1, (config.classes, config.rank)) for _ in config.widths]
    return Lora(config, a, b)


class Plain:
    """The configuration's formulas, number by number, in fractions."""

    def __init__(self, config, a, b):
        self.config = config
        self.a, self.b = ([part.tolist() for part in parts] for parts in (a, b))
        self.count = 0

    def saturate(self, number, form):
        fitted = min(max(number, form.low), form.high)
        self.count += fitted != number
        return fitted

    def r(self, number, shift, form):
        return self.saturate(floor(Fraction(number, 2**shift) + Fraction(1, 2)), form)

    def forward(self, x, base):
        c = self.config
        shift = c.parameters.fraction
        h = [
            [self.r(sum(w * v for w, v in zip(row, part, strict=True)), shift, c.values)]
            for part, a in zip(x, self.a, strict=True)
            for row in a
        ]
        h = [[n for (n,) in h[i * c.rank :][: c.rank]] for i in range(len(c.widths))]
        z = [
            (base[k] << shift)
            + sum(self.b[i][k][j] * h[i][j] for i in range(len(c.widths)) for j in range(c.rank))
            for k in range(c.classes)
        ]
        return h, [self.r(number, shift, c.values) for number in z]

    def update(self, xs, hs, dzs, rate):
        c = self.config
        product = c.gradients.fraction + c.values.fraction - c.accumulators.fraction
        down = c.rate_fraction + c.accumulators.fraction - c.parameters.fraction
        for i, width in enumerate(c.widths):
            a = [[0] * width for _ in range(c.rank)]
            b = [[0] * c.rank for _ in range(c.classes)]
            for x, h, dz in zip(xs, hs, dzs, strict=True):
                dh = [
                    self.r(
                        sum(self.b[i][k][j] * dz[k] for k in range(c.classes)),
                        c.parameters.fraction,
                        c.gradients,
                    )
                    for j in range(c.rank)
                ]
                for sums, left, right in ((a, dh, x[i]), (b, dz, h[i])):
                    for m, g in enumerate(left):
                        for n, v in enumerate(right):
                            added = floor(Fraction(g * v, 2**product) + Fraction(1, 2))
                            sums[m][n] = self.saturate(sums[m][n] + added, c.accumulators)
            for parameters, sums in ((self.a[i], a), (self.b[i], b)):
                for row, gradient in zip(parameters, sums, strict=True):
                    for n, g in enumerate(gradient):
                        step = floor(Fraction(rate * g, 2**down) + Fraction(1, 2))
                        row[n] = self.saturate(row[n] - step, c.parameters)


@pytest.mark.parametrize(
    ("config", "step"),
    [(NARROW, 0.3), *((config, 0.03) for config in SMALL.values())],
    ids=["narrow", *SMALL],
)
def test_bit_for_bit_the_formulas(config, step):
    saturates = config is NARROW
    rng = np.random.default_rng(1)
    model = adapters(config, rng)
    if not saturates:
        model.a, model.b = ([part // 64 for part in parts] for parts in (model.a, model.b))
    plain = Plain(config, model.a, model.b)
    for _ in range(3):
        x, base, dz = drawn(config, rng, 6)
        if not saturates:
            x, base = [part // 64 for part in x], base // 64
        h, z = model.forward(x, base)
        each = [plain.forward([part[n].tolist() for part in x], base[n].tolist()) for n in range(6)]
        assert z.tolist() == [logits for _, logits in each]
        assert [part.tolist() for part in h] == [
            [inner[i] for inner, _ in each] for i in range(len(x))
        ]
        rate = config.rate(step)
        assert rate == {0.3: 38, 0.03: 125829}[step]
        model.update(x, h, dz, rate)
        rows = [[part[n].tolist() for part in x] for n in range(6)]
        plain.update(rows, [inner for inner, _ in each], dz.tolist(), rate)
        assert [a.tolist() for a in model.a] == plain.a
        assert [b.tolist() for b in model.b] == plain.b
        assert model.saturations.count == plain.count
    assert (model.saturations.count > 0) == saturates


@pytest.mark.parametrize("form", [Q6_12, Q8_16], ids=str)
def test_an_accumulator_stays_at_its_end_until_it_is_drawn_back(form):
    config = LoraConfig(widths=(1,), classes=1, rank=1, values=form, accumulators=form)
    model = Lora(config, [np.zeros((1, 1), int)], [np.zeros((1, 1), int)])
    one, x = np.full((3, 1), Q4_12.one), np.full((3, 1), form.high)
    assert model.accumulate(one, x).tolist() == [[form.high]]
    assert model.saturations.count == 2
    one[2] = -Q4_12.one
    assert model.accumulate(one, x).tolist() == [[0]]
    assert model.accumulate(-np.abs(one), x).tolist() == [[form.low]]
    assert model.saturations.count == 5
    # The sum is 10/8 of the limit: it saturates.
    assert model.accumulate(np.abs(one[:2]), x[:2] * 5 // 8).tolist() == [[form.high]]
    assert model.saturations.count == 6


@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
def test_adapters_start_without_effect(config):
    rng = np.random.default_rng(2)
    model = Lora.random(config, rng, 0.05)
    x, base, _ = drawn(config, rng, 7)
    np.testing.assert_array_equal(model.forward(x, base)[1], base)
    wide = Lora.random(LoraConfig(), rng, 0.05)
    assert wide.a[1].std() / Q4_12.one == pytest.approx(0.05, rel=0.05)
    assert model.saturations.count == 0


@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
def test_close_to_sgd_in_real_numbers(config):
    """After a batch, to the rounding of parameters, gradients and products.

    Six h, each of half a unit and times B below 1/2, and the logits' own half are two units.
    """
    rng, one = np.random.default_rng(3), config.values.one
    model = Lora.random(config, rng, 0.3)
    model.b = [rng.integers(-2000, 2000, part.shape) for part in model.b]
    a, b = ([part / Q4_12.one for part in parts] for parts in (model.a, model.b))
    x = [rng.integers(0, 3 * one, (20, width)) for width in config.widths]
    base, dz = rng.integers(-99, 99, (20, 5)), rng.integers(-Q4_12.one, Q4_12.one, (20, 5))
    h, z = model.forward(x, base)
    model.update(x, h, dz, config.rate(0.005))
    real, g = [part / one for part in x], dz / Q4_12.one
    inner = [part @ each.T for part, each in zip(real, a, strict=True)]
    logits = base / one + sum(p @ q.T for p, q in zip(inner, b, strict=True))
    assert np.abs(z / one - logits).max() < 2 / one
    for i in range(2):
        new_a = a[i] - 0.005 * (g @ b[i]).T @ real[i]
        new_b = b[i] - 0.005 * g.T @ inner[i]
        assert np.abs(model.a[i] / Q4_12.one - new_a).max() < 0.75 / Q4_12.one
        assert np.abs(model.b[i] / Q4_12.one - new_b).max() < 0.75 / Q4_12.one
    assert model.saturations.count == 0


@pytest.mark.parametrize(
    ("step", "held"),
    [
        (0.1 / 20, 20972),
        (0.02 / 20, 4194),
        (0.025 / 20, 5243),
        (0.03, 125829),
        (2**-22, 1),
        (2.5 * 2**-22, 3),
        (2**-5 - 2**-22, 2**17 - 1),
    ],
)
def test_a_rate_is_held_to_its_bits(step, held):
    assert LoraConfig().rate(step) == held
    assert held / 2**22 == pytest.approx(step, abs=2**-23)


def test_a_rate_of_other_bits():
    assert LoraConfig(rate_width=4, rate_fraction=3).rate(15 / 8) == 15
    assert LoraConfig(rate_width=24, rate_fraction=32).rate(2**-8 - 2**-32) == 2**24 - 1
    with pytest.raises(ValueError, match=r"must be in 2\^-3 \.\. 1\.875, not 2"):
        LoraConfig(rate_width=4, rate_fraction=3).rate(2)


@pytest.mark.parametrize("step", [0, -0.1, 2**-5, 1, 2**-24, 1e300, float("nan"), float("inf")])
def test_a_rate_that_the_format_cannot_hold_is_refused(step):
    with pytest.raises(ValueError, match=r"must be in 2\^-22 \.\. 0\.0312498, not "):
        LoraConfig().rate(step)


def test_parameters_of_the_paper():
    assert LoraConfig().parameter_count == 10456


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"widths": ()}, r"widths must be 1\.\.16 integers in 1\.\.65535, not 0 of them"),
        ({"widths": (4, 0)}, r"every one of widths must be in 1\.\.65535, not 0"),
        ({"rank": 33}, r"rank must be in 1\.\.32, not 33"),
        ({"classes": 0}, r"classes must be in 1\.\.256, not 0"),
        ({"rate_width": 3}, r"rate_width must be in 4\.\.24, not 3"),
        ({"rate_fraction": 33}, r"rate_fraction must be in 0\.\.32, not 33"),
        ({"rate_fraction": -1}, r"rate_fraction must be in 0\.\.32, not -1"),
        ({"rate_fraction": 2}, r"accumulators' fraction must be in 10\.\.24, not 9"),
        (
            {"values": Q8_16, "accumulators": Fixed(30, 29)},
            r"accumulators' fraction must be in 0\.\.28, not 29",
        ),
        ({"accumulators": Fixed(46, 16)}, r"accumulators' width must be in 2\.\.45, not 46"),
        (
            {"parameters": Fixed(30, 12)},
            r"a sum of values by parameters or gradients must be in 2\.\.53, not 57",
        ),
        (
            {"values": Q8_16, "parameters": Fixed(30, 12)},
            r"a sum of values by parameters or gradients must be in 2\.\.53, not 63",
        ),
    ],
)
def test_bad_configurations(change, says):
    with pytest.raises(ValueError, match=says):
        LoraConfig(**change)
