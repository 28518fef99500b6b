from random import Random

import pytest

from seedbed.hw.softmax_loss import SoftmaxLoss
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.softmax_loss import answer, case, frame
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import SoftmaxLossConfig
from seedbed.spec.fixed import Q8_16, Fixed

CONFIGS = [
    SoftmaxLossConfig(),
    SoftmaxLossConfig(logits=Q8_16),
    SoftmaxLossConfig(classes=2),
    SoftmaxLossConfig(classes=3, exp_bits=7, exp_fraction=4, index_bits=6),
    # Exponentials to the last bit; probabilities and gradients as fine as one another.
    SoftmaxLossConfig(classes=5, logits=Fixed(12, 6), exp_bits=9, exp_fraction=6),
    SoftmaxLossConfig(classes=4, probability_bits=12, index_bits=11),
    # A table that no difference leaves; gradients without a fraction; the widest product.
    SoftmaxLossConfig(classes=6, logits=Fixed(8, 4), exp_bits=12, exp_fraction=4),
    SoftmaxLossConfig(classes=3, gradients=Fixed(2, 0), probability_bits=8, index_bits=4),
    SoftmaxLossConfig(classes=17, gradients=Fixed(20, 18), probability_bits=18, index_bits=12),
    SoftmaxLossConfig(classes=2, logits=Fixed(4, 0), exp_fraction=0, exp_bits=6),
]


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_matches_model(config, stalls):
    simulate(SoftmaxLoss(config), case(config, Random(5), samples=12), stalls=stalls, seed=5)


@pytest.mark.parametrize("classes", [2, 10])
def test_latency_and_throughput(classes):
    config = SoftmaxLossConfig(classes=classes)
    dut = SoftmaxLoss(config)
    logits = [100 * k for k in range(classes)]
    phase = Phase(
        inputs={"i": frame(config, logits, 1) * 5}, outputs={"o": answer(config, logits, 1) * 5}
    )
    moved = simulate(dut, Case(phases=[phase], quiet=True)).transfers
    end = moved["i"][classes - 1]
    assert moved["o"][:classes] == list(range(end + classes + 7, end + dut.latency + 1))
    # One sample after the other, each as late as the first: the next logits come meanwhile.
    assert moved["o"][classes:] == [cycle + dut.latency for cycle in moved["o"][:-classes]]
    assert moved["i"][classes] == end + classes + 1


def test_a_short_sample_is_faster():
    config = SoftmaxLossConfig()
    moved = simulate(
        SoftmaxLoss(config),
        Case(
            phases=[
                Phase(
                    inputs={"i": frame(config, [5, 7], 0)}, outputs={"o": answer(config, [5, 7], 0)}
                )
            ]
        ),
    ).transfers
    assert moved["o"] == [moved["i"][1] + 9, moved["i"][1] + 10]
