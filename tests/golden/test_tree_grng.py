"""The model against published probabilities, its own exact distribution, and known defects."""

from math import erf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.lfsr import cycle
from seedbed.golden.tree_grng import TreeGrng, thresholds
from seedbed.spec import TreeGrngConfig

LFSRS = ["published", "repaired"]

#: P(upper half) of each node, four digits, of the example published with TreeGRNG (DATE 2024), the
#: node nearest to zero first where a magnitude bit is decided.
EXAMPLE = {
    1: [0.0454],
    2: [0.2847, 0.0579],
    3: [0.4391, 0.3241, 0.2270, 0.1522],
    4: [0.4845, 0.4535, 0.4229, 0.3928, 0.3636, 0.3353, 0.3081, 0.2821],
}


def correlation(numbers, lag):
    centred = numbers - numbers.mean()
    return float((centred[lag:] * centred[:-lag]).mean() / centred.var())


@pytest.fixture(scope="module", params=LFSRS)
def run(request):
    model = TreeGrng(TreeGrngConfig(lfsrs=request.param))
    return request.param, model, model.numbers(1 << 20)[:, 0] + 0.5


@pytest.mark.parametrize("lfsrs", LFSRS)
@pytest.mark.parametrize("tree", ["published", "compact"])
def test_thresholds_are_the_configuration_s(lfsrs, tree):
    levels = TreeGrngConfig(lfsrs=lfsrs, tree=tree).levels
    assert levels[0].thresholds == (1 << (levels[0].bits - 1),)
    for k, level in enumerate(levels[1:], start=1):
        assert level.thresholds == tuple(thresholds(k, level.bits))


@pytest.mark.parametrize("level", EXAMPLE)
def test_thresholds_are_the_published_probabilities(level):
    # 16 bits: finer than the digits. The example's registers have 7 to 10.
    upper = 1 - thresholds(level, 16) / 2**16
    np.testing.assert_allclose(upper, EXAMPLE[level], rtol=0, atol=3e-4)


@pytest.mark.parametrize("lfsrs", LFSRS)
def test_every_level_s_shares_are_exact_over_its_cycle(lfsrs):
    model = TreeGrng(TreeGrngConfig(lfsrs=lfsrs))
    for k, level in enumerate(model.config.levels):
        words = cycle(level.lfsr) >> (level.lfsr.width - level.bits)
        counted = [np.count_nonzero(words >= t) / level.lfsr.order for t in level.thresholds]
        np.testing.assert_array_equal(model._share(k, np.array(level.thresholds)), counted)


def test_distribution_is_the_gaussian_of_sigma_32():
    centres = np.arange(-128, 128) + 0.5
    edges = np.array([erf(k / (32 * sqrt(2))) for k in range(-128, 129)])
    gaussian = np.diff(edges) / (edges[-1] - edges[0])
    for lfsrs, distance, mean in (("published", 0.015, 0.2), ("repaired", 0.01, 0.02)):
        p = TreeGrng(TreeGrngConfig(lfsrs=lfsrs)).probabilities()
        assert p.sum() == pytest.approx(1)
        assert abs(p - gaussian).sum() / 2 < distance
        assert abs(p @ centres) < mean
        assert (p @ centres**2) ** 0.5 == pytest.approx(32, abs=0.1)
        kurtosis = (p @ centres**4) / (p @ centres**2) ** 2
        assert kurtosis == pytest.approx(3, abs=0.05)


def test_run_follows_the_exact_distribution(run):
    _, model, numbers = run
    p, centres = model.probabilities(), np.arange(-128, 128) + 0.5
    counts = np.bincount((numbers + 127.5).astype(int), minlength=256)
    assert numbers.std() == pytest.approx((p @ centres**2) ** 0.5, abs=0.1)
    assert numbers.mean() == pytest.approx(p @ centres, abs=0.1)
    # Registers of one length are the same sequence, so that published levels are not independent.
    assert abs(counts / len(numbers) - p).sum() / 2 < 0.01


def test_repaired_passes_chi_square():
    # Independent levels: Pearson's statistic has 255 degrees of freedom, mean 255, deviation 22.6.
    model = TreeGrng(TreeGrngConfig(lfsrs="repaired"))
    counts = np.bincount(model.numbers(1 << 20)[:, 0].astype(int) + 128, minlength=256)
    expected = model.probabilities() * (1 << 20)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < 255 + 5 * 22.6


def test_published_defects_and_their_repair(run):
    lfsrs, _, numbers = run
    magnitudes = [correlation(abs(numbers), lag) for lag in range(1, 9)]
    signs = np.signbit(numbers)
    if lfsrs == "published":
        assert magnitudes[0] == pytest.approx(0.32, abs=0.02)
        assert (signs[255:] == signs[:-255]).all()
        assert correlation(numbers, 255) > 0.6
    else:
        assert max(map(abs, magnitudes)) < 0.01
        assert max(abs(correlation(numbers, lag)) for lag in (*range(1, 9), 255)) < 0.01
        assert 0.49 < (signs[255:] == signs[:-255]).mean() < 0.51


def test_repaired_periods_have_no_common_factor():
    config = TreeGrngConfig(lfsrs="repaired")
    periods = [level.lfsr.order for level in config.levels]
    assert [level.lfsr.period for level in config.levels] == periods
    assert config.period == np.prod(np.array(periods, dtype=object))


@settings(deadline=None)
@given(st.sampled_from(LFSRS), st.integers(0, 40), st.integers(1, 40))
def test_two_runs_are_one(lfsrs, first, second):
    config = TreeGrngConfig(lfsrs=lfsrs, instances=2)
    parts, whole = TreeGrng(config), TreeGrng(config).numbers(first + second)
    np.testing.assert_array_equal(np.vstack([parts.numbers(first), parts.numbers(second)]), whole)


@settings(deadline=None)
@given(st.sampled_from(LFSRS), st.integers(2, 300))
def test_instances_are_evenly_spaced_phases_of_one_sequence(lfsrs, instances):
    config = TreeGrngConfig(lfsrs=lfsrs, instances=instances)
    assert config.spacing * instances <= config.period
    for k, level in enumerate(config.levels):
        if level.lfsr.width > 11:
            continue
        states = list(cycle(level.lfsr))
        start, step = states.index(config.seeds[0][k]), config.spacing * level.lfsr.leap
        expected = [states[(start + i * step) % level.lfsr.order] for i in range(instances)]
        assert [row[k] for row in config.seeds] == expected


def test_trees_make_the_same_numbers_from_aligned_seeds():
    published, compact = (TreeGrng(TreeGrngConfig(tree=t)) for t in ("published", "compact"))
    row = []
    for level, seed in zip(compact.config.levels, compact.config.seeds[0], strict=True):
        states = cycle(level.lfsr, seed)
        row.append(int(states[level.lfsr.leap * level.stage]))
    published.load([row])
    np.testing.assert_array_equal(published.numbers(300), compact.numbers(300))


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        ([[1] * 7], r"seeds must have the shape \(1, 8\), not \(1, 7\)"),
        ([[1] * 7 + [0]], r"of 10 bits must be a whole number in 1..1023, not 0"),
        ([[256] + [1] * 7], r"of 8 bits must be a whole number in 1..255, not 256"),
    ],
)
def test_refused_seeds(seeds, sentence):
    with pytest.raises(ValueError, match=sentence):
        TreeGrng(TreeGrngConfig()).load(seeds)
