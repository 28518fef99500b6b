"""Formats without seeds: tables by row and scales by group, there and back."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.cli.compress import configuration
from seedbed.flow.compress import run
from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError
from seedbed.flow.compress.clip import best_scales
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.kmeans import kmeans
from seedbed.flow.compress.packed import format_name
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.workers import processes
from seedbed.golden.packing import decode_groups, decode_lut4, encode_groups, encode_lut4
from seedbed.spec import TrellisConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

QUIET = Console(quiet=True)
CONFIGS = [GroupsConfig(group=32), GroupsConfig(group=128), Lut4Config()]
TRELLIS = TrellisConfig(state_bits=8)


def cost(values, weights, levels):
    return float((weights * ((values[:, None] - levels) ** 2).min(axis=1)).sum())


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.integers(-3, 3) | st.floats(-4, 4), min_size=1, max_size=7),
    count=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_kmeans_is_that_of_every_partition(values, count, seed):
    values = np.array(values, float)
    rng = np.random.default_rng(seed)
    weights = rng.random(len(values)) * (rng.random(len(values)) < 0.8)
    used = weights if weights.any() else np.ones(len(values))
    order = np.argsort(values)
    best = np.inf
    for inner in itertools.combinations_with_replacement(range(len(values) + 1), count - 1):
        total = 0.0
        for first, last in itertools.pairwise((0, *inner, len(values))):
            part, h = values[order[first:last]], used[order[first:last]]
            if h.sum() > 0:
                total += (h * (part - (h * part).sum() / h.sum()) ** 2).sum()
        best = min(best, total)
    levels = kmeans(values, weights, count)
    assert (np.diff(levels) >= 0).all()
    assert cost(values, used, levels) <= best + 1e-9


def test_sixteen_levels_on_gaussian_weights():
    """The distortion of the optimal quantizer, Max 1960: 0.00950 of the variance."""
    values = np.random.default_rng(3).normal(size=20_000)
    error = cost(values, np.ones(len(values)), kmeans(values, None, 16)) / (values**2).sum()
    assert error == pytest.approx(0.0095, rel=0.03)


@given(st.integers(0, 1000), st.integers(1, 40), st.integers(-120, 100))
def test_codes_are_those_of_the_nearest_level(seed, columns, power):
    rng = np.random.default_rng(seed)
    rows = np.ldexp(rng.normal(size=(3, columns)), power)
    levels = np.sort(np.ldexp(rng.normal(size=(3, 16)), power), axis=1)
    found = decode_lut4(Lut4Config(), encode_lut4(Lut4Config(), rows, levels), columns)
    nearest = np.abs(rows[..., None] - levels[:, None]).min(axis=-1)
    # A level of 14 bits is off by half a unit: of the peak's 2^-13, or of the least exponent.
    unit = np.maximum(np.abs(levels).max(axis=1, keepdims=True) * 2**-12, 2.0**-128)
    limit = nearest + unit
    assert (np.abs(found - rows) <= limit).all()


def test_zeros_are_zeros():
    rows = np.zeros((2, 5))
    packed = encode_lut4(Lut4Config(), rows, np.zeros((2, 16)))
    assert not decode_lut4(Lut4Config(), packed, 5).any()


def write(folder):
    rng = np.random.default_rng(5)
    tensors = {
        "a": rng.normal(size=(9, 301)).astype(np.float32),
        "b": rng.normal(size=(20, 8, 3, 3)).astype(ml_dtypes.bfloat16),
        "zero": np.zeros((4, 256), np.float16),
    }
    save_file(tensors | {"bias": np.ones(3, np.float32)}, folder / "in")
    return tensors


def compress(folder, config, *, size=1 << 15):
    options = Options(config=config)
    with processes(1) as pool:
        return run.compress(
            folder / "in", folder / "out", options, pool=pool, console=QUIET, size=size
        )


@pytest.mark.parametrize("size", [64, 1 << 15])
@pytest.mark.parametrize("config", [*CONFIGS, TRELLIS], ids=format_name)
def test_there_and_back(config, size, tmp_path):
    tensors = write(tmp_path)
    rows = {row.name: row for row in compress(tmp_path, config, size=size)}
    decompress(tmp_path / "out", tmp_path / "back", console=QUIET, size=size)
    found = load_file(tmp_path / "back")
    assert found.keys() == tensors.keys() | {"bias"}
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        before, after = tensor.astype(np.float64), found[name].astype(np.float64)
        squares = ((after - before) ** 2).sum(), (before**2).sum()
        error = np.sqrt(squares[0] / squares[1]) if squares[1] else 0
        assert rows[name].error == pytest.approx(error, rel=1e-2)
        assert rows[name].plain is None
        assert error < 0.14
    with Checkpoint(tmp_path / "out") as file:
        entry = file.tensors[f"a.{format_name(config)}"]
    count = -(-301 // config.block)
    assert entry.shape == (9, config.header + -(-count * config.block_bits // 8))
    assert rows["a"].bits == 8 * entry.nbytes / 2709


def test_errors_of_one_row_by_format(tmp_path):
    write(tmp_path)
    errors = [next(r.error for r in compress(tmp_path, c) if r.name == "a") for c in CONFIGS]
    # Of one 4-bit code and Gaussian rows: groups of 32, a table by row, groups of 128.
    assert errors[0] < errors[2] < errors[1]


@pytest.mark.parametrize("sign", [1, -1])
def test_codes_of_groups_come_back(sign, tmp_path):
    """Of both signs: -8 is a code, and 8 is one of a negative scale."""
    weights = (sign * np.arange(-8, 8)).repeat(2).reshape(1, 32).astype(np.float32)
    save_file({"w": weights * 3}, tmp_path / "in")
    compress(tmp_path, GroupsConfig())
    decompress(tmp_path / "out", tmp_path / "back", console=QUIET)
    assert load_file(tmp_path / "back")["w"].tolist() == (weights * 3).tolist()


def error_of_groups(groups, scales):
    """The errors of groups with given scales, there and back through the packed form."""
    config = GroupsConfig(group=groups.shape[1])
    packed = encode_groups(config, groups, scales[:, None])
    return ((decode_groups(config, packed, groups.shape[1]) - groups) ** 2).sum(axis=1)


@settings(deadline=None)
@given(
    kind=st.sampled_from(["normal", "laplace", "integers", "outlier", "equal", "zero"]),
    power=st.integers(-24, 10),
    seed=st.integers(0, 1000),
)
def test_best_clip_is_no_worse_than_none(kind, power, seed):
    rng = np.random.default_rng(seed)
    groups = rng.laplace(size=(8, 32)) if kind == "laplace" else rng.normal(size=(8, 32))
    if kind in ("integers", "equal"):
        groups = rng.integers(-8, 8, (8, 1 if kind == "equal" else 32)) + np.zeros((8, 32))
    if kind == "outlier":
        groups[:, 5] *= rng.choice([0, 10, 40, 100])
    groups = np.ldexp(groups if kind != "zero" else np.zeros((8, 32)), power)
    plain = np.abs(groups).max(axis=1) / 7
    # The first of the scales that are tried; sums of both are in another order.
    assert (error_of_groups(groups, best_scales(groups)) <= error_of_groups(groups, plain) * (
        1 + 1e-12)).all()  # fmt: skip


def test_the_largest_weights_of_a_float16_scale():
    groups = np.full((2, 32), 7 * 65504.0) * [[1], [-1]]
    assert error_of_groups(groups, best_scales(groups)).tolist() == [0, 0]


@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("outlier", [1, 15])
def test_best_clip_is_nearly_that_of_every_float16(group, outlier):
    rng = np.random.default_rng(7)
    every = np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    groups = rng.normal(size=(6, group))
    groups[:, 0] *= outlier
    found = error_of_groups(groups, best_scales(groups))
    for k in range(len(groups)):
        peak = np.abs(groups[k]).max()
        scales = every[(every > peak / 200) & (every < peak / 6)]
        scales = np.concatenate([scales, -scales])
        least = error_of_groups(np.repeat(groups[k : k + 1], len(scales), axis=0), scales).min()
        assert least <= found[k] * (1 + 1e-12)
        assert found[k] < 1.01 * least


@pytest.mark.parametrize(
    ("group", "error"),
    # A scale of max|w| / 7 gives 0.118 with groups of 128, and 0.097 with groups of 32.
    [(4096, 0.108), (128, 0.097), (32, 0.081)],
)
def test_best_clip_of_gaussian_weights(group, error):
    groups = np.random.default_rng(3).normal(size=((1 << 18) // group, group))
    scales = best_scales(groups).astype(np.float64)[:, None]
    wrong = groups - scales * np.rint(groups / scales).clip(-8, 7)
    assert np.sqrt((wrong**2).sum() / (groups**2).sum()) == pytest.approx(error, abs=0.001)


def test_a_scale_that_is_not_finite_is_refused(tmp_path):
    write(tmp_path)
    compress(tmp_path, GroupsConfig())
    with Checkpoint(tmp_path / "out", writable=True) as file:
        entry = file.tensors["a.groups"]
        file.write(entry.offset + 3 * entry.shape[1] + 18, b"\0\x7c")
    with pytest.raises(CheckpointError) as refused:
        decompress(tmp_path / "out", tmp_path / "back", console=QUIET)
    assert str(refused.value) == (
        f"{tmp_path}/out: tensor 'a', row 3, block 1: its scale is inf, which is not finite"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--format", "nf4"], "format must be one of seedlm, trellis, lut4, groups, not 'nf4'"),
        (["--format", "lut4", "--bits", "3"], "the format lut4 has 4 bits per code, not 3"),
        (["--format", "groups", "--group", "64"], "group must be 32 or 128, not 64"),
        (["--format", "lut4", "--group", "32"], "--group needs --format groups"),
        (["--bits", "4", "--group", "32"], "--group needs --format groups"),
        (["--format", "groups", "--word-bits", "8"], "--word-bits needs --format seedlm, not"),
        (["--format", "trellis", "--bits", "5"], "bits must be in 2..4, not 5"),
        (
            ["--format", "trellis", "--state-bits", "9"],
            "must be one of 8, 10, 12, not 9",
        ),
        (["--format", "trellis", "--group", "32"], "--group needs --format groups"),
        (["--format", "trellis", "--width", "9"], "--width needs --format seedlm, not trellis"),
        (["--bits", "4", "--state-bits", "8"], "--state-bits needs --format trellis"),
    ],
)
def test_options_of_another_format_are_refused(words, sentence, tmp_path, called):
    write(tmp_path)
    code, out, err = called(["compress", "in", "out", *words], tmp_path)
    assert (code, out) == (2, "")
    assert sentence in err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_at_the_command_line(tmp_path, called):
    write(tmp_path)
    for words, printed in (
        (["--format", "lut4"], "rows of codes of 4 bits with a table of 16 levels of 16 bits"),
        (
            ["--format", "trellis", "--bits", "2", "--state-bits", "10"],
            "rows of a trellis code of 2 bits with states of 10, 3 fields of 5",
        ),
        (["--format", "groups", "--group", "128"], "groups of 128 codes of 4 bits with a scale"),
    ):
        assert not called(["compress", "in", "out", *words, "--jobs", "1", "--force"], tmp_path)[0]
        code, out, _ = called(["inspect", "out"], tmp_path)
        assert code == 0
        assert printed in out
        code, _, err = called(["compress", "out", "more", *words], tmp_path)
        assert (code, "out is compressed already" in err) == (2, True)


def test_configurations():
    assert configuration(None, "groups") == GroupsConfig(group=32)
    assert configuration(4, "groups", 128) == GroupsConfig(group=128)
    assert configuration(4, "lut4") == Lut4Config()
    assert configuration(None, "trellis") == TrellisConfig(bits=4, state_bits=12)
    assert configuration(3, "trellis", state_bits=8) == TrellisConfig(bits=3, state_bits=8)
