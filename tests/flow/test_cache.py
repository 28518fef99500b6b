import errno
import json
import os
from pathlib import Path

import pytest

from seedbed.flow.run.cache import code, definitions, memo

ROOT = Path(__file__).parents[2]

KEY = {"verilog": "abc", "seed": 1, "taps": (0, 1)}


class Counted:
    """Gives a new number every time that it is called."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"call": self.calls, "pair": (1, 2)}


@pytest.fixture
def compute():
    return Counted()


def test_the_second_call_returns_what_the_first_did(tmp_path, compute):
    first = memo(tmp_path / "new", "synth", KEY, compute)
    assert first == {"call": 1, "pair": [1, 2]}
    assert memo(tmp_path / "new", "synth", KEY, compute) == first
    assert compute.calls == 1
    assert [p.suffix for p in (tmp_path / "new").iterdir()] == [".json"]


@pytest.mark.parametrize(
    ("kind", "key"),
    [("place", KEY), ("synth", {**KEY, "seed": 2}), ("synth", {"verilog": "abc", "seed": 1})],
)
def test_another_kind_or_key_is_another_entry(tmp_path, compute, kind, key):
    memo(tmp_path, "synth", KEY, compute)
    assert memo(tmp_path, kind, key, compute)["call"] == 2
    assert memo(tmp_path, "synth", KEY, compute)["call"] == 1


def test_the_order_of_a_key_does_not_matter(tmp_path, compute):
    memo(tmp_path, "synth", KEY, compute)
    memo(tmp_path, "synth", dict(reversed(KEY.items())), compute)
    assert compute.calls == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "null",
        lambda text: "[" * 100_000,
        lambda text: json.dumps({**json.loads(text), "key": {"verilog": "another"}}),
        lambda text: json.dumps({**json.loads(text), "result": None}),
        lambda text: text.encode().replace(b"abc", b"\xff\xfe"),
    ],
)
def test_a_damaged_entry_is_computed_again(tmp_path, compute, damage):
    memo(tmp_path, "synth", KEY, compute)
    (path,) = tmp_path.iterdir()
    bad = damage(path.read_text())
    path.write_bytes(bad.encode() if isinstance(bad, str) else bad)
    assert memo(tmp_path, "synth", KEY, compute)["call"] == 2
    assert memo(tmp_path, "synth", KEY, compute)["call"] == 2


def test_nothing_is_kept_of_a_computation_that_fails(tmp_path, compute):
    def fails():
        raise RuntimeError("the tool broke")

    with pytest.raises(RuntimeError, match="the tool broke"):
        memo(tmp_path, "synth", KEY, fails)
    assert list(tmp_path.iterdir()) == []
    assert memo(tmp_path, "synth", KEY, compute)["call"] == 1


def test_a_full_disk_keeps_nothing_and_names_the_file(tmp_path, compute, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device") as refused:
            memo(tmp_path, "synth", KEY, compute)
    assert refused.value.filename.startswith(str(tmp_path / "synth-"))
    assert list(tmp_path.iterdir()) == []
    assert memo(tmp_path, "synth", KEY, compute)["call"] == 2


def test_a_result_whose_files_are_gone_is_computed_again(tmp_path, compute):
    assert memo(tmp_path, "synth", KEY, compute, is_valid=lambda result: False)["call"] == 1
    assert memo(tmp_path, "synth", KEY, compute, is_valid=lambda result: result["call"] != 1)[
        "call"
    ] == 2  # fmt: skip
    assert memo(tmp_path, "synth", KEY, compute, is_valid=lambda result: True)["call"] == 2


def test_code_holds_what_a_module_imports():
    """Modules that are imported from a package count as much as names from a module."""
    text = code("seedbed.flow.fpga.place")
    for path in (
        "flow/fpga/targets.py",
        "flow/fpga/harness.py",
        "flow/run/files.py",
        "sim/tools.py",
    ):
        assert (ROOT / path).read_text() in text
    assert (ROOT / "studies/zo.py").read_text() not in text
    assert (ROOT / "spec/gf2.py").read_text() in code("seedbed.hw.generators.lfsr")


def test_a_configuration_does_not_depend_on_those_beside_it():
    text = code("seedbed.hw.generators.urng_array")
    assert "class UrngConfig" in text
    assert "class LfsrConfig" in text
    assert "class PoolConfig" not in text


def test_definitions_are_those_that_are_used():
    text = definitions("seedbed.boards.top", "Top")
    for name in ("class Top", "class HostLink(", "class RegisterBank(", "class Sdram(", "COMMON ="):
        assert name in text
    # The host's part of a module, and what a definition only calls by another name.
    for name in ("def require_memory", "class Device", "def table", "class WordMerger"):
        assert name not in text
    assert definitions("seedbed.boards.top", "nothing") == ""
