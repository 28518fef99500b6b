"""The fast search against the literal one, its anchors, and what stands beside it."""

import numpy as np
import pytest
from compressing import configs, drawn
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from seedbed.flow.compress import search as module
from seedbed.flow.compress.bench import bench
from seedbed.flow.compress.explore import explore, grid, plot
from seedbed.flow.compress.search import _encode, block_floating_point, search, tensor_scale
from seedbed.flow.compress.tables import aligned, tables
from seedbed.golden import seedlm
from seedbed.spec.seedlm import RULES, SEEDLM, SeedlmConfig


@pytest.mark.parametrize("config", [*SEEDLM.values(), SeedlmConfig(width=10, latent=6)])
def test_no_bound_is_off_by_more_than_its_margin(config):
    t = tables(config, module.TILE, module.WIDE, module.TRIANGLES)
    blocks = np.random.default_rng(5).normal(size=(2, config.block))
    blocks /= np.abs(blocks).max(axis=1, keepdims=True)
    weights = aligned(2, t.words.shape[1])
    weights[:, : config.block] = blocks
    sums, energies = aligned(2, module.WIDE), aligned(2, module.TILE)
    found = np.full((2, config.lfsr.order), np.inf)
    for tile in range(len(t.seed) // module.TILE):
        module._energies(t, tile, weights[0], weights[1], sums, energies)
        seeds = t.seed[tile * module.TILE :][: module.TILE]
        # A slot of zeros says nothing: its seed comes once more.
        used = (seeds > 0) & energies.any(axis=0)
        assert not np.isfinite(found[:, seeds[used] - 1]).any()
        found[:, seeds[used] - 1] = energies[:, used]
    q, _ = np.linalg.qr(seedlm.bases(config, np.arange(1, config.lfsr.order + 1)))
    exact = ((blocks[:, None, None] @ q) ** 2).sum(axis=(2, 3))
    wrong = np.abs(found - exact).max(axis=1) / (blocks**2).sum(axis=1)
    assert (wrong < t.margin).all()
    # Float32, and nothing worse.
    assert (wrong < 1e-4).all()


def relative(config, blocks, **options):
    """The relative error of what the search finds."""
    wrong = seedlm.errors(config, blocks, *search(config, blocks, **options))
    return float(np.sqrt(wrong.sum() / (blocks**2).sum()))


def same(config, blocks, rule):
    found, expected = (run(config, blocks, rule=rule) for run in (search, seedlm.search))
    # What must hold: no error is above the literal one. What does hold: not a bit differs.
    np.testing.assert_array_equal(
        seedlm.errors(config, blocks, *found), seedlm.errors(config, blocks, *expected)
    )
    for ours, literal in zip(found, expected, strict=True):
        assert ours.dtype == literal.dtype
        np.testing.assert_array_equal(ours, literal)


@settings(deadline=None, max_examples=100)
@given(
    config=configs(),
    rule=st.sampled_from(RULES),
    kind=st.sampled_from(["normal", "integers", "sparse", "spread", "halves", "decoded"]),
    power=st.one_of(st.just(0), st.integers(-120, 120)),
    seed=st.integers(0, 2**32 - 1),
)
def test_fast_is_literal(config, rule, kind, power, seed):
    blocks = drawn(config, kind, 5, np.random.default_rng(seed)) * 2.0**power
    same(config, blocks, rule)


@settings(deadline=None)
@given(
    rule=st.sampled_from(RULES),
    blocks=st.lists(
        st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=5, max_size=5),
        min_size=1,
        max_size=4,
    ),
)
def test_fast_is_literal_on_any_floats(rule, blocks):
    same(SeedlmConfig(block=5, latent=3, width=7), np.array(blocks), rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bits", SEEDLM)
@pytest.mark.parametrize("word_bits", [0, 8])
def test_fast_is_literal_at_the_paper_s_sizes(bits, word_bits, rule):
    base = SEEDLM[bits]
    config = SeedlmConfig(
        block=base.block, latent=base.latent, width=base.width, word_bits=word_bits
    )
    rng = np.random.default_rng(bits)
    for kind in ("normal", "integers", "halves", "sparse"):
        same(config, drawn(config, kind, 3, rng), rule)


@pytest.mark.parametrize("rule", RULES)
def test_exponents_are_the_model_s_at_their_limits(rule):
    power = 2.0 ** np.arange(-8, 8)
    for limit in np.concatenate([7.5 * power, power]):
        for peak in (np.nextafter(limit, 0), limit, np.nextafter(limit, np.inf)):
            block, inverse, words = np.array([0.0, -peak]), np.eye(2), np.array([2, 0, 0, 2])
            _, place = _encode(
                block, inverse, words, seedlm.LIMITS[rule], power, power / 2, np.empty(2)
            )
            assert place - 8 == seedlm.exponent(rule, np.array([peak]))


def test_fast_is_literal_with_other_taps():
    same(
        SeedlmConfig(block=6, latent=2, width=7, taps=(0, 6)),
        np.random.default_rng(6).normal(size=(20, 6)),
        "fit",
    )


def test_blocks_do_not_depend_on_their_company():
    config = SEEDLM[4]
    blocks = np.random.default_rng(7).normal(size=(150, 8))
    blocks[[3, 70]] = 0
    whole = search(config, blocks)
    for cuts in ([1], [64], [65, 66], [31, 150]):
        parts = [search(config, part) for part in np.split(blocks, cuts)]
        for together, *apart in zip(whole, *parts, strict=True):
            np.testing.assert_array_equal(together, np.concatenate(apart))


def test_zeros_and_nothing():
    config = SEEDLM[4]
    assert [part.tolist() for part in search(config, np.zeros((1, 8)))] == [[1], [-8], [[0] * 3]]
    assert [part.shape for part in search(config, np.zeros((0, 8)))] == [(0,), (0,), (0, 3)]


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"^blocks must have shape \(n, 8\), not \(3, 7\)$"):
        search(SEEDLM[4], np.zeros((3, 7)))
    with pytest.raises(ValueError, match=r"^rule must be one of fit, paper, not 'least'$"):
        search(SEEDLM[4], np.zeros((3, 8)), rule="least")
    with pytest.raises(ValueError, match=r"^blocks must have shape \(n, 8\), not \(3, 7\)$"):
        block_floating_point(SEEDLM[4], np.zeros((3, 7)))


#: Relative errors of a full search on Gaussian weights.
ANCHORS = [(4, "fit", 0.123), (3, "fit", 0.226), (4, "paper", 0.191)]


@pytest.mark.parametrize(("bits", "rule", "anchor"), ANCHORS)
def test_error_on_gaussian_weights(bits, rule, anchor):
    config = SEEDLM[bits]
    blocks = np.random.default_rng(8).normal(0, 0.02, (6000, config.block))
    assert relative(config, blocks, rule=rule) == pytest.approx(anchor, rel=0.01)


@pytest.mark.parametrize("bits", SEEDLM)
def test_a_scaled_tensor_s_error_is_the_same_at_any_scale(bits):
    config = SEEDLM[bits]
    blocks = np.random.default_rng(9).normal(size=(400, config.block))
    errors = []
    for sigma in (1e-6, 1e-3, 0.02, 1.0, 1e3):
        weights = blocks * sigma
        peak = float(np.abs(weights).max())
        errors.append(relative(config, np.ldexp(weights, -tensor_scale(peak))))
    assert max(errors) < 1.02 * min(errors)
    # Without, small weights are below what the exponents reach.
    assert relative(config, blocks[:40] * 1e-3) > 1.5 * max(errors)


@given(peak=st.floats(0, 2.0**127, width=32))
def test_tensor_scale_puts_the_peak_between_64_and_128(peak):
    scale = tensor_scale(peak)
    assert scale == 0 if peak == 0 else 64 <= np.ldexp(peak, -scale) < 128


@pytest.mark.parametrize("kind", ["outlier", "rows"])
def test_tensor_scale_leaves_room_on_both_sides(kind):
    config, rng = SEEDLM[4], np.random.default_rng(10)
    blocks = rng.normal(size=(1000, 8))
    if kind == "outlier":
        blocks[0, 0] = 1000
    else:
        blocks *= 2.0 ** rng.uniform(-8, 0, (1000, 1))
    _, exponents, _ = search(config, np.ldexp(blocks, -tensor_scale(np.abs(blocks).max())))
    assert (exponents > -8).all()
    assert (exponents < 7).all()


@pytest.mark.parametrize(("bits", "levels"), [(4, 11), (3, 6)])
def test_block_floating_point_has_the_most_levels_of_its_bits(bits, levels):
    config = SEEDLM[bits]
    low = -(levels // 2)
    assert levels**config.block * 16 <= 1 << config.block_bits
    assert (levels + 1) ** config.block * 16 > 1 << config.block_bits
    rng = np.random.default_rng(11)
    steps = 2.0 ** rng.integers(-4, 8, (50, 1))
    exact = rng.integers(low, low + levels, (50, config.block)) * steps
    assert not block_floating_point(config, exact).any()
    # One level further is out of reach.
    exact[:, 0], exact[:, 1] = (low - 1) * steps[:, 0], low * steps[:, 0]
    assert block_floating_point(config, exact).all()


@settings(deadline=None, max_examples=40)
@given(config=configs(), seed=st.integers(0, 2**32 - 1))
def test_block_floating_point_errors_are_in_bounds(config, seed):
    assume(config.block_bits - 4 >= 2 * config.block)
    blocks = np.random.default_rng(seed).uniform(-1, 1, (10, config.block))
    levels = int(2 ** ((config.block_bits - 4) / config.block) + 1e-9)
    bits = (levels - 1).bit_length()
    # The least exponent whose levels reach -1 and 1 leaves half a step at most.
    step = min(
        step
        for step in 2.0 ** (np.arange(-8, 8) + 4 - bits)
        if step * ((levels - 1) // 2 + 0.5) >= 1
    )
    assert (block_floating_point(config, blocks) <= config.block * (step / 2) ** 2).all()


@pytest.mark.parametrize("bits", SEEDLM)
def test_seeds_buy_something(bits):
    config = SEEDLM[bits]
    blocks = np.random.default_rng(12).normal(size=(2000, config.block))
    plain = np.sqrt(block_floating_point(config, blocks).sum() / (blocks**2).sum())
    assert relative(config, blocks) < plain


def test_grid_is_the_paper_s_equation():
    found = grid(4, widths=range(4, 17))
    assert {(c.block, c.latent, c.width) for c in found} == {
        (1 + k + p, p, 4 * k) for k in range(1, 5) for p in range(1, 9)
    }
    assert all(config.bits_per_weight == 3 for config in grid(3))
    assert SEEDLM[3] in grid(3)
    with pytest.raises(ValueError, match=r"^no block has exactly 4 bits per weight"):
        grid(4, widths=[5])


def test_explore_orders_its_rows_and_plots_them(tmp_path):
    calls = []
    rows = explore(
        4, samples=40, widths=[4, 8], progress=lambda done, total: calls.append((done, total))
    )
    assert calls == [(k, 16) for k in range(1, 17)]
    errors = [row["relative_error"] for row in rows]
    assert errors == sorted(errors)
    assert rows[0]["ratio"] == 1
    assert rows[-1]["ratio"] == pytest.approx(errors[-1] / errors[0])
    assert not any(row["published"] for row in rows)
    plot(rows, tmp_path / "a.png")
    plot(rows[::-1], tmp_path / "b.png")
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert data == (tmp_path / "b.png").read_bytes()


def test_bench_counts_both_searches_on_as_many_processes():
    config = SeedlmConfig(block=8, latent=3, width=8)
    row = bench(config, jobs=2, seconds=0.01)
    assert row["same"]
    assert row["jobs"] == 2
    assert row["ratio"] == pytest.approx(row["fast"] / row["literal"])
    assert row["fast_one_process"] == pytest.approx(row["fast"] / 2)
    assert row["hours"] == pytest.approx(7e9 / 8 / row["fast"] / 3600)
    with pytest.raises(ValueError, match="rule must be one of"):
        bench(config, rule="none")
