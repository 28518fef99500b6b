"""TestU01: verdicts, causes, the streams of words, and a battery that goes on."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from seedbed.flow.report import dieharder, testu01, testu01_table
from seedbed.flow.report.linear_words import SPAN, SPANS, lutopt_source
from seedbed.golden.urng_array import UrngArray
from seedbed.sim import tools
from seedbed.spec import LfsrConfig, LutoptConfig, PoolConfig, TreeGrngConfig, UrngConfig

LIMITS = [(0.0, "failed"), (9e-11, "failed"), (2e-10, "weak"), (0.5, "passed"), (0.9995, "weak"),
          (1.0, "failed")]  # fmt: skip


@pytest.mark.parametrize(("p", "verdict"), LIMITS)
def test_the_verdict_has_the_librarys_limits(p, verdict):
    assert testu01.Line("Gap", p).verdict == verdict


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (LutoptConfig(), "other: Gap; linear: MatrixRank; repeats: Collision"),
        (UrngConfig(width=14, leap=14), "states: Gap; linear: MatrixRank; repeats: Collision"),
        (UrngConfig(width=14, leap=3),
         "states and overlap: Gap; linear: MatrixRank; repeats: Collision"),
        (LfsrConfig(leap=1), "overlap: Gap; linear: MatrixRank; repeats: Collision"),
        (TreeGrngConfig(), "levels: Gap; linear: MatrixRank; repeats: Collision"),
        (PoolConfig(), "other: Gap; linear: MatrixRank; repeats: Collision"),
    ],
)  # fmt: skip
def test_a_failure_has_a_cause(config, named):
    found = [testu01.Line(name, 0.0) for name in ("Gap", "MatrixRank", "Collision")]
    found.append(testu01.Line("MaxOft", 0.5))
    reference = [testu01.Line("Collision", 0.0), testu01.Line("Gap", 0.5)]
    assert testu01.failures(found, reference, config) == named
    assert testu01.failures(found[3:], reference, config) == "none"


@pytest.mark.parametrize(
    ("config", "stream", "period"),
    [
        (UrngConfig(lanes=7, width=5), "beat", 217 * 7 * 5),
        (UrngConfig(lanes=7, width=5), "pair", 217 * 2 * 5),
        (PoolConfig(size=13, lanes=5, contents=tuple(range(-6, 7))), "lane", 13 * 8),
        (LutoptConfig(), "lane", 0),
    ],
)
def test_the_reference_repeats_as_the_words_do(config, stream, period, tmp_path):
    path = testu01.reference(config, stream, 2000, tmp_path)
    bits = np.unpackbits(np.fromfile(path, np.uint8), bitorder="little")
    assert len(bits) == 16000
    shifts = [k for k in range(1, 8000) if np.array_equal(bits[k:], bits[:-k])]
    assert shifts == list(range(period, 8000, period) if period else [])


def test_figures_have_the_streams_of_a_core(tmp_path, monkeypatch):
    """A core with one lane has one stream. The reference runs the tests that failed."""
    found = [testu01.Line("MatrixRank", 0.0, 1), testu01.Line("Gap", 0.5, 2)]

    def lines(path, battery, build, progress, tests=None):
        assert path.stat().st_size == 5000
        assert tests == ({1} if path.name.startswith("pcg64") else None)
        return [testu01.Line("MatrixRank", 0.5, 1)] if tests else found

    monkeypatch.setattr(testu01, "runner", lambda build: None)
    monkeypatch.setattr(testu01, "lines", lines)
    monkeypatch.setitem(testu01.LENGTHS, "smallcrush", 5000)
    one = {"bytes": 5000, "tests": 2, "lane_failed": 1, "lane_reference": 0,
           "lane_failing": "linear: MatrixRank"}  # fmt: skip
    assert testu01.figures("tree_grng", TreeGrngConfig(), tmp_path) == one
    many = testu01.figures("lutopt", LutoptConfig(), tmp_path)
    assert one.items() <= many.items()
    assert {name for name in many if name.endswith("failed")} == {
        "beat_failed", "lane_failed", "pair_failed",
    }  # fmt: skip
    assert not [*(tmp_path / "statistics").iterdir()]


def test_the_table_has_a_line_for_each_stream():
    figures = {"tests": 15, "lane_failed": 3, "lane_reference": 2,
               "lane_failing": "repeats: Gap, MaxOft; linear: MatrixRank"}  # fmt: skip
    row = {"core": "lutopt", "config": "a", "kind": "testu01", "params": {}, "figures": figures}
    table = testu01_table.battery_table("testu01")([row], "", "")
    last = ["a lane", "15", "3", "2", "repeats: 2; linear: MatrixRank"]
    assert [line[2:] for line in table.lines] == [last]


def test_a_stream_has_the_first_lanes(tmp_path):
    config = UrngConfig(lanes=7, width=8)
    path = dieharder.write_words("urng_array", config, 1000, tmp_path, lanes=2)
    words = UrngArray(config).beats(500)[:, :2].astype(np.uint8)
    assert path.read_bytes() == words.tobytes()
    assert path != dieharder.write_words("urng_array", config, 1000, tmp_path)


#: Prints so many bytes of words.
PRINTED = """
int main(int argc, char **argv) {
    for (long left = atol(argv[1]); left; left -= 4) {
        const unsigned int word = next();
        fwrite(&word, 4, 1, stdout);
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("config", "lanes"),
    [(LutoptConfig(lanes=8, width=5), 1), (LutoptConfig(lanes=8, width=5), 0),
     (LutoptConfig(lanes=31, width=14), 2)],
)  # fmt: skip
def test_words_without_end_are_those_of_a_file(config, lanes, tmp_path):
    """Of two chunks and a part of the third."""
    source = tmp_path / "words.c"
    headers = "".join(f"#include <{name}.h>\n" for name in ("stdint", "stdio", "stdlib", "string"))
    source.write_text(headers + lutopt_source(config, lanes) + PRINTED)
    tools.run("CXX", "-O2", "-Wall", "-Werror", "-x", "c", source, "-o", tmp_path / "words")
    chunk = SPANS * SPAN * (lanes or config.lanes) * config.width // 8
    count = 2 * chunk + 4000
    path = dieharder.write_words("lutopt", config, count, tmp_path, lanes=lanes)
    done = subprocess.run([tmp_path / "words", str(count)], capture_output=True, check=True)
    assert done.stdout == path.read_bytes()


@pytest.mark.parametrize(
    ("config", "battery", "file"),
    [
        (LutoptConfig(), "smallcrush", True),
        (LutoptConfig(), "crush", False),
        (LutoptConfig(), "bigcrush", False),
        (UrngConfig(), "crush", True),
    ],
)
def test_long_batteries_of_lutopt_take_no_file(config, battery, file, tmp_path, monkeypatch):
    """But one of so many bytes, if they are given."""
    seen = []
    monkeypatch.setattr(testu01, "runner", lambda build: None)
    monkeypatch.setattr(testu01, "lines", lambda source, *_: seen.append(source) or [])
    monkeypatch.setitem(testu01.LENGTHS, battery, 4000)
    core = "lutopt" if isinstance(config, LutoptConfig) else "urng_array"
    for count in (None, 5000):
        testu01.compared(core, config, "lane", battery, count, tmp_path)
    assert isinstance(seen[0], Path) == file
    assert isinstance(seen[1], Path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--battery", "tiny"], "battery must be one of smallcrush, crush, bigcrush, not 'tiny'"),
        (["--stream", "all"], "stream must be one of beat, lane, pair, not 'all'"),
        (["--test", "11"], "the number of a test of smallcrush must be in 1..10, not 11"),
    ],
)
def test_what_is_not_known_is_refused(words, said, tmp_path, called):
    code, _, err = called(["testu01", "urng_array", *words], tmp_path)
    assert (code, err) == (2, f"error: {said}\n")


def test_without_the_library_a_sentence_names_the_packages(tmp_path, called, monkeypatch):
    monkeypatch.setenv("TESTU01", "no-such-library")
    code, out, err = called(["testu01", "urng_array"], tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(
        "error: no-such-library is not installed: apt-get install libtestu01-0-dev testu01-bin"
    )


@pytest.mark.skipif(not tools.there("TESTU01"), reason="needs TestU01")
def test_a_battery_goes_on_where_it_was(tmp_path, monkeypatch):
    """Zeros fail; a second call runs no test again."""
    monkeypatch.setitem(testu01.BATTERIES, "smallcrush", 2)
    path = tmp_path / "words"
    path.write_bytes(bytes(4096))
    found = testu01.lines(path, "smallcrush", tmp_path)
    assert [line.name for line in found] == ["BirthdaySpacings", "Collision"]
    assert {line.verdict for line in found} == {"failed"}
    monkeypatch.setattr(testu01.child, "run", None)
    assert testu01.lines(path, "smallcrush", tmp_path) == found


@pytest.mark.skipif(not tools.there("TESTU01"), reason="needs TestU01")
def test_some_tests_of_a_battery_are_run_alone(tmp_path, called):
    options = ["--battery", "smallcrush", "--bytes", "65536", "--test", "1"]
    code, out, _ = called(["testu01", "lutopt", *options], tmp_path)
    assert code == 0
    assert out.count("BirthdaySpacings") >= 1
    assert "Collision" not in out
    assert re.search(r"[01] of 1 statistics failed", out)
