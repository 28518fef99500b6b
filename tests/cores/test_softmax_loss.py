from random import Random

import pytest

from seedbed.hw.loss.softmax_loss import SoftmaxLoss, result_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.softmax_loss import case, frame, response
from seedbed.sim.harness import simulate, with_stalls
from seedbed.spec import SoftmaxLossConfig
from seedbed.spec.fixed import Q8_16, Fixed

CONFIGS = [
    SoftmaxLossConfig(),
    SoftmaxLossConfig(logits=Q8_16),
    SoftmaxLossConfig(classes=2),
    SoftmaxLossConfig(classes=3, exp_bits=7, exp_fraction=4, index_bits=6),
    # Exponentials with all bits; probabilities and gradients of equal resolution.
    SoftmaxLossConfig(classes=5, logits=Fixed(12, 6), exp_bits=9, exp_fraction=6),
    SoftmaxLossConfig(classes=4, probability_bits=12, index_bits=11),
    # A table for every difference; gradients without a fraction; the widest product.
    SoftmaxLossConfig(classes=6, logits=Fixed(8, 4), exp_bits=12, exp_fraction=4),
    SoftmaxLossConfig(classes=3, gradients=Fixed(2, 0), probability_bits=8, index_bits=4),
    SoftmaxLossConfig(classes=17, gradients=Fixed(20, 18), probability_bits=18, index_bits=12),
    SoftmaxLossConfig(classes=2, logits=Fixed(4, 0), exp_fraction=0, exp_bits=6),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(SoftmaxLoss(config), case(config, Random(5), samples=12), stalls=stalls, seed=5)


@pytest.mark.parametrize("classes", [2, 10])
def test_latency_and_throughput(classes):
    config = SoftmaxLossConfig(classes=classes)
    dut = SoftmaxLoss(config)
    logits = [100 * k for k in range(classes)]
    phase = Phase(
        inputs={"i": frame(config, logits, 1) * 5}, outputs={"o": response(config, logits, 1) * 5}
    )
    transfers = simulate(dut, Case(phases=[phase], quiet=True)).transfers
    end = transfers["i"][classes - 1]
    assert transfers["o"][:classes] == list(range(end + classes + 7, end + dut.latency + 1))
    # Successive samples, all with the same latency: the next logits are accepted meanwhile.
    assert transfers["o"][classes:] == [cycle + dut.latency for cycle in transfers["o"][:-classes]]
    assert transfers["i"][classes] == end + classes + 1


def test_a_short_sample_is_faster():
    config = SoftmaxLossConfig()
    phase = Phase(
        inputs={"i": frame(config, [5, 7], 0)}, outputs={"o": response(config, [5, 7], 0)}
    )
    transfers = simulate(SoftmaxLoss(config), Case(phases=[phase], quiet=True)).transfers
    assert transfers["o"] == [transfers["i"][1] + 9, transfers["i"][1] + 10]


def test_logits_are_accepted_while_gradients_are_stalled():
    config = SoftmaxLossConfig(classes=3)
    one, two = [5, 7, 700], [9000, 0, 1]
    phases = [
        Phase(inputs={"i": frame(config, one, 0) + frame(config, two, 2)}),
        Phase(outputs={"o": response(config, one, 0) + response(config, two, 2)}),
    ]
    simulate(SoftmaxLoss(config), Case(phases=phases, quiet=True))


def run_sample(config, logits, label):
    """Run one sample, against the model, and return its beats."""
    beats = response(config, logits, label)
    phase = Phase(inputs={"i": frame(config, logits, label)}, outputs={"o": beats})
    simulate(SoftmaxLoss(config), Case(phases=[phase], quiet=True))
    return [result_layout(config).from_bits(beat) for beat in beats]


def test_a_label_without_a_logit():
    """Its logit counts as minus infinity: the loss saturates in every format."""
    config = SoftmaxLossConfig(logits=Q8_16)
    for label in (2, 15):
        first, second = run_sample(config, [5, 5], label)
        assert (first.gradient, second.gradient) == (2048, 2048)
        assert (second.loss, second.saturated, second.best) == (Q8_16.high, 1, 0)


def test_logits_after_the_first_classes_are_discarded():
    config = SoftmaxLossConfig(classes=2, logits=Q8_16)
    beats = run_sample(config, [5, 5, Q8_16.high, 7], 1)
    assert [beat.gradient for beat in beats] == [2048, -2048]
    assert [beat.last for beat in beats] == [0, 1]
    assert {(beat.best, beat.loss, beat.saturated) for beat in beats} == {(0, 45410, 0)}


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"classes": 1}, ValueError, r"classes must be in 2\.\.256, not 1"),
        ({"classes": 257}, ValueError, r"classes must be in 2\.\.256, not 257"),
        ({"classes": 10.0}, TypeError, r"classes must be an integer in 2\.\.256, not 10\.0"),
        ({"probability_bits": 7}, ValueError, r"probability_bits must be in 8\.\.18, not 7"),
        ({"probability_bits": 19}, ValueError, r"probability_bits must be in 8\.\.18, not 19"),
        ({"exp_bits": 5}, ValueError, r"exp_bits must be in 6\.\.12, not 5"),
        ({"exp_bits": 13}, ValueError, r"exp_bits must be in 6\.\.12, not 13"),
        ({"exp_fraction": -1}, ValueError, r"exp_fraction must be in 0\.\.10, not -1"),
        ({"exp_fraction": 11}, ValueError, r"exp_fraction must be in 0\.\.10, not 11"),
        (
            {"exp_fraction": 7, "logits": Fixed(12, 6)},
            ValueError,
            r"exp_fraction must be in 0\.\.6, not 7",
        ),
        ({"index_bits": 3}, ValueError, r"index_bits must be in 4\.\.12, not 3"),
        ({"index_bits": 13}, ValueError, r"index_bits must be in 4\.\.12, not 13"),
        (
            {"index_bits": 8, "probability_bits": 8},
            ValueError,
            r"index_bits must be in 4\.\.7, not 8",
        ),
        ({"gradients": Fixed(16, 15)}, ValueError, r"fraction must be in 0\.\.14, not 15"),
        ({"gradients": Fixed(24, 17)}, ValueError, r"fraction must be in 0\.\.16, not 17"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        SoftmaxLossConfig(**params)
