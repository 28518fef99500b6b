"""Methods to compare: published errors, all bits, feedback by a linear system, kept weights."""

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import methods
from seedbed.flow.compress.clip import best_scales, nearest
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.methods import METHODS, gaussian_levels, outliers
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.run import compress
from seedbed.flow.compress.workers import SERIAL
from seedbed.spec import SeedlmConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

QUIET = Console(quiet=True)
SMALL = SeedlmConfig(block=4, latent=2, width=5)


def apply(method, weights, moments=None, fraction=0.0):
    method = METHODS[method] if isinstance(method, str) else method
    return method(weights, moments, outliers(weights, fraction))


def moments_of(columns, seed=1):
    """Second moments of correlated inputs."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(4 * columns, columns)) @ rng.normal(size=(columns, columns))
    return inputs.T @ inputs / len(inputs) + 0.01 * columns * np.eye(columns)


def test_levels_are_those_of_max():
    """J. Max, Quantizing for minimum distortion, 1960, Table I, N = 16: eight of the levels."""
    published = [0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733]
    levels = gaussian_levels()
    assert np.allclose(levels[8:], published, atol=1e-3)
    assert np.allclose(levels, -levels[::-1])


@pytest.mark.parametrize(
    ("method", "bits", "error"),
    [
        ("groups of 32", 4.5, 0.081),
        ("groups of 128", 4.125, 0.097),
        ("scale a row", 4 + 16 / 4096, 0.108),
        ("Lloyd-Max, scale a row", 4 + 16 / 4096, 0.098),
        ("lut4", 4 + 264 / 4096, 0.097),
        ("SeedLM, 4 bits", 4, 0.1233),
    ],
)
def test_errors_of_gaussian_weights(method, bits, error):
    weights = np.random.default_rng(2).normal(0, 0.02, (12, 4096)).astype(np.float32)
    found = apply(method, weights)
    assert found.bits == bits
    assert found.error(weights) == pytest.approx(error, abs=0.001)


def test_a_fixed_table_is_scaled_by_row():
    weights = np.random.default_rng(3).normal(size=(40, 256)).astype(np.float32)
    sizes = np.exp(np.random.default_rng(4).normal(0, 3, (40, 1))).astype(np.float32)
    errors = [apply("Lloyd-Max, scale a row", w).error(w) for w in (weights, weights * sizes)]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_is_surprised_by_zeros(name):
    weights = np.zeros((3, 40), np.float32)
    assert not apply(name, weights).weights.any()
    weights[1, 7] = 1e-20
    assert np.isfinite(apply(name, weights, moments_of(40)).weights).all()


@pytest.mark.parametrize("levels", [None, gaussian_levels()], ids=["codes", "levels"])
@pytest.mark.parametrize("group", [None, 8])
def test_feedback_is_that_of_a_linear_system(group, levels):
    """Each column is rounded to the target that makes the cost of the errors so far least."""
    columns = 20
    weights = np.random.default_rng(5).normal(size=(6, columns)).astype(np.float32)
    moments = moments_of(columns)
    found = apply(methods._Codes(methods._scale(levels), 16, group), weights, moments)
    original, wanted = weights.astype(np.float64), np.zeros(weights.shape)
    for c in range(columns):
        errors = (original - wanted)[:, :c]
        change = errors @ moments[:c, c:] @ np.linalg.inv(moments[c:, c:])
        targets = original[:, c:] + change
        if c % (group or columns) == 0:
            scales = best_scales(targets[:, : group or columns], levels).astype(np.float64)
        wanted[:, c] = nearest(targets[:, :1], scales, levels)[:, 0] * scales
    assert np.allclose(found.weights, wanted, rtol=1e-3, atol=0)


@pytest.mark.parametrize("name", [name for name in METHODS if "SeedLM" not in name])
def test_feedback_lowers_the_cost(name):
    weights = np.random.default_rng(6).normal(size=(16, 160)).astype(np.float32)
    moments = moments_of(160)
    costs = []
    for used in (None, moments):
        errors = apply(name, weights, used).weights - weights
        costs.append((errors @ moments * errors).sum())
    assert costs[1] < 0.75 * costs[0]


def test_outliers_are_large_in_their_row():
    weights = np.random.default_rng(7).normal(size=(10, 50)).astype(np.float32)
    weights[3] *= 100
    weights[[2, 3], [4, 5]] *= [20, 30]
    assert np.argwhere(outliers(weights, 0.004)).tolist() == [[2, 4], [3, 5]]
    assert not outliers(weights, 0).any()
    assert not outliers(np.zeros((2, 3)), 0).any()


@pytest.mark.parametrize("method", ["groups of 32", "lut4", methods._Packed(SMALL)], ids=str)
def test_kept_weights_come_back(method):
    rng = np.random.default_rng(8)
    weights = rng.normal(size=(20, 48)).astype(np.float32)
    weights[rng.integers(20, size=9), rng.integers(48, size=9)] *= 30
    none, some = (apply(method, weights, None, fraction) for fraction in (0, 0.01))
    kept = outliers(weights, 0.01)
    assert some.bits == pytest.approx(none.bits + 48 * kept.sum() / kept.size)
    assert np.abs(some.weights - weights)[kept].max() <= 2**-11 * np.abs(weights).max()
    assert some.error(weights) < none.error(weights)


def test_a_scale_is_that_of_the_weights_that_are_not_kept():
    weights = np.random.default_rng(8).normal(size=(20, 200)).astype(np.float32)
    plain = apply("scale a row", weights).error(weights)
    weights[np.arange(20), np.arange(20)] *= 1000
    assert apply("scale a row", weights, None, 0.005).error(weights) < plain / 10


def test_feedback_makes_up_for_errors_until_a_kept_weight():
    """A kept weight is stored as it is wanted in its turn, so that it lowers the cost further."""
    weights = np.random.default_rng(8).normal(size=(30, 64)).astype(np.float32)
    moments = moments_of(64)
    costs = []
    for fraction in (0, 0.02):
        errors = apply("groups of 32", weights, moments, fraction).weights - weights
        costs.append((errors @ moments * errors).sum())
    assert costs[1] < 0.9 * costs[0]


@pytest.mark.parametrize("feedback", [False, True])
def test_packed_methods_are_the_files(feedback, tmp_path):
    weights = np.random.default_rng(9).normal(size=(70, 30)).astype(np.float32)
    save_file({"w": weights}, tmp_path / "in")
    moments = None
    if feedback:
        moments = moments_of(30).astype(np.float32)
        moments = (moments + moments.T) / 2
        save_file({"w": moments}, tmp_path / "stats")
        moments = moments.astype(np.float64)
    for config in (SMALL, GroupsConfig(), Lut4Config()):
        if feedback and config is not SMALL:
            continue
        options = Options(config=config, importance=tmp_path / "stats" if feedback else None)
        (row,) = compress(tmp_path / "in", tmp_path / "out", options, pool=SERIAL, console=QUIET)
        decompress(tmp_path / "out", tmp_path / "back", console=QUIET)
        found = apply(methods._Packed(config), weights, moments)
        assert found.bits == row.bits
        restored = load_file(tmp_path / "back")["w"]
        assert found.weights.astype(np.float32).tolist() == restored.tolist()


def test_methods_without_blocks_are_those_of_the_files():
    """A scale or a table of each group: also where the last group is not padded."""
    weights = np.random.default_rng(10).normal(size=(5, 256)).astype(np.float32)
    for name, config in (
        ("groups of 32", GroupsConfig()),
        ("groups of 128", GroupsConfig(group=128)),
        ("lut4", Lut4Config()),
    ):
        found, packed = apply(name, weights), apply(methods._Packed(config), weights)
        assert found.bits == packed.bits
        assert np.allclose(found.weights, packed.weights, rtol=1e-3)


def test_a_row_has_at_most_so_many_outliers():
    weights = np.ones((3, 50))
    weights[1, [4, 9, 30]] = 9, 8, 7
    weights[2, 5] = 3
    assert np.argwhere(outliers(weights, 4 / 150)).tolist() == [[1, 4], [1, 9], [1, 30], [2, 5]]
    found = np.argwhere(outliers(weights, 3 / 150, most=2)).tolist()
    assert found == [[1, 4], [1, 9], [2, 5]]
    assert outliers(weights, 1.0, most=2).sum(axis=1).tolist() == [2, 2, 2]
