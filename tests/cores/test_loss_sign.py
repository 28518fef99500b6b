from itertools import pairwise
from random import Random

import pytest

from seedbed.hw.loss.loss_sign import LossSign, classes_layout, sign_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.loss_sign import case, frame
from seedbed.sim.harness import simulate, with_stalls
from seedbed.spec import LossSignConfig

CONFIGS = [
    LossSignConfig(batch=4),
    LossSignConfig(batch=4, fraction=6, levels=4),
    LossSignConfig(classes=2, ways=1, fraction=0, batch=1),
    LossSignConfig(classes=3, ways=4, fraction=8, batch=5),
    LossSignConfig(classes=16, ways=3, fraction=1, batch=3),
    LossSignConfig(classes=33, ways=8, fraction=3),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(LossSign(config), case(config, Random(5), batches=4), stalls=stalls, seed=5)


@pytest.mark.parametrize("ways", [1, 4])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_latency_and_interval(classes, ways):
    config = LossSignConfig(classes=classes, ways=ways)
    dut = LossSign(config)
    logits = [*range(classes)]
    passes = [frame(config, logits, -3, 1, batch_last=last) for last in (False, True)]
    beats, best = len(passes[0]), classes - 1
    seen = [
        classes_layout(config).const({"best": best, "minus": minus}).as_bits()
        for minus in [0, 1] * 3
    ]
    phase = Phase(
        inputs={"i": passes[0] * 5 + passes[1]},
        outputs={"o": [sign_layout(config).const({"sign": 0}).as_bits()], "o_classes": seen},
    )
    transfers = simulate(dut, Case(phases=[phase], quiet=True)).transfers
    ends = transfers["i"][2 * beats - 1 :: 2 * beats]
    assert [b - a for a, b in pairwise(ends)] == [dut.interval] * 2
    assert transfers["o"] == [ends[-1] + dut.latency]


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"classes": 1}, ValueError, r"classes must be in 2\.\.256, not 1"),
        ({"classes": 257}, ValueError, r"classes must be in 2\.\.256, not 257"),
        ({"classes": 10.0}, TypeError, r"classes must be an integer in 2\.\.256, not 10\.0"),
        ({"ways": 0}, ValueError, r"ways must be in 1\.\.64, not 0"),
        ({"ways": 65}, ValueError, r"ways must be in 1\.\.64, not 65"),
        ({"fraction": -1}, ValueError, r"fraction must be in 0\.\.8, not -1"),
        ({"fraction": 9}, ValueError, r"fraction must be in 0\.\.8, not 9"),
        ({"batch": 0}, ValueError, r"batch must be in 1\.\.65536, not 0"),
        ({"batch": 65537}, ValueError, r"batch must be in 1\.\.65536, not 65537"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        LossSignConfig(**params)
