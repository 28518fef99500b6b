from random import Random

import pytest

from seedbed.golden.perturbation import Perturbation as Model
from seedbed.hw.generators.perturbation import Perturbation
from seedbed.sim.case import Case
from seedbed.sim.cases.perturbation import case, phase
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import PerturbationConfig

CONFIGS = {
    "urng 31 x 14": PerturbationConfig(),
    "urng 31 x 8": PerturbationConfig(width=8),
    "urng 31 x 8, value": PerturbationConfig(width=8, rounding="value"),
    "urng 7 x 8, leap 8": PerturbationConfig(lanes=7, width=8, leap=8),
    "urng 3 x 5": PerturbationConfig(lanes=3, width=5, count_width=12, eps_width=3),
    "lutopt 31 x 14": PerturbationConfig(source="lutopt"),
    "lutopt 32 x 5": PerturbationConfig(source="lutopt", lanes=32, width=5),
    "pool 8 x 12": PerturbationConfig(source="pool"),
    "pool 5 x 9": PerturbationConfig(source="pool", lanes=5, width=9, size=13, banks=4),
}


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("name", CONFIGS)
def test_matches_model(name, stalls):
    config = CONFIGS[name]
    simulate(Perturbation(config), case(config, Random(11)), stalls=stalls, seed=11)


@pytest.mark.parametrize("name", CONFIGS)
def test_latency_and_throughput(name):
    config = CONFIGS[name]
    rtl = Perturbation(config)
    result = simulate(
        rtl, Case(phases=[phase(config, Model(config), [(3, 20 * config.lanes, 0, 0)])])
    )
    (sent,), received = result.transfers["i"], result.transfers["o"]
    assert received == list(range(sent + rtl.latency, sent + rtl.latency + 20))


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"source": "gauss"}, "source must be one of urng, pool, lutopt, not 'gauss'"),
        ({"count_width": 7}, "count_width must be in 8..32, not 7"),
        ({"eps_width": 9}, "eps_width must be in 2..8, not 9"),
        ({"width": 17}, "width must be in 4..16, not 17"),
        ({"lanes": 30}, r"lanes must be 2\^k - 1"),
        ({"source": "lutopt", "width": 13}, r"lanes x width must be a proven size"),
        ({"source": "lutopt", "lanes": 8, "width": 5}, "a seed word needs 64 bits of state"),
        ({"source": "pool", "lanes": 33}, "lanes must be in 1..32, not 33"),
    ],
)
def test_refuses(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        PerturbationConfig(**params)
