from random import Random

import pytest

from seedbed.golden.tree_grng import TreeGrng as Model
from seedbed.golden.tree_grng import seed_bits
from seedbed.hw.generators.tree_grng import TreeGrng
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.tree_grng import case
from seedbed.sim.cases.urng_array import pack
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import TreeGrngConfig

CONFIGS = [
    TreeGrngConfig(lfsrs=lfsrs, tree=tree, instances=instances)
    for lfsrs, tree, instances in [
        ("published", "published", 1),
        ("published", "compact", 1),
        ("repaired", "published", 2),
        ("repaired", "compact", 1),
        ("published", "compact", 3),
    ]
]


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_matches_model(config, stalls):
    simulate(TreeGrng(config), case(config, Random(7), beats=200), stalls=stalls, seed=7)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_latency_and_throughput(config):
    component = TreeGrng(config)
    assert component.latency == {"published": 1, "compact": 5}[config.tree]
    model = Model(config)
    phases = [Phase(outputs={"o": pack(model.numbers(20), 8)})]
    model.load(config.seeds)
    bits = seed_bits(config, config.seeds)
    assert len(bits) == config.seed_beats
    expected = {"o": pack(model.numbers(20), 8)}
    bits[-1] |= 2
    phases.append(Phase(inputs={"i_seeds": bits}, outputs=expected, drain=True))
    seen = simulate(component, Case(phases=phases)).transfers
    begun = component.latency - 1
    assert seen["o"][:20] == list(range(begun, begun + 20 * component.interval))
    begun = seen["i_seeds"][-1] + component.latency
    assert seen["o"][-20:] == list(range(begun, begun + 20 * component.interval))
    # One bit per cycle; the first with the transfer of the pending beat.
    assert seen["i_seeds"] == list(range(seen["i_seeds"][0], seen["i_seeds"][0] + len(bits)))
    assert len(seen["o"]) == 41


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_last_bits_of_a_longer_frame_count(config):
    random = Random(5)
    model = Model(config)
    bits = [random.getrandbits(1) for _ in range(30)] + seed_bits(config, config.seeds)
    bits[-1] |= 2
    expected = {"o": pack(model.numbers(50), 8)}
    phase = Phase(inputs={"i_seeds": bits}, outputs=expected, drain=True)
    simulate(TreeGrng(config), Case(phases=[phase]))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"instances": 0}, ValueError, r"instances must be in 1\.\.4096, not 0"),
        ({"instances": 4097}, ValueError, r"instances must be in 1\.\.4096, not 4097"),
        ({"instances": 1.0}, TypeError, r"instances must be an integer in 1\.\.4096, not 1\.0"),
        ({"lfsrs": "long"}, ValueError, "lfsrs must be one of published, repaired, not 'long'"),
        ({"lfsrs": 8}, TypeError, "lfsrs must be one of published, repaired, not 8"),
        ({"tree": "small"}, ValueError, "tree must be one of published, compact, not 'small'"),
        ({"tree": None}, TypeError, "tree must be one of published, compact, not None"),
    ],
)
def test_refused(params, error, sentence):
    with pytest.raises(error, match=sentence):
        TreeGrngConfig(**params)


@pytest.mark.parametrize("lfsrs", ["published", "repaired"])
def test_registers(lfsrs):
    config = TreeGrngConfig(lfsrs=lfsrs, instances=3)
    assert config.seed_beats == 3 * {"published": 68, "repaired": 121}[lfsrs]
    for level in config.levels:
        assert sorted(level.chain) == list(range(level.lfsr.width))
