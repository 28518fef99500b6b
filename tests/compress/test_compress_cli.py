"""Checkpoints at the command line: what is printed, what is refused, what is left behind."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from interrupting import heed
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.cli.compress import configuration
from seedbed.flow.compress import workers
from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.run import compress
from seedbed.flow.compress.workers import processes
from seedbed.spec import SEEDLM, SeedlmConfig

CLI = [sys.executable, "-c", "from seedbed.flow.cli.app import main; main()"]
SMALL = ["--block", "4", "--latent", "2", "--width", "5"]


def run(*words, cwd, **how):
    return subprocess.run(
        [*CLI, *words],
        cwd=cwd,
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        **how,
    )


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    tensors = {
        "[bold]w": rng.normal(size=(40, 30)).astype(np.float32),
        "v": rng.normal(size=(8, 16)).astype(np.float16),
        "column": np.ones((9, 1), np.float16),
        "bias": np.ones(3),
    }
    save_file(tensors, tmp_path / "in")
    return tmp_path


def test_there_and_back(folder):
    done = run("compress", "in", "out", *SMALL, "--jobs", "1", cwd=folder)
    # A slow machine has progress lines there.
    lines = [line for line in done.stderr.splitlines() if "%" not in line]
    assert (done.returncode, lines) == (0, [])
    # 8 blocks of 17 bits for 30 weights, in 17 bytes.
    for words in (
        ["[bold]w", "40 x 30", "F32", "4.533"],
        ["v", "8 x 16", "4.500"],
        ["column", "9 x 1", "F16", "16.000", "not compressed: blocks need 24.000"],
        ["total"],
    ):
        assert any(all(word in line for word in words) for line in done.stdout.splitlines())
    done = run("inspect", "out", cwd=folder)
    assert done.returncode == 0
    for words in (["[bold]w", "40 x 30", "F32", "320", "680", "4.533"], ["bias", "unchanged"]):
        assert any(all(word in line for word in words) for line in done.stdout.splitlines())
    assert "Version 4: blocks of 4 weights in 17 bits, 2 coefficients" in done.stdout
    done = run("decompress", "out", "back", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    before, after = load_file(folder / "in"), load_file(folder / "back")
    for name, tensor in before.items():
        assert (after[name].dtype, after[name].shape) == (tensor.dtype, tensor.shape)
    assert sorted(path.name for path in folder.iterdir()) == ["back", "in", "out"]


@pytest.fixture
def refuse(folder, called):
    """Return a check that a command line is refused, in this process, with one sentence."""

    def check(words, sentence):
        refused(*called(words, folder), sentence)

    return check


def refused(code, out, err, sentence):
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1


def spoil(folder, change):
    """Put a file called ``bad`` there, compressed and then changed."""
    with processes(1) as pool:
        options = Options(config=SeedlmConfig(block=4, latent=2, width=5))
        console = Console(quiet=True)
        compress(folder / "in", folder / "bad", options, pool=pool, console=console)
    (folder / "bad").write_bytes(change((folder / "bad").read_bytes()))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["compress", "in", "out"], "give --bits, one of 3, 4, or else also --block and --latent"),
        (["compress", "in", "out", "--bits", "5"], "bits must be one of 3, 4, not 5"),
        (["compress", "in", "out", *SMALL[:4]], "or else also --width"),
        (["compress", "in", "out", *SMALL, "--width", "30"], "width must be in 3..20, not 30"),
        (["compress", "in", "out", *SMALL, "--word-bits", "9"], "word_bits must be in 2..5, not 9"),
        (["compress", "in", "out", *SMALL, "--rule", "luck"], "rule must be one of fit, paper"),
        (["compress", "in", "out", *SMALL, "--scale", "2"], "scale must be one of auto, none"),
        (["compress", "in", "out", *SMALL, "--jobs", "0"], "'--jobs': Input should be greater"),
        (["compress", "in", "out", *SMALL, "--tensors", "x*"], "none whose name matches 'x*'"),
        (["compress", "in", "out", *SMALL, "--jobs", "2", "--cluster", "tcp://localhost:1"],
         "give --jobs or --cluster, not both"),
        (["compress", "none", "out", *SMALL], "none: No such file"),
        (["compress", ".", "out", *SMALL], ". has neither an index *.safetensors.index.json nor"),
        (["compress", "in", "in", *SMALL], "in is the input itself; the output must be another"),
        (["compress", "in", ".", *SMALL], ".: Is a directory"),
        (["compress", "in", "none/out", *SMALL], "none: No such directory"),
        (["compress", "in", "in/out", *SMALL], "in: No such directory"),
        (["decompress", "in", "out"], "in was not written by 'seedbed compress'"),
        (["decompress", "none", "out"], "none: No such file"),
        (["inspect", "in"], "in was not written by 'seedbed compress'"),
    ],
)  # fmt: skip
def test_refusal_is_one_sentence(words, sentence, folder, refuse):
    if "--jobs" not in words and "--cluster" not in words and words[0] == "compress":
        words = [*words, "--jobs", "1"]
    refuse(words, sentence)
    assert [path.name for path in folder.iterdir()] == ["in"]


@pytest.mark.parametrize("command", ["decompress", "inspect"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda raw: raw[:-1], "bad is not a complete safetensors file: "),
        (lambda raw: raw.replace(rb"\"version\": 4", rb"\"version\": 7"), "has version 7 of the"),
        (lambda raw: raw.replace(b'"U8"', b'"I8"'), "tensor '[bold]w' is packed in I8, but blocks"),
        (lambda raw: raw.replace(b"[40, 30]", b"[41, 30]"), "in the shape [40, 17], but [41, 30]"),
    ],
)
def test_spoilt_files_are_refused(command, change, sentence, folder, refuse):
    spoil(folder, change)
    refuse([command, "bad", *["out"] * (command == "decompress")], sentence)
    assert sorted(path.name for path in folder.iterdir()) == ["bad", "in"]


def test_zero_seed_is_refused(folder, refuse):
    # The file ends with v's last row, four blocks of 17 bits in 9 bytes.
    spoil(folder, lambda raw: raw[:-9] + bytes(9))
    refuse(["decompress", "bad", "out"], "bad: tensor 'v', row 7, block 0: its seed is 0")
    assert sorted(path.name for path in folder.iterdir()) == ["bad", "in"]


def test_other_types_are_listed(refuse, folder):
    tensors = {f"layer{k}": np.ones((4, 4)) for k in range(4)}
    save_file(tensors | {"codes": np.ones((4, 4), np.int8)}, folder / "other")
    listed = "'codes' of I8 in [4, 4], 'layer0' of F64 in [4, 4], 'layer1' of F64 in [4, 4], "
    for words in (["compress", "other", "out", *SMALL], ["sensitive", "other", "--by", "random"]):
        refuse(words, f"; it has {listed}'layer2' of F64 in [4, 4], 1 more\n")
    save_file({}, folder / "nothing")
    refuse(["compress", "nothing", "out", *SMALL], "; it has no tensors\n")


def test_groups_without_a_scale_have_a_largest_weight(folder, refuse, called):
    words = ["compress", "large", "out", "--format", "groups", "--jobs", "1", "--scale", "none"]
    weights = np.ones((8, 64), np.float32)
    weights[3, 4] = 5e5
    save_file({"w": weights}, folder / "large")
    for more in ([], ["--dry-run"]):
        refuse([*words, *more], "tensor 'w': its largest weight is 500000, but groups with --scale")
    weights[3, 4] = 7 * 65504
    save_file({"w": weights}, folder / "large")
    assert called(words, folder)[0] == 0
    assert called(["decompress", "out", "back"], folder)[0] == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_a_character_spoils_nothing(encoding, folder):
    save_file({"\u6743\u91cd": np.ones((8, 16), np.float32)}, folder / "\u5165")
    environment = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "200"}
    for words in (["compress", "\u5165", "out", *SMALL], ["inspect", "out"]):
        done = subprocess.run([*CLI, *words], cwd=folder, env=environment, capture_output=True,
                              check=True)  # fmt: skip
        assert b"\\u6743\\u91cd" in done.stdout
    done = subprocess.run(
        [*CLI, "inspect", "\u5165"], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: \\u5165 was not written by 'seedbed compress'")


def test_a_reader_that_leaves_spoils_nothing(folder):
    read, write = os.pipe()
    os.close(read)
    words = [*CLI, "compress", "in", "out", *SMALL]
    done = subprocess.run(words, cwd=folder, stdout=write, stderr=subprocess.PIPE, check=True)
    os.close(write)
    assert done.stderr == b""
    assert (folder / "out").exists()


def test_a_full_standard_output_is_named(folder):
    with open("/dev/full", "w") as full:
        words = [*CLI, "list", "--names"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (
        2, b"error: standard output: No space left on device\n",
    )  # fmt: skip


def test_full_disk(folder):
    spoil(folder, lambda raw: raw)
    for words in (["compress", "in", "out", *SMALL, "--jobs", "1"], ["decompress", "bad", "out"]):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))  # noqa: E731
        done = run(*words, cwd=folder, preexec_fn=limit)
        refused(done.returncode, done.stdout, done.stderr, "File too large")
        assert "out" in done.stderr
        assert sorted(path.name for path in folder.iterdir()) == ["bad", "in"]


def test_an_output_that_is_there_stays(folder, called):
    (folder / "out").write_text("mine")
    compressed = ["compress", "in", "out", *SMALL, "--jobs", "1"]
    for words in (compressed, ["decompress", "in", "out"]):
        refused(*called(words, folder), "out exists already; --force overwrites it")
    assert (folder / "out").read_text() == "mine"
    assert not called([*compressed, "--force"], folder)[0]
    assert not called(["decompress", "out", "in", "--force"], folder)[0]


def test_files_have_the_permissions_of_a_users_file(folder):
    """Read by a group where the user's mask allows it; the library's own are read by nobody."""
    mask = lambda: os.umask(0o027)  # noqa: E731
    assert not run("compress", "in", "out", *SMALL, cwd=folder, preexec_fn=mask).returncode
    assert not run("decompress", "out", "back", cwd=folder, preexec_fn=mask).returncode
    assert [(folder / name).stat().st_mode & 0o777 for name in ("out", "back")] == [0o640] * 2


def test_no_more_processes_than_pieces(folder, called, monkeypatch):
    begun = []

    @contextmanager
    def processes(jobs):
        begun.append(jobs)
        with here(1) as pool:
            yield pool

    here = workers.processes
    monkeypatch.setattr(workers, "processes", processes)
    for words in (["none", "out"], ["in", "out", "--tensors", "x*"]):
        assert called(["compress", *words, *SMALL, "--jobs", "40"], folder)[0] == 2
    assert begun == []
    assert not called(["compress", "in", "out", *SMALL, "--jobs", "40"], folder)[0]
    # One for each of both tensors.
    assert begun == [2]


def test_a_dry_run_tells_what_the_run_would(folder, called):
    words = ["compress", "in", "out", *SMALL, "--jobs", "1", "--json"]
    code, out, err = called([*words, "--dry-run"], folder)
    assert (code, err) == (0, "")
    assert [path.name for path in folder.iterdir()] == ["in"]
    found = json.loads(out)
    rows = {row["tensor"]: row for row in found["tensors"]}
    wanted = {row["tensor"]: row for row in json.loads(called(words, folder)[1])}
    assert wanted.pop("total")
    # So few weights are all in the sample.
    assert rows == wanted
    assert found["sampled"] == found["blocks"] == 40 * 8 + 8 * 4
    sizes = [sum(entry.nbytes for entry in entries(folder / name)) for name in ("in", "out")]
    assert [found["source_bytes"], found["target_bytes"]] == sizes
    assert found["seconds"] == pytest.approx(found["blocks"] / found["blocks_per_second"])


def entries(path):
    with Checkpoint(path) as file:
        return file.tensors.values()


def test_a_dry_run_in_words(folder, called):
    """Of a part of a larger tensor, whose error is about that of the whole."""
    weights = np.random.default_rng(1).normal(size=(4096, 64)).astype(np.float32)
    save_file({"w": weights}, folder / "large")
    words = ["compress", "large", "out", *SMALL, "--jobs", "1"]
    code, out, err = called([*words, "--dry-run"], folder)
    assert (code, err) == (0, "")
    assert "1,048,576 bytes of tensors would become 139,264 (13.3 %)." in out
    assert "The search of 65,536 blocks would take about " in out
    assert "estimated from 16,384 blocks. Nothing was written." in out
    (row,) = json.loads(called([*words, "--dry-run", "--json"], folder)[1])["tensors"]
    (whole,) = json.loads(called([*words, "--json"], folder)[1])
    assert row["relative_error"] == pytest.approx(whole["relative_error"], rel=0.02)


def test_inspect_as_json(folder, called):
    called(["compress", "in", "out", *SMALL, "--jobs", "1"], folder)
    found = json.loads(called(["inspect", "out", "--json"], folder)[1])
    assert (found["version"], found["rule"], found["configuration"]["block"]) == (4, "fit", 4)
    rows = {row["tensor"]: row for row in found["compressed"]}
    assert (rows["[bold]w"]["shape"], rows["[bold]w"]["bytes"]) == ([40, 30], 680)
    assert {row["tensor"] for row in found["unchanged"]} == {"bias", "column"}


def test_interrupted_from_the_keyboard(tmp_path):
    weights = np.random.default_rng(1).normal(size=(256, 1024)).astype(np.float32)
    save_file({"w": weights}, tmp_path / "in")
    words = [*CLI, "compress", "in", "out", "--block", "8", "--latent", "3", "--width", "13"]
    started = subprocess.Popen(
        [*words, "--jobs", "2"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed,
    )
    journal = tmp_path / "out.journal"
    while not journal.exists() or journal.read_bytes().count(b"\n") < 2:
        assert started.poll() is None
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGINT)
    printed = started.communicate()[1].strip()
    assert (started.returncode, printed) == (130, "interrupted: finished work is kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.journal", "out.part"]
    done = run(*words[len(CLI) :], cwd=tmp_path)
    assert done.returncode == 0
    assert "resuming: " in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


#: As the installed command is, which every worker loads again.
SCRIPT = """
from seedbed.flow.cli.app import main

if __name__ == "__main__":
    main()
"""


def test_interrupted_before_there_is_anything(folder):
    (folder / "script").write_text(SCRIPT)
    started = subprocess.Popen(
        [sys.executable, "script", "compress", "in", "out", *SMALL, "--jobs", "2"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed,
    )
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children")

    def maps():
        return [Path(f"/proc/{pid}/maps").read_text() for pid in children.read_text().split()]

    # In the middle of what a worker imports.
    while not any("numpy" in text for text in maps()):
        assert started.poll() is None
        time.sleep(0.001)
    os.killpg(started.pid, signal.SIGINT)
    printed = started.communicate()[1]
    assert (started.returncode, printed) == (130, "interrupted: finished work is kept\n")
    assert sorted(path.name for path in folder.iterdir()) == ["in", "script"]


def test_configuration():
    assert configuration(4) == SEEDLM[4]
    assert configuration(3, width=None, word_bits=8) == SeedlmConfig(
        block=12, latent=4, width=16, word_bits=8
    )
    assert configuration(None, block=4, latent=2, width=5) == SeedlmConfig(
        block=4, latent=2, width=5
    )


def test_exploring_gives_a_table_and_a_plot(tmp_path, monkeypatch):
    # The real grid takes minutes; its figures have tests of their own.
    script = """
from functools import partial
from seedbed.flow.compress import explore
explore.explore = partial(explore.explore, widths=(4, 5, 6))
from seedbed.flow.cli.app import main
main()
"""
    words = [sys.executable, "-c", script, "explore", "--bits", "4", "--samples", "10"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "relative error" in done.stdout
    plot = tmp_path / "build" / "explore" / "seedlm_4_paper.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert str(plot.relative_to(tmp_path)) in done.stdout
