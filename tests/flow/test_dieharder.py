"""Words on their way to dieharder, and what it says; the tool itself is played by a script."""

import json
from itertools import islice

import numpy as np
import pytest

from seedbed.flow.cores import registry
from seedbed.flow.report import dieharder, jobs, kinds
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.prng_pool import PrngPool
from seedbed.golden.tree_grng import TreeGrng
from seedbed.golden.urng_array import UrngArray
from seedbed.sim import tools
from seedbed.spec import LfsrConfig, PoolConfig, ScaleConfig, TreeGrngConfig, UrngConfig

# Says of test 0 that it fails but for PCG64, of test 102 two lines, and of all others one.
SCRIPT = """\
#!/bin/sh
case "$1" in -l) echo '# dieharder version 9.8.7 Copyright #'; exit;; esac
echo "$6" >> called
echo '#=====================#'
echo '   rng_name    |           filename             |rands/second|'
echo " file_input_raw|                       $4|  1.27e+07  |"
echo '        test_name   |ntup| tsamples |psamples|  p-value |Assessment'
case "$6 $4" in
    "0 pcg"*) echo '   diehard_birthdays|   0|       100|     100|0.51000000|  PASSED  ';;
    0*) echo '# The file file_input_raw was rewound 2 times'
        echo '   diehard_birthdays|   0|       100|     100|0.00000000|  FAILED  ';;
    102*) echo '          sts_serial|   1|    100000|     100|0.00000012|  FAILED  '
          echo '          sts_serial|  16|    100000|     100|0.00400000|   WEAK   ';;
    *) echo "              test_$6|   0|         1|       1|0.50000000|  PASSED  ";;
esac
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    path = tmp_path / "dieharder"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    monkeypatch.setenv("DIEHARDER", str(path))
    tools.version.cache_clear()
    yield path
    tools.version.cache_clear()


@pytest.fixture
def missing(monkeypatch):
    monkeypatch.setenv("DIEHARDER", "no-such-dieharder")


def bits(words, width):
    return [int(word) >> k & 1 for word in words for k in range(width)]


@pytest.mark.parametrize(
    ("core", "config", "words"),
    [
        ("urng_array", UrngConfig(lanes=7, width=5, leap=2),
         lambda config: UrngArray(config).beats(5000).ravel()),
        ("urng_array", UrngConfig(lanes=3, width=4, tile=5),
         lambda config: UrngArray(config).beats(5000).ravel()),
        ("lfsr", LfsrConfig(width=13, leap=5), lambda config: islice(Lfsr(config).words(), 9000)),
    ],
)  # fmt: skip
def test_words_follow_one_another_bit_by_bit(core, config, words, tmp_path):
    """Over more than what is made at a time, and to the byte."""
    count = 11_111
    path = dieharder.write_words(core, config, count, tmp_path)
    found = np.unpackbits(np.frombuffer(path.read_bytes(), np.uint8), bitorder="little")
    assert path.stat().st_size == count
    assert found.tolist() == bits(words(config), config.width)[: 8 * count]


@pytest.mark.parametrize("lanes", [1, 2])
def test_words_of_a_short_period_are_repeated(lanes, tmp_path):
    config = UrngConfig(lanes=7, width=5)
    path = dieharder.write_words("urng_array", config, 10_001, tmp_path, lanes=lanes)
    words = UrngArray(config).beats(20_000)[:, :lanes].ravel()
    found = np.unpackbits(np.fromfile(path, np.uint8), bitorder="little")
    assert found.tolist() == bits(words, 5)[: 8 * 10_001]


@pytest.mark.parametrize(
    ("core", "config"),
    [("prng_pool", PoolConfig()), ("tree_grng", TreeGrngConfig(tree="compact"))],
)
def test_numbers_that_are_not_uniform_are_words_by_their_place(core, config, tmp_path):
    """Whole periods of the pool have each word as often, and every word has its number's order."""
    count = 4095 * 8
    words = np.fromfile(dieharder.write_words(core, config, count, tmp_path), np.uint8)
    shares = np.bincount(words, minlength=256) / count
    assert abs(shares - 1 / 256).max() < 0.002
    if core == "prng_pool":
        numbers = PrngPool(config).take(0, count)
    else:
        numbers = TreeGrng(config).numbers(count).ravel()
    order = np.argsort(numbers, kind="stable")
    tops = np.maximum.accumulate(words[order])
    # Only the numbers of one step, and of one word, are in any order.
    mixed = tops != words[order]
    assert (np.abs(tops[mixed].astype(int) - words[order][mixed]) <= 8).all()


def test_files_of_other_words_have_other_names(tmp_path):
    two = [dieharder.write_words("urng_array", UrngConfig(leap=leap), 1000, tmp_path)
           for leap in (1, 2)]  # fmt: skip
    assert two[0] != two[1]


def test_refuses_other_cores_and_lengths(tmp_path):
    said = r"for lfsr, urng_array, lutopt, prng_pool, tree_grng, not for scale_lut"
    with pytest.raises(ValueError, match=said):
        dieharder.write_words("scale_lut", ScaleConfig(), 1000, tmp_path)
    with pytest.raises(ValueError, match=r"bytes must be in 1000\.\.4294967296, not 999"):
        dieharder.write_words("lfsr", LfsrConfig(), 999, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_lines_are_read_and_kept(script, tmp_path):
    path = tmp_path / "words.raw"
    path.write_bytes(b"a few words")
    found = dieharder.lines(path, tmp_path)
    assert len(found) == len(dieharder.TESTS) + 1
    assert found[0] == dieharder.Line("diehard_birthdays", 0, 0.0, "FAILED")
    assert dieharder.Line("sts_serial", 16, 0.004, "WEAK") in found
    asked = (tmp_path / "called").read_text().split()
    assert sorted(map(int, asked)) == list(dieharder.TESTS)
    assert dieharder.lines(path, tmp_path) == found
    assert (tmp_path / "called").read_text().split() == asked
    path.write_bytes(b"other words")
    dieharder.lines(path, tmp_path)
    assert len((tmp_path / "called").read_text().split()) == 2 * len(asked)


def test_a_silent_tool_is_an_error(script, tmp_path):
    script.write_text("#!/bin/sh\necho dieharder version 1\n")
    (tmp_path / "words.raw").write_bytes(b"words")
    with pytest.raises(RuntimeError, match="dieharder printed no result of its test"):
        dieharder.lines(tmp_path / "words.raw", tmp_path)


def test_figures_say_what_fails_and_what_fails_anyway(script, tmp_path):
    config = UrngConfig(width=14, leap=3)
    found = dieharder.figures("urng_array", config, tmp_path, 1000)
    assert found == {
        "bytes": 1000,
        # The three leaps share a factor with 2^14 - 1.
        "period_bytes": 31 * 5461 * 31 * 14 / 8,
        "tests": len(dieharder.TESTS) + 1,
        "failed": 2,
        "weak": 1,
        "reference_failed": 1,
        "failing": "diehard_birthdays, sts_serial",
    }


def test_a_row_is_kept_for_the_report(script, tmp_path, called):
    words = ["statistics", "urng_array", "--build", str(tmp_path)]
    code, out, err = called([*words, "--bytes", "2000", "--set", "lanes=7"], tmp_path)
    assert not code, err
    assert "2 of 28 lines failed" in out
    plan = jobs.plan(tmp_path, kinds={"dieharder"}, cores={"urng_array"})
    assert jobs.cached(plan) == []
    row = kinds.KINDS["dieharder"].row(plan[0])
    assert row.figures["bytes"] == dieharder.LENGTH
    assert row.tools["dieharder"] == "dieharder version 9.8.7"
    assert row.command == "seedbed statistics urng_array"
    json.dumps(row.to_json())


def test_the_default_length_is_the_reports():
    """The command line does not import numpy's part of it to say so."""
    from inspect import signature

    from seedbed.flow.cli import app as cli

    assert signature(cli.statistics).parameters["bytes_"].default == dieharder.LENGTH


def test_without_the_tool_a_sentence_says_so(missing, tmp_path, called):
    code, out, err = called(["statistics", "urng_array"], tmp_path)
    assert (code, out) == (2, "")
    assert err == "error: no-such-dieharder is not installed: apt-get install dieharder brings it\n"
    assert list(tmp_path.iterdir()) == []


def test_without_the_tool_all_else_is_measured(missing, tmp_path):
    assert "dieharder" not in {job.kind for job in jobs.plan(tmp_path)}
    assert {job.kind for job in jobs.plan(tmp_path, kinds={"dieharder"})} == {"dieharder"}


def test_with_the_tool_it_is_part_of_a_report_of_everything(script, tmp_path):
    found = [job for job in jobs.plan(tmp_path) if job.kind == "dieharder"]
    assert {job.core for job in found} <= set(dieharder.WORDS)
    assert not any(job.main for job in found)
    wanted = {("31 x 8"), ("31 x 14"), ("31 x 14, leap 3"), ("31 x 14, leap 14")}
    assert {job.config for job in found} == wanted
    assert wanted <= set(registry.find("urng_array").variants)
