"""The synthetic checkpoint whose compression is timed, and what is measured of it."""

import json

import ml_dtypes
import pytest
from safetensors.numpy import load_file

from seedbed.flow.compress.shards import open_checkpoint
from seedbed.studies import throughput


def test_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "ROWS", 3)
    paths = throughput.write(tmp_path, 5 * 64 * 2, 2, columns=64)
    assert [path.name for path in paths] == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    ]  # fmt: skip
    with open_checkpoint(tmp_path) as read:
        shapes = {name: entry.shape for name, entry in read.tensors.items()}
    assert shapes == {f"block.{s}.{k}.weight": (3 - k, 64) for s in (0, 1) for k in (0, 1)}
    values = load_file(paths[1])["block.1.0.weight"]
    assert values.dtype == ml_dtypes.bfloat16
    # Gaussian, with the deviation of a matrix of 64 inputs.
    assert values.astype(float).std() == pytest.approx(1 / 8, rel=0.2)


def test_what_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(throughput, "COLUMNS", 256)
    found = throughput.measure(
        tmp_path, weights=1 << 12, shards=2, formats=["groups of 128"], jobs=(1,)
    )
    assert json.loads((tmp_path / "throughput.json").read_text()) == found
    (row,) = found["rows"]
    assert list(row) == [
        "format", "weights_per_second_1", "peak_mib_1", "estimate_seconds", "estimate_mib",
    ]  # fmt: skip
    assert not (tmp_path / "packed.safetensors").exists()


def test_a_command_that_fails(tmp_path):
    with pytest.raises(RuntimeError, match=r"inspect .*none ended with status 2"):
        throughput._run("inspect", tmp_path / "none")
