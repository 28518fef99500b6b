"""The model against the paper's example, a second implementation, and round trips."""

from math import ceil, floor, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden import seedlm
from seedbed.spec.seedlm import RULES, SEEDLM, SeedlmConfig

#: The paper's Figure 3.
EXAMPLE = SeedlmConfig(block=4, latent=2, width=3)
SMALL = SeedlmConfig(block=6, latent=3, width=6)


@st.composite
def configs(draw, most=20):
    width = draw(st.integers(3, most))
    return SeedlmConfig(
        block=draw(st.integers(1, 32)),
        latent=draw(st.integers(1, 8)),
        width=width,
        word_bits=draw(st.sampled_from([0, *range(2, width + 1)])),
    )


def fields(config, count, rng):
    """Random seeds, exponents and coefficients of so many blocks."""
    return (
        rng.integers(1, config.lfsr.order, count, np.uint32, endpoint=True),
        rng.integers(-8, 8, count).astype(np.int8),
        rng.integers(-8, 8, (count, config.latent)).astype(np.int8),
    )


def test_words_are_the_paper_s_example():
    assert seedlm.words(EXAMPLE, np.array(4)).tolist() == [[2, 5], [6, 7], [3, 1], [4, 2]]


def test_weights_are_the_example_s_by_hand():
    # U = (V - 4) / 3, and q 2^e = (3, -2) / 2.
    weights = seedlm.decode(EXAMPLE, np.array([4]), np.array([-1]), np.array([[3, -2]]))
    np.testing.assert_allclose(weights[0] * 6, [-6 - 2, 6 - 6, -3 + 6, 0 + 4], atol=1e-14)


@settings(deadline=None)
@given(config=configs(), seed=st.integers(0, 2**32 - 1))
def test_sums_are_products_of_the_top_bits(config, seed):
    seeds, exponents, coefficients = fields(config, 5, np.random.default_rng(seed))
    full = SeedlmConfig(block=config.block, latent=config.latent, width=config.width)
    cut = seedlm.words(full, seeds) // 2 ** (config.width - config.word_bits)
    expected = np.einsum("ncp,np->nc", cut - config.half, coefficients.astype(np.int64))
    np.testing.assert_array_equal(seedlm.sums(config, seeds, coefficients), expected)
    assert np.abs(expected).max() < 2 ** (config.sum_width - 1)
    t = coefficients * 2.0 ** exponents[:, None].astype(float)
    weights = np.einsum("ncp,np->nc", seedlm.bases(config, seeds), t)
    decoded = seedlm.decode(config, seeds, exponents, coefficients)
    np.testing.assert_allclose(decoded, weights, rtol=1e-12, atol=1e-9 * np.abs(t).max())


def test_a_packed_block_is_seed_exponent_coefficients_from_the_low_end():
    packed = seedlm.pack(SEEDLM[4], np.array([0xABCD]), np.array([-3]), np.array([[1, -8, 7]]))
    assert hex(int(packed[0])) == "0x781dabcd"


@settings(deadline=None)
@given(config=configs(), seed=st.integers(0, 2**32 - 1))
def test_unpack_inverts_pack(config, seed):
    block = fields(config, 20, np.random.default_rng(seed))
    packed = seedlm.pack(config, *block)
    assert int(packed.max()) < 1 << config.block_bits
    for found, given_ in zip(seedlm.unpack(config, packed), block, strict=True):
        assert found.dtype == given_.dtype
        np.testing.assert_array_equal(found, given_)


@pytest.mark.parametrize(
    ("rule", "limit"), [("fit", lambda e: 7.5 * 2.0**e), ("paper", lambda e: 2.0 ** (e + 1))]
)
def test_exponents_change_exactly_at_their_limits(rule, limit):
    for e in range(-8, 7):
        at = limit(e)
        below, above = np.nextafter(at, 0), np.nextafter(at, np.inf)
        found = seedlm.exponent(rule, np.array([below, at, above])).tolist()
        # 7.5 rounds to 8, which is clipped, as 7 would have been: it still fits.
        assert found == [e, e if rule == "fit" else e + 1, e + 1]


@given(peak=st.floats(1e-6, 1e6))
def test_exponents_are_their_formulas(peak):
    peaks = np.array([peak])
    assert seedlm.exponent("paper", peaks) == np.clip(floor(log2(peak)), -8, 7)
    assert seedlm.exponent("fit", peaks) == np.clip(ceil(log2(peak / 7.5)), -8, 7)


@pytest.mark.parametrize("rule", RULES)
def test_exponents_are_clipped(rule):
    assert seedlm.exponent(rule, np.array([0, 1e-300, 1e300, np.inf])).tolist() == [-8, -8, 7, 7]


@pytest.mark.parametrize(
    "config",
    [EXAMPLE, SMALL, SeedlmConfig(block=2, latent=5, width=4), SeedlmConfig(block=8, width=5)],
    ids=str,
)
def test_inverses_are_moore_and_penrose_s(config):
    u = seedlm.bases(config, np.arange(1, config.lfsr.order + 1, dtype=np.uint32))
    inverse = seedlm.inverses(config)
    for product, expected in (
        (u @ inverse @ u, u),
        (inverse @ u @ inverse, inverse),
        (u @ inverse, (u @ inverse).transpose(0, 2, 1)),
        (inverse @ u, (inverse @ u).transpose(0, 2, 1)),
    ):
        np.testing.assert_allclose(product, expected, atol=1e-9 * np.abs(inverse).max())


def test_singular_bases_are_distinguished_from_regular_ones():
    """No seed of the paper's configurations is near the limit below which values count as zero."""
    config = SEEDLM[4]
    seeds = np.arange(1, config.lfsr.order + 1, dtype=np.uint32)
    values = np.linalg.svd(seedlm.bases(config, seeds), compute_uv=False)
    share = values[:, -1] / values[:, 0]
    assert 1e5 < 1 / share.min() < 1e6
    # At K = 3 the words repeat, and bases are singular.
    tiny = SeedlmConfig(block=8, latent=8, width=3)
    u = seedlm.bases(tiny, np.arange(1, 8, dtype=np.uint32))
    values = np.linalg.svd(u, compute_uv=False)
    share = values / values[:, :1]
    assert not ((share > 1e-14) & (share < 1e-6)).any()
    assert (share < 1e-14).any()


def algorithm(config, block, rule):
    """Algorithm 1 for one block, seed by seed, by least squares; the least error."""
    least = np.inf
    for seed in range(1, config.lfsr.order + 1):
        u = (seedlm.words(config, np.array(seed)) - config.half) / (config.half - 1)
        t = np.linalg.lstsq(u, block, rcond=1e-12)[0]
        peak = max(abs(t))
        e = floor(log2(peak)) if rule == "paper" else ceil(log2(peak / 7.5))
        e = min(max(e, -8), 7)
        q = np.array([min(max(round(x / 2**e), -8), 7) for x in t])
        least = min(least, sum((block - u @ q * 2.0**e) ** 2))
    return least


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        SeedlmConfig(block=6, latent=3, width=6, word_bits=4),
        SeedlmConfig(block=2, latent=3, width=5),
    ],
    ids=str,
)
def test_search_is_algorithm_1(config, rule):
    blocks = np.random.default_rng(4).normal(size=(8, config.block))
    found = seedlm.errors(config, blocks, *seedlm.search(config, blocks, rule=rule))
    expected = [algorithm(config, block, rule) for block in blocks]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert (found > 0).all()


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_search_recovers_decoded_blocks(seed):
    rng = np.random.default_rng(seed)
    seeds, exponents, coefficients = fields(SMALL, 4, rng)
    # The rule's exponent is then the random one.
    coefficients = np.maximum(coefficients, -7)
    coefficients[:, 0] = rng.choice([-7, -6, -5, -4, 4, 5, 6, 7], 4)
    blocks = seedlm.decode(SMALL, seeds, exponents, coefficients)
    found = seedlm.errors(SMALL, blocks, *seedlm.search(SMALL, blocks))
    assert (found <= 1e-24 * (blocks**2).sum(axis=1)).all()


@pytest.mark.parametrize("rule", RULES)
def test_zeros_have_the_first_seed_and_no_coefficients(rule):
    found = seedlm.search(SMALL, np.zeros((2, 6)), rule=rule)
    assert [part.tolist() for part in found] == [[1, 1], [-8, -8], [[0] * 3] * 2]


def test_no_blocks_are_no_error():
    seeds, exponents, coefficients = seedlm.search(SMALL, np.zeros((0, 6)))
    assert (seeds.shape, exponents.shape, coefficients.shape) == ((0,), (0,), (0, 3))


@pytest.mark.parametrize("shape", [(6,), (2, 5), (1, 2, 6)])
def test_another_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"^blocks must have shape \(n, 6\), not \("):
        seedlm.search(SMALL, np.zeros(shape))


def test_another_rule_is_refused():
    with pytest.raises(ValueError, match=r"^rule must be one of fit, paper, not 'best'$"):
        seedlm.search(SMALL, np.zeros((1, 6)), rule="best")
