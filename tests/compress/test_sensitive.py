"""Masks of sensitive weights against a plain sort of everything in memory."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress.checkpoint import CheckpointError
from seedbed.flow.compress.mask import KEY, read_mask
from seedbed.flow.compress.sensitive import Spectrum, sensitive
from seedbed.flow.compress.workers import SERIAL, Pool, processes, results_in_order

QUIET = Console(quiet=True)
SHAPES = {"b": (40, 30), "a": (7, 2, 5), "c": (1, 9)}


def write(folder, kind="normal", seed=1):
    rng = np.random.default_rng(seed)
    dtypes = {"a": np.float16, "b": np.float32, "c": ml_dtypes.bfloat16}
    files = []
    for name in ("in", "grad"):
        tensors = {}
        for tensor, shape in SHAPES.items():
            values = rng.normal(size=shape) * (1 if tensor == "b" else 3)
            if kind == "ties":
                values = rng.integers(-2, 3, shape)
            tensors[tensor] = values.astype(dtypes[tensor])
        files.append(tensors)
        tensors = tensors | {"bias": np.ones(5, np.float32), "ids": np.ones((2, 2), np.int32)}
        save_file(tensors, folder / name)
    return files


def sorted_by(tensors, count):
    """The largest magnitudes of all tensors, the first of equals: as a sort says."""
    keys = [
        (-abs(float(value)), name, k)
        for name in sorted(tensors)
        for k, value in enumerate(tensors[name].ravel())
    ]
    chosen = sorted(keys)[:count]
    return {name: sorted(k for _, n, k in chosen if n == name) for name in tensors}


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(["normal", "ties"]),
    by=st.sampled_from(["gradient", "magnitude"]),
    fraction=st.floats(0.001, 1),
    chunk=st.sampled_from([7, 100, 1 << 20]),
    seed=st.integers(0, 1000),
)
def test_mask_is_that_of_a_sort(kind, by, fraction, chunk, seed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mask")
    weights, gradients = write(folder, kind, seed)
    result = sensitive(
        folder / "in", folder / "grad", folder / "mask", fraction=fraction, by=by, console=QUIET,
        chunk=chunk,
    )  # fmt: skip
    count = round(fraction * 1279)
    wanted = sorted_by(gradients if by == "gradient" else weights, count)
    shapes, found = read_mask(folder / "mask")
    assert shapes == SHAPES
    assert {name: indices.tolist() for name, indices in found.items()} == wanted
    squares = {n: g.astype(np.float64).ravel() ** 2 for n, g in gradients.items()}
    for row in result.rows[:-1]:
        share = squares[row.name][wanted[row.name]].sum() / max(squares[row.name].sum(), 1e-9)
        assert (row.kept, row.shape) == (len(wanted[row.name]), SHAPES[row.name])
        assert row.share == pytest.approx(share)
    inside = sum(squares[name][wanted[name]].sum() for name in squares)
    assert result.rows[-1].kept == count
    assert result.rows[-1].share == pytest.approx(inside / sum(s.sum() for s in squares.values()))


def test_random_mask_needs_no_gradients_and_is_uniform(tmp_path):
    save_file({"w": np.zeros((100, 100), np.float32)}, tmp_path / "in")
    found = {}
    for seed, chunk in ((1, 1 << 20), (1, 333), (2, 1 << 20)):
        sensitive(tmp_path / "in", None, tmp_path / "mask", fraction=0.1, by="random", seed=seed,
                  console=QUIET, chunk=chunk)  # fmt: skip
        found.setdefault(seed, []).append(read_mask(tmp_path / "mask")[1]["w"])
    assert found[1][0].tolist() == found[1][1].tolist() != found[2][0].tolist()
    assert len(found[1][0]) == 1000
    # Of 1000 in ten bins: the standard deviation of a bin is 9.
    assert np.abs(np.bincount(found[1][0] // 1000, minlength=10) - 100).max() < 50


@pytest.mark.parametrize("by", ["gradient", "random"])
def test_workers_change_nothing(by, tmp_path):
    write(tmp_path, "ties")

    def select(name, pool):
        found = sensitive(tmp_path / "in", tmp_path / "grad", tmp_path / name, fraction=0.3, by=by,
                          pool=pool, console=QUIET, chunk=100)  # fmt: skip
        return found.rows, (tmp_path / name).read_bytes(), found.spectrum.cumulative()[1].tolist()

    wanted = select("serial", SERIAL)
    with processes(2) as pool:
        assert select("two", pool) == wanted
        values = np.full((40, 30), np.nan, np.float32)
        save_file({"w": values}, tmp_path / "bad")
        with pytest.raises(CheckpointError, match="bad: tensor 'w': the value at 0 is not finite"):
            sensitive(tmp_path / "bad", None, tmp_path / "mask", by="magnitude", pool=pool,
                      console=QUIET, chunk=100)  # fmt: skip


def test_results_are_in_the_order_of_the_tasks():
    with ThreadPoolExecutor(4) as executor:
        pool = Pool(executor, 4)
        taken = []

        def tasks():
            for k in range(9):
                taken.append(k)
                yield k

        found = results_in_order(pool, lambda k: sleep(0.01 * (k % 3 == 0)) or k, tasks())
        assert next(found) == 0
        assert len(taken) == 4
        assert list(found) == list(range(1, 9))


def test_cumulative_gradient_of_known_values():
    spectrum = Spectrum(np.array([90, 0, 9, 1]), np.array([0.0, 0.0, 9.0, 27.0]))
    assert spectrum.share(0.01) == pytest.approx(0.75)
    assert spectrum.share(0.055) == pytest.approx(0.875)
    assert spectrum.share(1) == 1
    assert Spectrum(np.array([3, 0]), np.zeros(2)).share(0.5) == 0


def refuse(folder, sentence, **options):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        sensitive(folder / "in", folder / "grad", folder / "mask", console=QUIET, **options)
    assert not (folder / "mask").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"b": None}, "grad has no gradient of tensor 'b'"),
        ({"b": np.zeros((30, 40), np.float32)},
         "grad: tensor 'b' is of the shape [30, 40], but [40, 30] in "),
        ({"b": np.zeros((40, 30), np.int8)}, "grad: tensor 'b' is of I8; allowed are F32, F16"),
        ({"c": np.full((1, 9), np.inf, np.float32)}, "tensor 'c': the value at 0 is not finite"),
    ],
)  # fmt: skip
def test_gradients_that_do_not_fit_are_refused(changes, sentence, tmp_path):
    _, gradients = write(tmp_path)
    gradients = {n: t for n, t in (gradients | changes).items() if t is not None}
    save_file(gradients, tmp_path / "grad")
    refuse(tmp_path, sentence)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fraction": 0.0}, "fraction must be above 0 and at most 1, not 0.0"),
        ({"fraction": 1.5}, "fraction must be above 0 and at most 1, not 1.5"),
        ({"fraction": 0.0001}, "a fraction of 0.0001 of 1279 weights is no weight"),
        ({"by": "luck"}, "by must be one of gradient, magnitude, random, not 'luck'"),
        ({"tensors": "x*"}, "none whose name matches 'x*' has two dimensions or more"),
    ],
)
def test_bad_options_are_refused(options, sentence, tmp_path):
    write(tmp_path)
    refuse(tmp_path, sentence, **options)


@pytest.mark.parametrize(
    ("indices", "sentence"),
    [
        (np.array([3, 3], np.int32), "tensor 'w': entry 1 is the index 3 after 3, but indices"),
        (np.array([3, 2], np.int32), "tensor 'w': entry 1 is the index 2 after 3, but indices"),
        (np.array([0, 6], np.int32), "tensor 'w': entry 1 is the index 6, not one of 0..5"),
        (np.array([-1], np.int32), "tensor 'w': entry 0 is the index -1, not one of 0..5"),
        (np.array([1], np.int64), "tensor 'w' is of I64 in the shape [1], but a mask has a vector"),
        (np.array([[1]], np.int32), "tensor 'w' is of I32 in the shape [1, 1], but a mask has"),
    ],
)
def test_masks_that_are_no_masks_are_refused(indices, sentence, tmp_path):
    document = {"version": 1, "made": {}, "shapes": {"w": [2, 3]}}
    save_file({"w": indices}, tmp_path / "mask", metadata={KEY: json.dumps(document)})
    with pytest.raises(CheckpointError) as refused:
        read_mask(tmp_path / "mask")
    assert str(refused.value).startswith(f"{tmp_path}/mask: {sentence}")


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({}, "mask was not written by 'seedbed sensitive'"),
        ({KEY: "["}, "mask: its metadata is not JSON"),
        ({KEY: "[" * 100_000}, "mask: its metadata is not JSON"),
        ({KEY: "3"}, "mask has version None of the mask format, but 1 can be read"),
        ({KEY: '{"version": 2}'}, "mask has version 2 of the mask format, but 1 can be read"),
        ({KEY: '{"version": 1}'}, "mask: its metadata lacks the shapes of its tensors"),
        ({KEY: '{"version": 1, "shapes": {"w": [0]}}'}, "mask: its metadata lacks the shapes"),
        ({KEY: '{"version": 1, "shapes": {"v": [2]}}'}, "mask: tensor 'v' is not both in the"),
    ],
)
def test_metadata_of_no_mask_is_refused(metadata, sentence, tmp_path):
    save_file({"w": np.zeros(0, np.int32)}, tmp_path / "mask", metadata=metadata)
    with pytest.raises(CheckpointError) as refused:
        read_mask(tmp_path / "mask")
    assert str(refused.value).startswith(f"{tmp_path}/{sentence}")


def test_the_command(tmp_path, called):
    write(tmp_path)
    words = ["sensitive", "in", "grad", "-o", "mask", "--fraction", "0.01"]
    code, out, err = called([*words, "--plot", "plot.png"], tmp_path)
    assert (code, err) == (0, "")
    assert "40 x 30" in out
    assert "Of the squared gradient, the top 0.1 % have " in out
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert sum(map(len, load_file(tmp_path / "mask").values())) == 13
    assert called(words, tmp_path)[2] == "error: mask exists already; --force overwrites it\n"
    code, out, _ = called([*words, "--force", "--json"], tmp_path)
    assert code == 0
    found = json.loads(out)
    assert found["tensors"][-1]["kept"] == 13
    assert found["squared_gradient"][2]["share"] > found["squared_gradient"][0]["share"] > 0
    code, out, _ = called(
        ["sensitive", "in", "--by", "random", "-o", "other", "--jobs", "2"], tmp_path
    )
    assert code == 0
    assert "squared gradient, the top" not in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["in", "-o", "mask"], "the mask by gradient needs a file of gradients"),
        (["in", "-o", "mask", "--plot", "p", "--by", "random"], "--plot needs GRADIENTS"),
        (["in", "grad", "-o", "in", "--force"], "in is the input itself; the output must be"),
        (["in", "grad", "-o", "grad", "--force"], "grad is the input itself; the output must"),
        (["none", "grad", "-o", "mask"], "none: No such file"),
        (["in", "grad", "-o", "mask", "--jobs", "2", "--cluster", "a"], "give --jobs or --cluster"),
    ],
)
def test_refusals_of_the_command(words, sentence, tmp_path, called):
    write(tmp_path)
    code, out, err = called(["sensitive", *words], tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert sentence in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grad", "in"]
