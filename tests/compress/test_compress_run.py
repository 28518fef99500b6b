"""Whole runs: the same bytes however the work is spread and wherever it was interrupted."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor
from itertools import islice
from random import Random

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import run
from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.packed import KEY
from seedbed.flow.compress.pieces import encode
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.workers import Pool, processes
from seedbed.spec import SeedlmConfig

QUIET = Console(quiet=True)
SMALL = SeedlmConfig(block=4, latent=2, width=5)
#: Weights a piece, and how many pieces the checkpoint below has of that.
SIZE, PIECES = 64, 32


def shuffled(seed, left=10**6):
    """Return what finishes pieces in random order, and is interrupted after ``left`` of them."""

    def results(pool, work, tasks):
        random, tasks, done = Random(seed), iter(tasks), 0
        while batch := list(islice(tasks, 4)):
            random.shuffle(batch)
            for key, task in batch:
                if done == left:
                    raise KeyboardInterrupt
                done += 1
                yield key, work(task)

    return results


def compress(source, target, *, pool=None, results=None, size=SIZE, **options):
    options = Options(**{"config": SMALL} | options)
    with pytest.MonkeyPatch.context() as patch, processes(1) as here:
        if results is not None:
            patch.setattr(run, "results", results)
        return run.compress(source, target, options, pool=pool or here, console=QUIET, size=size)


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    rng = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("checkpoint") / "in"
    tensors = {
        "a.weight": rng.normal(0, 0.02, (30, 10)).astype(np.float32),
        "b.weight": rng.normal(0, 3, (2, 3, 100)).astype(ml_dtypes.bfloat16),
        "c.weight": rng.normal(0, 1e-3, (64, 16)).astype(np.float16),
        "a.bias": rng.normal(size=10).astype(np.float32),
        "ids": np.arange(12).reshape(3, 4),
        "empty": np.zeros((0, 4), np.float32),
    }
    save_file(tensors, path, metadata={"format": "pt", "by": "me"})
    return path


@pytest.fixture(scope="session")
def wanted(source):
    """What a run in one go gives."""
    compress(source, source.with_name("wanted"))
    return source.with_name("wanted").read_bytes()


def test_compressed_and_decompressed(source, wanted, tmp_path):
    (tmp_path / "a").write_bytes(wanted)
    decompress(tmp_path / "a", tmp_path / "b", console=QUIET)
    before, after = load_file(source), load_file(tmp_path / "b")
    summaries = {row.name: row for row in compress(source, tmp_path / "c")}
    assert summaries.keys() == {"a.weight", "b.weight", "c.weight", "total"}
    wrong = energy = 0
    for name, tensor in before.items():
        assert (after[name].dtype, after[name].shape) == (tensor.dtype, tensor.shape)
        if name not in summaries:
            assert after[name].tobytes() == tensor.tobytes()
            continue
        exact, found = tensor.astype(np.float64), after[name].astype(np.float64)
        squares = ((found - exact) ** 2).sum(), (exact**2).sum()
        wrong, energy = wrong + squares[0], energy + squares[1]
        # What the dtype rounds is small beside the error.
        error = np.sqrt(squares[0] / squares[1])
        assert summaries[name].error == pytest.approx(error, rel=1e-3)
        assert 0.1 < error < 0.6
    assert summaries["total"].error == pytest.approx(np.sqrt(wrong / energy), rel=1e-3)
    # Rows of 10 weights are three blocks of 17 bits, in seven bytes.
    assert summaries["a.weight"].bits == 5.6
    with Checkpoint(tmp_path / "b") as file:
        assert file.metadata == {"format": "pt", "by": "me"}


def test_kernels_fill_their_blocks_and_get_their_shapes_back(tmp_path):
    rng = np.random.default_rng(3)
    tensors = {
        "1x1": rng.normal(size=(16, 32, 1, 1)).astype(np.float32),
        "3x3": rng.normal(size=(16, 8, 3, 3)).astype(ml_dtypes.bfloat16),
        "odd": rng.normal(size=(3, 5, 7)).astype(np.float16),
        "column": rng.normal(size=(64, 1)).astype(np.float16),
        "pairs": rng.normal(size=(64, 2)).astype(ml_dtypes.bfloat16),
    }
    save_file(tensors, tmp_path / "in")
    rows = {row.name: row for row in compress(tmp_path / "in", tmp_path / "out")}
    # Blocks of 17 bits for 4 weights, in rows of whole bytes: 8 blocks, 18, 9, 1 and 1.
    assert {name: row.bits for name, row in rows.items() if name != "total"} == {
        "1x1": 4.25, "3x3": 312 / 72, "odd": 160 / 35, "column": 24, "pairs": 12,
    }  # fmt: skip
    assert [name for name, row in rows.items() if row.error is None] == ["column"]
    packed = sum(rows[name].bits * tensors[name].size for name in ("1x1", "3x3", "odd", "pairs"))
    sizes = sum(tensors[name].size for name in ("1x1", "3x3", "odd", "pairs"))
    assert rows["total"].bits == packed / sizes
    decompress(tmp_path / "out", tmp_path / "back", console=QUIET)
    found = load_file(tmp_path / "back")
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        exact, there = tensor.astype(np.float64), found[name].astype(np.float64)
        # In the order in which they were: anything else is an error of more than 1.
        assert ((exact - there) ** 2).sum() < 0.4 * (exact**2).sum()
    assert found["column"].tobytes() == tensors["column"].tobytes()


def test_tensors_that_would_all_grow_are_refused(tmp_path):
    save_file({"w": np.ones((8, 1), np.float16), "v": np.ones((4, 1, 1))}, tmp_path / "in")
    with pytest.raises(CheckpointError) as refused:
        compress(tmp_path / "in", tmp_path / "out")
    assert str(refused.value) == (
        f"{tmp_path}/in has no tensor to compress: in blocks of 4 weights and 17 bits, none of 'w' "
        f"would be smaller"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_scale_of_a_tensor_makes_no_difference(tmp_path):
    weights = np.random.default_rng(2).normal(size=(16, 32)).astype(np.float32)
    errors = {"auto": [], "none": []}
    for scale, found in errors.items():
        for k in (-20, -1, 0, 10):
            save_file({"w": np.ldexp(weights, k)}, tmp_path / "in")
            found.append(compress(tmp_path / "in", tmp_path / "out", scale=scale)[0].error)
    assert len(set(errors["auto"])) == 1
    assert errors["none"][0] > 0.99


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 31), max_size=4), st.integers(0, 2**32), st.sampled_from((4, 5, 7)))
def test_interruptions_make_no_difference(source, wanted, tmp_path_factory, stops, seed, ahead):
    folder = tmp_path_factory.mktemp("interrupted")
    target, journal = folder / "out", folder / "out.journal"
    for k, left in enumerate(stops):
        try:
            compress(source, target, results=shuffled(seed + k, left))
        except KeyboardInterrupt:
            assert not target.exists()
            assert journal.exists() == (folder / "out.part").exists()
        else:
            break
    if not target.exists():
        compress(source, target)
    assert target.read_bytes() == wanted
    assert [path.name for path in folder.iterdir()] == ["out"]


def test_finished_pieces_are_not_searched_again(source, wanted, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        compress(source, tmp_path / "out", results=shuffled(1, 14))
    finished = len((tmp_path / "out.journal").read_bytes().splitlines()) - 1
    assert finished == 14
    # A line that was cut short, and bytes that never reached the disk.
    with open(tmp_path / "out.journal", "ab") as file:
        file.write(b"[31, 12")
    raw = bytearray((tmp_path / "out.part").read_bytes())
    first = next(k for k in range(len(raw) - 1, 0, -1) if raw[k])
    raw[first] ^= 1
    (tmp_path / "out.part").write_bytes(raw)
    calls = []
    monkeypatch.setattr(run, "encode", lambda work: calls.append(work) or encode(work))
    compress(source, tmp_path / "out")
    assert len(calls) == PIECES - finished + 1
    assert (tmp_path / "out").read_bytes() == wanted


def test_short_line_of_a_journal_is_no_obstacle(source, wanted, tmp_path):
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            compress(source, tmp_path / "out", results=shuffled(1, 6))
        with open(tmp_path / "out.journal", "ab") as file:
            file.write(b"[31, 12")
    compress(source, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == wanted


def test_short_writes_are_finished(source, wanted, tmp_path, monkeypatch):
    for call in ("write", "pwrite"):
        whole = getattr(os, call)
        short = lambda to, payload, *where, whole=whole: whole(to, payload[:20], *where)  # noqa: E731
        monkeypatch.setattr(os, call, short)
    with pytest.raises(KeyboardInterrupt):
        compress(source, tmp_path / "out", results=shuffled(1, 14))
    assert len((tmp_path / "out.journal").read_bytes().splitlines()) == 15
    compress(source, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == wanted


def test_lost_part_is_begun_again(source, wanted, tmp_path):
    for spoil in (lambda part: part.unlink(), lambda part: part.write_bytes(b"nonsense")):
        with pytest.raises(KeyboardInterrupt):
            compress(source, tmp_path / "out", results=shuffled(1, 14))
        spoil(tmp_path / "out.part")
        compress(source, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == wanted
        (tmp_path / "out").unlink()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rule": "paper"}, "with another rule; remove it to start afresh"),
        ({"size": 128}, "with another size of pieces; "),
        ({"scale": "none"}, "with another scale; "),
        ({"config": SeedlmConfig(block=4, latent=2, width=6)}, "another configuration; "),
    ],
)
def test_journal_of_another_run_is_refused(changes, sentence, source, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        compress(source, tmp_path / "out", results=shuffled(1, 14))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=f"out.journal belongs to a run .*{sentence}"):
        compress(source, tmp_path / "out", **changes)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_journal_of_another_input_is_refused(tmp_path):
    weights = np.ones((16, 128), np.float32)
    save_file({"w": weights}, tmp_path / "in")
    with pytest.raises(KeyboardInterrupt):
        compress(tmp_path / "in", tmp_path / "out", results=shuffled(1, 3))
    weights[7, 5] = 0.5
    save_file({"w": weights}, tmp_path / "in")
    with pytest.raises(ValueError, match=r"out\.journal belongs to a run .*another input; remove"):
        compress(tmp_path / "in", tmp_path / "out")
    # The same weights at another date are the same input.
    weights[7, 5] = 1
    save_file({"w": weights}, tmp_path / "in")
    compress(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\0" * 9, b"[5", b"[5]", b"{}", b"null", b'["5", 1, 1, 1, 1]', b"[5, 0.5, 1, 1, 1]",
     b"[5, 1, 1, 1]", b"[5, 1, 1, 1, NaN]", b"[5, 1, 1, 1, 1e999]", b"[5, 1, 1, 1, null]",
     b"[5, 1, 1, 1, 1" + b"0" * 999 + b"]", b"[" * 100_000, b"\xff"],
)  # fmt: skip
def test_damaged_lines_of_a_journal_are_done_again(damaged, source, wanted, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        compress(source, tmp_path / "out", results=shuffled(1, 14))
    journal = tmp_path / "out.journal"
    first, *pieces = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(
        b"".join([first, damaged + b"\n", *pieces[:6], damaged + b"\n", *pieces[8:]])
    )
    calls = []
    monkeypatch.setattr(run, "encode", lambda work: calls.append(work) or encode(work))
    compress(source, tmp_path / "out")
    assert len(calls) == PIECES - 12
    assert (tmp_path / "out").read_bytes() == wanted


def test_nonsense_in_place_of_a_journal_is_refused(source, tmp_path):
    (tmp_path / "out.journal").write_text("my notes\n")
    with pytest.raises(ValueError, match=r"out\.journal exists already; --force overwrites it"):
        compress(source, tmp_path / "out")
    assert (tmp_path / "out.journal").read_text() == "my notes\n"


def test_second_run_at_the_same_time_is_refused(source, tmp_path):
    class Second(Executor):
        def submit(self, fn, /, *args):
            compress(source, tmp_path / "out")

    with pytest.raises(ValueError, match=r"out\.journal is in use: another run writes the same"):
        compress(source, tmp_path / "out", pool=Pool(Second()))


def test_input_that_changes_meanwhile_is_refused(tmp_path):
    save_file({"w": np.ones((16, 32), np.float32)}, tmp_path / "in")

    def meddled(pool, work, tasks):
        os.utime(tmp_path / "in", ns=(0, 0))
        yield from shuffled(1)(pool, work, tasks)

    with pytest.raises(CheckpointError, match="in was written to while it was compressed"):
        compress(tmp_path / "in", tmp_path / "out", results=meddled)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [32, 1000])
def test_weights_that_are_not_finite_are_refused(bad, size, tmp_path):
    weights = np.ones((2, 3, 70), np.float32)
    weights[1, 1, 42] = bad
    save_file({"first": np.ones((2, 2), np.float16), "w": weights}, tmp_path / "in")
    with pytest.raises(CheckpointError) as refused:
        compress(tmp_path / "in", tmp_path / "out", size=size)
    assert str(refused.value) == (
        f"{tmp_path}/in: tensor 'w', row 1, block 28: the weight at 112 is {bad}, but only finite "
        f"weights can be compressed"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("tensors", "metadata", "sentence"),
    [
        ({"w": np.ones(4, np.float32)}, None, "in has no tensor to compress: none whose name"),
        ({"w": np.ones((2, 2))}, None, "two dimensions or more and is of F32, F16, BF16"),
        ({"w": np.ones((2, 2), np.float32)}, {KEY: "{}"}, "in is compressed already"),
        ({"w": np.ones((2, 2), np.float32), "w.seedlm": np.ones(3)}, None,
         "tensor 'w.seedlm' has the name that the blocks of 'w' would get"),
    ],
)  # fmt: skip
def test_inputs_without_anything_to_do_are_refused(tensors, metadata, sentence, tmp_path):
    save_file(tensors, tmp_path / "in", metadata=metadata)
    with pytest.raises(CheckpointError, match=sentence):
        compress(tmp_path / "in", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_pattern_selects(source, tmp_path):
    rows = compress(source, tmp_path / "out", tensors="*.weight")
    assert [row.name for row in rows] == ["a.weight", "b.weight", "c.weight", "total"]
    rows = compress(source, tmp_path / "out", tensors="b.*")
    assert [row.name for row in rows] == ["b.weight"]
    with pytest.raises(CheckpointError, match=r"none whose name matches 'B\.\*' has two"):
        compress(source, tmp_path / "out", tensors="B.*")


@pytest.mark.parametrize("name", ["rule", "scale"])
def test_options_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be one of .*, not 'luck'"):
        Options(config=SMALL, **{name: "luck"})


@pytest.mark.parametrize("call", ["pwrite", "write"])
def test_full_disk(call, source, wanted, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        whole, left = getattr(os, call), [20]

        def full(descriptor, payload, *where):
            left[0] -= 1
            if left[0] == 0:
                return whole(descriptor, payload[:3], *where)
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return whole(descriptor, payload, *where)

        patch.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left on device") as refused:
            compress(source, tmp_path / "out")
    assert refused.value.filename.startswith(str(tmp_path / "out."))
    assert not (tmp_path / "out").exists()
    compress(source, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == wanted


def test_processes_make_no_difference(source, wanted, tmp_path):
    with processes(2) as pool:
        compress(source, tmp_path / "out", pool=pool)
    assert (tmp_path / "out").read_bytes() == wanted


def test_worker_that_is_ended_from_outside(source, wanted, tmp_path):
    def meddled():
        with processes(2) as pool:
            pool.executor.submit(os.kill, pool.executor.submit(os.getpid).result(), signal.SIGKILL)
            compress(source, tmp_path / "out", pool=pool)

    with pytest.raises(RuntimeError, match=r"a worker process was killed.*is kept"):
        meddled()
    compress(source, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == wanted


def test_jobs_are_checked():
    with pytest.raises(ValueError, match="jobs must be 1 or more, not 0"), processes(0):
        pass


SLOW = """
import sys, time
from pathlib import Path
from rich.console import Console
from seedbed.flow.compress import run
from seedbed.flow.compress.pieces import encode
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.workers import processes
from seedbed.spec import SeedlmConfig

def slowly(work):
    time.sleep(0.05)
    return encode(work)

run.encode = slowly
options = Options(config=SeedlmConfig(block=4, latent=2, width=5))
with processes(1) as pool:
    run.compress(
        Path(sys.argv[1]), Path(sys.argv[2]), options, pool=pool, console=Console(), size=64
    )
"""


def test_killed_run_goes_on(source, wanted, tmp_path):
    target, journal = tmp_path / "out", tmp_path / "out.journal"
    for lines in (3, 9):
        killed = subprocess.Popen([sys.executable, "-c", SLOW, source, target])
        while not journal.exists() or journal.read_bytes().count(b"\n") < lines:
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.journal", "out.part"]
    compress(source, target)
    assert target.read_bytes() == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


ORPHANS = """
import os, time
from seedbed.flow.compress.workers import processes
if __name__ == "__main__":
    with processes(2) as pool:
        pids = {f.result() for f in [pool.executor.submit(os.getpid) for _ in range(50)]}
        print(*pids, flush=True)
        time.sleep(100)
"""


def test_workers_end_with_a_killed_run(tmp_path):
    killed = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in killed.stdout.readline().split()]
    killed.kill()
    killed.wait()
    killed.stdout.close()
    assert pids

    def lives(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().split()[2] != "Z"
        except FileNotFoundError:
            return False

    deadline = time.monotonic() + 30
    while any(map(lives, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


MEMORY = """
import sys
from pathlib import Path
import numpy as np
from rich.console import Console
from seedbed.flow.compress import run, search
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.workers import processes
from seedbed.spec import SeedlmConfig

# Memory is of the files: the search has as much whatever their size.
search.search = lambda config, blocks, rule: (
    np.ones(len(blocks), np.uint32),
    np.zeros(len(blocks), np.int8),
    np.zeros((len(blocks), config.latent), np.int8),
)
options = Options(config=SeedlmConfig(block=32, latent=1, width=5))
source, *others = map(Path, sys.argv[1:])
with processes(1) as pool:
    run.compress(source, others[0], options, pool=pool, console=Console())
decompress(*others, console=Console())
print(next(s for s in open("/proc/self/status") if s.startswith("VmHWM")).split()[1])
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    peaks = []
    for megabytes in (1, 32):
        weights = np.ones((megabytes, 1 << 18), np.float32)
        save_file({"w": weights, "kept": weights.astype(np.float64)}, tmp_path / "in")
        words = [sys.executable, "-c", MEMORY, *(tmp_path / name for name in ("in", "out", "back"))]
        peaks.append(int(subprocess.check_output(words, text=True)))
    assert peaks[1] - peaks[0] < 12 * 1024
