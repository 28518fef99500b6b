"""Weights kept in 16 bits beside the blocks: there and back, and masks that do not fit."""

import json

import ml_dtypes
import numpy as np
import pytest
from compressing import interrupted
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import run
from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.kept import quantize
from seedbed.flow.compress.mask import write_mask
from seedbed.flow.compress.packed import KEPT
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.workers import processes
from seedbed.spec import SeedlmConfig

QUIET = Console(quiet=True)
SMALL = SeedlmConfig(block=4, latent=2, width=5)
TYPES = {"a": np.float16, "b": np.float32, "c": ml_dtypes.bfloat16}
SHAPES = {"a": (7, 2, 5), "b": (40, 30), "c": (2, 90)}
#: Relative errors of one rounding, and what of the largest number is left by ``int16``.
ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8, "int16": 0.0}


def write(folder, seed=1, power=0):
    rng = np.random.default_rng(seed)
    tensors = {n: np.ldexp(rng.normal(size=s), power).astype(TYPES[n]) for n, s in SHAPES.items()}
    save_file(tensors | {"bias": np.ones(3, np.float32)}, folder / "in")
    return tensors


def masked(folder, indices, shapes=SHAPES):
    indices = {n: np.array(indices.get(n, []), np.int64) for n in shapes}
    write_mask(folder / "mask", shapes, indices, {})


def compress(folder, target="out", *, size=64, **options):
    with processes(1) as pool:
        return run.compress(
            folder / "in", folder / target,
            Options(**{"config": SMALL, "keep": folder / "mask"} | options),
            pool=pool, console=QUIET, size=size,
        )  # fmt: skip


def exact(path):
    return {n: t.astype(np.float64).ravel() for n, t in load_file(path).items()}


@settings(max_examples=25, deadline=None)
@given(
    kept=st.sampled_from(sorted(KEPT)),
    fraction=st.sampled_from([0.01, 0.3, 1.0]),
    size=st.sampled_from([32, 64, 10_000]),
    power=st.sampled_from([0, -9, 5]),
    seed=st.integers(0, 1000),
)
def test_kept_weights_are_the_originals_within_16_bits(
    kept, fraction, size, power, seed, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("kept")
    tensors = write(folder, seed, power)
    rng = np.random.default_rng(seed)
    chosen = {n: np.flatnonzero(rng.random(t.size) < fraction) for n, t in tensors.items()}
    masked(folder, chosen)
    compress(folder, size=size, keep_as=kept)
    compress(folder, "plain", size=size, keep=None)
    for name in ("out", "plain"):
        decompress(folder / name, folder / f"{name}.back", console=QUIET, size=size)
    before, after = exact(folder / "in"), exact(folder / "out.back")
    plain = exact(folder / "plain.back")
    for name, places in chosen.items():
        others = np.setdiff1d(np.arange(before[name].size), places)
        # Nothing else is touched.
        assert np.array_equal(after[name][others], plain[name][others])
        dtype = ml_dtypes.finfo(TYPES[name])
        wrong = np.abs(before[name] - after[name])[places]
        most = np.abs(before[name] - plain[name])[places]
        # The blocks were rounded for ``plain``, and the sum is rounded once.
        most = most + np.abs(plain[name][places]) * float(dtype.eps)
        limit = ROUNDING[kept] * most + most.max(initial=0) * 2**-15
        limit += np.abs(before[name][places]) * float(dtype.eps) + float(dtype.smallest_subnormal)
        assert (wrong <= limit).all()


@given(
    st.lists(st.floats(-1e30, 1e30).filter(lambda x: x == 0 or abs(x) > 1e-60), min_size=1),
    st.sampled_from(sorted(KEPT)),
)
def test_differences_are_in_range(values, kept):
    values = np.array(values)
    scale, found = quantize(values, kept)
    back = np.ldexp(found.astype(np.float64), scale)
    assert np.isfinite(back).all()
    peak = np.abs(values).max()
    assert (np.abs(back - values) <= ROUNDING[kept] * np.abs(values) + 2**-15 * peak).all()


def test_an_int16_that_would_round_up_to_the_next_power(tmp_path):
    assert quantize(np.array([32767.75, 1.0]), "int16")[1].tolist() == [16384, 0]
    assert quantize(np.array([-32767.25]), "int16")[1].tolist() == [-32767]
    assert quantize(np.zeros(2), "int16")[1].tolist() == [0, 0]


def test_summary_has_all_bits_and_the_smaller_error(tmp_path):
    write(tmp_path)
    chosen = {"b": np.arange(0, 1200, 10)}
    masked(tmp_path, chosen)
    rows = {row.name: row for row in compress(tmp_path)}
    plain = {row.name: row for row in compress(tmp_path, "plain", keep=None)}
    with Checkpoint(tmp_path / "out") as read:
        sizes = {n: e.nbytes for n, e in read.tensors.items() if n.startswith("b.")}
    assert set(sizes) == {"b.seedlm", "b.kept.index", "b.kept.value", "b.kept.scale"}
    assert rows["b"].bits == 8 * sum(sizes.values()) / 1200
    assert rows["a"] == plain["a"]
    decompress(tmp_path / "out", tmp_path / "back", console=QUIET)
    before, after = exact(tmp_path / "in")["b"], exact(tmp_path / "back")["b"]
    error = np.sqrt(((before - after) ** 2).sum() / (before**2).sum())
    assert rows["b"].error == pytest.approx(error, rel=1e-5)
    assert rows["b"].error < 0.99 * plain["b"].error
    assert rows["b"].plain == plain["b"].plain


def test_an_interruption_makes_no_difference(tmp_path, monkeypatch):
    write(tmp_path)
    masked(tmp_path, {"b": [5, 70], "c": [179]})
    compress(tmp_path, "wanted")
    with monkeypatch.context() as patch:
        patch.setattr(run, "results", interrupted(run.results, 9))
        with pytest.raises(KeyboardInterrupt):
            compress(tmp_path)
    masked(tmp_path, {"b": [5, 71], "c": [179]})
    with pytest.raises(ValueError, match="with another kept weights; remove it"):
        compress(tmp_path)
    masked(tmp_path, {"b": [5, 70], "c": [179]})
    compress(tmp_path)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "wanted").read_bytes()


@pytest.mark.parametrize(
    ("indices", "shapes", "options", "sentence"),
    [
        ({"x": [1]}, {"x": (2, 2)}, {}, "mask: the mask keeps weights of tensor 'x', which is not "
         "in "),
        ({"a": [1]}, {"a": (70, 1)}, {"tensors": "b"}, "tensor 'a' in the shape [70, 1], but it"),
        ({"b": [1]}, {"b": (30, 40)}, {}, "tensor 'b' in the shape [30, 40], but it is [40, 30]"),
    ],
)  # fmt: skip
def test_masks_that_do_not_fit_are_refused(indices, shapes, options, sentence, tmp_path):
    write(tmp_path)
    masked(tmp_path, indices, shapes)
    with pytest.raises(CheckpointError) as refused:
        compress(tmp_path, **options)
    assert sentence in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "mask"]


@pytest.mark.parametrize(
    ("part", "values", "sentence"),
    [
        ("index", np.array([3, 3], np.int32),
         "entry 1 is the index 3 after 3, but indices must increase"),
        ("index", np.array([3, 1200], np.int32), "entry 1 is the index 1200, not one of 0..1199"),
        ("value", np.array([1, np.inf], np.float16), "entry 1 is inf, not finite"),
        ("scale", np.array([301], np.int32),
         "their scale must be an integer in -300..300, not 301"),
    ],
)  # fmt: skip
def test_kept_weights_that_cannot_be_are_refused(part, values, sentence, tmp_path):
    write(tmp_path)
    masked(tmp_path, {"b": [3, 9]})
    compress(tmp_path)
    with Checkpoint(tmp_path / "out", writable=True) as file:
        file.write(file.tensors[f"b.kept.{part}"].offset, values.tobytes())
    with pytest.raises(CheckpointError) as refused:
        decompress(tmp_path / "out", tmp_path / "back", console=QUIET)
    assert str(refused.value) == f"{tmp_path}/out: tensor 'b', kept weights: {sentence}"
    assert not (tmp_path / "back").exists()


def test_weights_of_tensors_that_are_copied_need_not_be_kept(tmp_path, called):
    """What one command writes, the next one takes: a mask is of tensors that may not shrink."""
    tensors = write(tmp_path)
    # Blocks of four weights would be larger than a column of two bytes.
    tensors |= {"column": np.full((9, 1), 99, np.float16), "b": tensors["b"] + 50}
    save_file(tensors, tmp_path / "in")
    mask = ["sensitive", "in", "--by", "magnitude", "-o", "mask", "--fraction", "0.05"]
    assert called(mask, tmp_path)[0] == 0
    count = round(0.05 * (1450 + 9))
    words = ["compress", "in", "out", "--block", "4", "--latent", "2", "--width", "5", "--keep",
             "mask", "--jobs", "1", "--json"]  # fmt: skip
    line = (
        f"9 of the {count} weights of mask are in tensors that are not compressed: "
        "they need not be kept\n"
    )
    dry, found = (called([*words, *more], tmp_path) for more in (["--dry-run"], []))
    assert (dry[0], dry[2]) == (found[0], found[2]) == (0, line)
    sizes = [[row["bits_per_weight"] for row in json.loads(of[1])["tensors"]] for of in [dry]]
    assert sizes == [[r["bits_per_weight"] for r in json.loads(found[1]) if r["tensor"] != "total"]]
    kept = json.loads(called(["inspect", "out", "--json"], tmp_path)[1])["compressed"]
    assert sum(row["kept"] for row in kept) == count - 9
    assert called(["decompress", "out", "back"], tmp_path)[0] == 0
    np.testing.assert_array_equal(load_file(tmp_path / "back")["column"], tensors["column"])
    # Also where a tensor is copied because the user wants it, and with nothing left to keep.
    selected = [*words, "--tensors", "a", "--force"]
    assert called(selected, tmp_path)[2].startswith(f"{count} of the {count} weights of mask")
    # What was decompressed is a checkpoint like the first.
    again = ["sensitive", "back", "--by", "magnitude", "-o", "second", "--fraction", "0.05"]
    assert called(again, tmp_path)[0] == 0
    words[1:3] = ["back", "twice"]
    assert called([*words, "--keep", "second"], tmp_path)[0] == 0


def test_at_the_command_line(tmp_path, called):
    write(tmp_path)
    assert not called(["sensitive", "in", "in", "-o", "mask", "--fraction", "0.05"], tmp_path)[0]
    words = ["compress", "in", "out", "--block", "4", "--latent", "2", "--width", "5",
             "--jobs", "1", "--keep", "mask", "--json"]  # fmt: skip
    dry = json.loads(called([*words, "--dry-run"], tmp_path)[1])
    rows = json.loads(called([*words, "--keep-as", "int16"], tmp_path)[1])
    assert [row["bits_per_weight"] for row in dry["tensors"]] == [
        row["bits_per_weight"] for row in rows[:-1]
    ]
    found = json.loads(called(["inspect", "out", "--json"], tmp_path)[1])
    assert found["kept"] == "int16"
    assert sum(row["kept"] for row in found["compressed"]) == round(0.05 * 1450)
    sizes = [row["bits_per_weight"] for row in found["compressed"]]
    assert sizes == [row["bits_per_weight"] for row in rows[:-1]]
    assert [row["tensor"] for row in found["unchanged"]] == ["bias"]
    code, _, err = called([*words, "--keep-as", "int8", "--force"], tmp_path)
    assert code == 2
    assert "keep_as must be one of float16, bfloat16, int16, not 'int8'" in err
    code, _, err = called([*words, "--force", "--keep", "in"], tmp_path)
    assert (code, "in was not written by 'seedbed sensitive'" in err) == (2, True)
