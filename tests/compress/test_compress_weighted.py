"""The search with importance of input channels against the literal one, and in whole files."""

import json

import numpy as np
import pytest
from compressing import configs, drawn, interrupted
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import run, weighted
from seedbed.flow.compress import search as search_module
from seedbed.flow.compress.bench import bench_weighted
from seedbed.flow.compress.checkpoint import CheckpointError
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.packed import Weights
from seedbed.flow.compress.pieces import strips
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.search import search
from seedbed.flow.compress.tables import tables
from seedbed.flow.compress.weighted import weighted_search
from seedbed.flow.compress.workers import processes
from seedbed.golden import seedlm
from seedbed.spec import SEEDLM, SeedlmConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config
from seedbed.spec.seedlm import RULES

QUIET = Console(quiet=True)
SMALL = SeedlmConfig(block=4, latent=2, width=5)
SMALL_WORDS = ["--block", "4", "--latent", "2", "--width", "5"]
KINDS = ["normal", "integers", "sparse", "spread", "halves"]


def weights_of(config, kind, rng):
    if kind == "equal":
        return np.full(config.block, 4.0)
    if kind == "squares":
        return rng.integers(0, 4, config.block) ** 2.0
    if kind == "outlier":
        return np.where(np.arange(config.block) == rng.integers(config.block), 1e4, 1.0)
    if kind == "graded":
        return 10.0 ** rng.uniform(-12, 3, config.block)
    if kind == "one":
        return np.eye(config.block)[rng.integers(config.block)] * 3e38
    return rng.random(config.block) ** 8 * (rng.random(config.block) < 0.8) * 1e-12


def same(config, blocks, weights, rule):
    found = weighted_search(config, blocks, weights, rule=rule)
    expected = seedlm.search(config, blocks, rule=rule, weights=weights)
    for ours, literal in zip(found, expected, strict=True):
        assert ours.dtype == literal.dtype
        np.testing.assert_array_equal(ours, literal)


@settings(deadline=None, max_examples=60)
@given(
    config=configs(),
    rule=st.sampled_from(RULES),
    kind=st.sampled_from(KINDS),
    by=st.sampled_from(["equal", "squares", "any", "outlier", "graded", "one"]),
    power=st.one_of(st.just(0), st.integers(-120, 120)),
    seed=st.integers(0, 2**32 - 1),
)
def test_fast_is_literal(config, rule, kind, by, power, seed):
    rng = np.random.default_rng(seed)
    blocks = drawn(config, kind, 5, rng) * 2.0**power
    same(config, blocks, weights_of(config, by, rng), rule)


@pytest.mark.parametrize("bits", SEEDLM)
def test_fast_is_literal_at_the_paper_s_sizes(bits):
    config, rng = SEEDLM[bits], np.random.default_rng(bits)
    blocks = np.concatenate([drawn(config, kind, 2, rng) for kind in KINDS[:3]])
    same(config, blocks, np.exp(rng.normal(size=config.block) * 2), "fit")


@pytest.mark.parametrize("by", ["outlier", "graded", "one"])
def test_fast_is_literal_for_columns_that_matter_more(by):
    """More blocks than a batch, so that pseudo-inverses of earlier ones are used."""
    config, rng = SEEDLM[4], np.random.default_rng(7)
    blocks = np.concatenate([drawn(config, kind, 34, rng) for kind in KINDS[:2]])
    same(config, blocks, weights_of(config, by, rng), "fit")


@pytest.mark.parametrize("config", [SeedlmConfig(width=11), SeedlmConfig(width=9, latent=6)])
@pytest.mark.parametrize("by", ["equal", "outlier", "graded"])
def test_no_bound_is_off_by_more_than_its_margin(config, by):
    rng = np.random.default_rng(5)
    h = seedlm.normalized(config, weights_of(config, by, rng))
    roots = np.sqrt(h)
    t = tables(config, search_module.TILE, search_module.WIDE, search_module.TRIANGLES)
    t, margins = weighted._weighted_tables(config, t, h, roots)
    assert (t.words.dtype == np.float64) == (by != "equal")
    targets = rng.normal(size=(2, config.block)) * roots
    targets /= np.abs(targets).max(axis=1, keepdims=True)
    scratch = weighted._scratch(t)
    scratch.scaled[:2, : config.block] = targets
    # Exactly: twice orthogonalized in more than float64.
    q = (roots[:, None] * seedlm.bases(config, np.arange(1, 1 + config.lfsr.order))).astype(
        np.longdouble
    )
    for p in range(config.latent):
        for k in [*range(p), *range(p)]:
            q[:, :, p] -= (q[:, :, k] * q[:, :, p]).sum(axis=1, keepdims=True) * q[:, :, k]
        q[:, :, p] /= np.sqrt((q[:, :, p] ** 2).sum(axis=1, keepdims=True))
    exact = (np.einsum("nc,scp->nsp", targets, q) ** 2).sum(axis=2)
    compared = 0
    for tile, margin in enumerate(margins):
        pair = scratch.scaled[0], scratch.scaled[1]
        search_module._energies(t, tile, *pair, scratch.sums, scratch.energies)
        seeds = t.seed[tile * search_module.TILE :][: search_module.TILE]
        used = (seeds > 0) & scratch.energies.any(axis=0)
        wrong = np.abs(scratch.energies[:, used] - exact[:, seeds[used] - 1])
        assert (wrong < margin * (targets**2).sum(axis=1, keepdims=True)).all()
        compared += used.sum()
    assert compared == config.lfsr.order
    # Much less than what an outlier leaves of |D w|^2.
    assert margins[0] < (1e-3 if by == "equal" else 1e-6)


def test_equal_weights_are_no_weights():
    blocks = np.random.default_rng(2).normal(size=(70, 8))
    weighted = weighted_search(SEEDLM[4], blocks, np.full(8, 9.0))
    for ours, plain in zip(weighted, search(SEEDLM[4], blocks), strict=True):
        np.testing.assert_array_equal(ours, plain)


def test_the_weighted_error_is_smaller_and_the_plain_one_larger():
    rng = np.random.default_rng(3)
    blocks, weights = rng.normal(size=(300, 8)), np.exp(rng.normal(size=8))
    errors = []
    for found in (weighted_search(SEEDLM[4], blocks, weights), search(SEEDLM[4], blocks)):
        wrong = (seedlm.decode(SEEDLM[4], *found) - blocks) ** 2
        errors.append(((wrong * weights).sum(), wrong.sum()))
    assert errors[0][0] < 0.9 * errors[1][0]
    assert errors[0][1] > errors[1][1]


@pytest.mark.parametrize("which", [weighted_search, lambda c, b, w: seedlm.search(c, b, weights=w)])
@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.ones(3), r"^weights must have shape \(4,\), not \(3,\)$"),
        (np.array([1, 1, 1, -1.0]), r"^weights must be finite, and 0 or more$"),
        (np.array([1, 1, 1, np.inf]), r"^weights must be finite, and 0 or more$"),
    ],
)
def test_bad_weights_are_refused(which, weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        which(SMALL, np.zeros((2, 4)), weights)


@pytest.mark.parametrize("outlier", [1.0, 1e4])
def test_bench_compares_the_same_blocks(outlier):
    config = SeedlmConfig(block=8, latent=3, width=8)
    row = bench_weighted(config, rows=40, few=9, outlier=outlier)
    assert row["same"]
    assert row["ratio"] == pytest.approx(row["fast"] / row["literal"])


def test_strips_cover_a_tensor_once():
    weights = Weights((37, 90), "F16")
    seen, packed = np.zeros((37, 90), int), np.zeros(weights.entry(SMALL).shape, int)
    for piece in strips(SMALL, "w", weights, 320):
        row, column = piece.first
        seen[row : row + piece.rows, column : column + piece.columns] += 1
        assert piece.plain == 2 * (row * 90 + column)
        first = piece.packed - row * packed.shape[1]
        packed[row : row + piece.rows, first : first + piece.row_bytes(SMALL)] += 1
    assert (seen == 1).all()
    assert (packed == 1).all()


def write(folder, seed=1):
    rng = np.random.default_rng(seed)
    save_file(
        {
            "a": rng.normal(size=(30, 70)).astype(np.float32),
            "b": rng.normal(size=(9, 5, 2)).astype(np.float16),
        },
        folder / "in",
    )
    stats = {"a": np.exp(rng.normal(size=70) * 2).astype(np.float32), "other": np.ones(3)}
    save_file(stats, folder / "stats")
    return stats["a"].astype(np.float64)


def compress(folder, target="out", *, jobs=1, size=100, **options):
    options = {"config": SMALL, "importance": folder / "stats"} | options
    with processes(jobs) as pool:
        return run.compress(
            folder / "in", folder / target, Options(**options), pool=pool, console=QUIET, size=size
        )


def errors(folder, weights):
    decompress(folder / "out", folder / "back", console=QUIET)
    before, after = load_file(folder / "in"), load_file(folder / "back")
    wrong = (before["a"].astype(np.float64) - after["a"]) ** 2
    return (wrong * weights).sum(), wrong.sum()


@pytest.mark.parametrize("config", [SMALL, Lut4Config()], ids=["seedlm", "lut4"])
def test_files_with_importance(config, tmp_path):
    weights = write(tmp_path)
    compress(tmp_path, config=config)
    weighted = errors(tmp_path, weights)
    rows = compress(tmp_path, config=config, importance=None)
    plain = errors(tmp_path, weights)
    assert weighted[0] < 0.9 * plain[0]
    assert weighted[1] > plain[1]
    assert rows[0].name == "a"


def test_blocks_of_a_file_are_those_of_the_model(tmp_path):
    weights = write(tmp_path)
    compress(tmp_path)
    decompress(tmp_path / "out", tmp_path / "back", console=QUIET)
    tensor = load_file(tmp_path / "in")["a"].astype(np.float64)
    # The scale of the tensor, and what is after the end of a row counts nothing.
    scale = int(np.frexp(np.abs(tensor).max())[1]) - 7
    padded = np.zeros((30, 72))
    padded[:, :70] = np.ldexp(tensor, -scale)
    h = np.append(weights, [0, 0])
    for k in range(18):
        part = slice(4 * k, 4 * k + 4)
        found = seedlm.search(SMALL, padded[:, part], weights=h[part])
        padded[:, part] = seedlm.decode(SMALL, *found)
    wanted = np.ldexp(padded[:, :70], scale).astype(np.float32)
    assert load_file(tmp_path / "back")["a"].tobytes() == wanted.tobytes()


def test_processes_and_an_interruption_make_no_difference(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.setattr("seedbed.flow.compress.pieces.strips.__defaults__", (320,))
    compress(tmp_path, "wanted")
    compress(tmp_path, "two", jobs=2)
    with monkeypatch.context() as patch:
        patch.setattr(run, "results", interrupted(run.results, 5))
        with pytest.raises(KeyboardInterrupt):
            compress(tmp_path)
    with pytest.raises(ValueError, match="with another importance; remove it"):
        compress(tmp_path, importance=None)
    compress(tmp_path)
    for name in ("two", "out"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "wanted").read_bytes()


@pytest.mark.parametrize(
    ("stats", "sentence"),
    [
        ({"a": np.ones(69)}, "stats: tensor 'a' is of F64 in the shape [69], but the importance"),
        ({"a": np.ones(69, np.float32)}, "but the importance of its columns is of F32, F16, BF16 "
         "in [70]"),
        ({"b": np.full(10, -1, np.float32)}, "stats: tensor 'b': the importance of column 0 is "
         "-1.0, but it must be finite, and 0 or more"),
        ({"a": np.zeros(70, np.float32)}, "stats: tensor 'a': the importance of all columns is 0"),
        ({"c": np.ones(70, np.float32)}, "stats has the importance of none of the compressed"),
    ],
)  # fmt: skip
def test_importance_that_does_not_fit_is_refused(stats, sentence, tmp_path):
    write(tmp_path)
    save_file(stats, tmp_path / "stats")
    with pytest.raises(CheckpointError) as refused:
        compress(tmp_path)
    assert sentence in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "stats"]


def test_groups_take_no_importance():
    with pytest.raises(ValueError, match=r"^rounding to nearest in groups takes no importance$"):
        Options(config=GroupsConfig(), importance="stats")


@pytest.mark.parametrize("form", ["vector", "matrix"])
@pytest.mark.parametrize("more", [SMALL_WORDS, ["--format", "lut4"]], ids=["seedlm", "lut4"])
def test_a_dry_run_with_every_option(form, more, tmp_path, called):
    weights = write(tmp_path)
    if form == "matrix":
        rows = np.random.default_rng(4).normal(size=(90, 70)) * np.sqrt(weights)
        save_file({"a": (rows.T @ rows).astype(np.float32)}, tmp_path / "stats")
    words = ["compress", "in", "out", *more, "--importance", "stats", "--json"]
    dry = json.loads(called([*words, "--dry-run", "--cluster", "nowhere"], tmp_path)[1])
    found = json.loads(called([*words, "--jobs", "1"], tmp_path)[1])
    # So few weights are all in the sample; their squares are summed in another order.
    wanted = [row for row in found if row["tensor"] != "total"]
    for row, of in zip(dry["tensors"], wanted, strict=True):
        if of["relative_error"] is not None:
            of["relative_error"] = pytest.approx(of["relative_error"], rel=1e-12)
        assert row == of
    assert dry["sampled"] == dry["blocks"]
    assert dry["blocks_per_second"] > 0
    assert dry["processes"] == 1
