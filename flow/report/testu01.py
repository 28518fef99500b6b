"""Statistical tests of a core's words with TestU01, an optional library.

A runner in C maps a file of words, and starts again at its beginning if a test needs more, or it
makes the words itself, without end. A test is one process, and its result is cached: a battery that
was stopped goes on where it was.
"""

import os
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from seedbed.flow.report import dieharder
from seedbed.flow.report.linear_words import lutopt_source
from seedbed.flow.run.cache import memo
from seedbed.sim import child, tools
from seedbed.spec import LutoptConfig, TreeGrngConfig, UrngConfig
from seedbed.spec.checks import require_choice, require_int

__all__ = [
    "BATTERIES",
    "LENGTHS",
    "STREAMS",
    "Line",
    "compared",
    "endless",
    "failures",
    "figures",
    "lines",
    "reference",
    "require",
    "runner",
]

#: Tests of each battery.
BATTERIES = {"smallcrush": 10, "crush": 96, "bigcrush": 106}
#: Bytes of a file for each: no test of SmallCrush takes more.
LENGTHS = {"smallcrush": 1 << 28, "crush": 1 << 32, "bigcrush": 1 << 32}
#: Lanes of each stream: all of a beat, one, and two that alternate.
STREAMS = {"beat": 0, "lane": 1, "pair": 2}
#: A p-value that is nearer to 0 or 1 is a failure, or is weak: TestU01's limits.
FAILED, WEAK = 1e-10, 1e-3

_INCLUDES = """\
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <testu01/bbattery.h>
#include <testu01/swrite.h>
#include <testu01/unif01.h>

"""
_FILE = """\
static const uint32_t *words;
static size_t count, at;

static unsigned int next(void) {
    const uint32_t word = words[at];
    if (++at == count) at = 0;
    return word;
}

static int begin(const char *name) {
    struct stat about;
    const int file = open(name, O_RDONLY);
    if (file < 0 || fstat(file, &about)) return 3;
    count = (size_t)about.st_size / 4;
    /* Runs of one file share its pages. */
    words = mmap(NULL, 4 * count, PROT_READ, MAP_SHARED, file, 0);
    return words == MAP_FAILED ? 3 : 0;
}

"""
_ENDLESS = """\
static int begin(const char *name) { return 0; }

"""
_RUNNER = """\
/* runner BATTERY TEST [FILE]: prints a line "P|name|p-value" for each statistic of the test. */
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (begin(argc > 3 ? argv[3] : "")) return 3;
    int repeats[128] = {0};
    repeats[atoi(argv[2])] = 1;
    swrite_Basic = FALSE;
    unif01_Gen *generator = unif01_CreateExternGenBits("words", next);
    if (!strcmp(argv[1], "smallcrush")) bbattery_RepeatSmallCrush(generator, repeats);
    else if (!strcmp(argv[1], "crush")) bbattery_RepeatCrush(generator, repeats);
    else if (!strcmp(argv[1], "bigcrush")) bbattery_RepeatBigCrush(generator, repeats);
    else return 2;
    for (int k = 0; k < bbattery_NTests; k++)
        printf("P|%s|%.17g\\n", bbattery_TestNames[k], bbattery_pVal[k]);
    return 0;
}
"""
_LINE = re.compile(r"^P\|(?P<name>[^|]+)\|(?P<p>\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Line:
    """A statistic of a test: its name and p-value, and the number of the test in its battery."""

    name: str
    p: float
    test: int = 0

    @property
    def verdict(self) -> str:
        """``failed``, ``weak`` or ``passed``."""
        distance = min(self.p, 1 - self.p)
        return "failed" if distance < FAILED else "weak" if distance < WEAK else "passed"


def require(battery: str, stream: str, tests: Collection[int] | None = None) -> None:
    """Raise ``ValueError`` for a battery, a stream, or the number of a test that is not known."""
    require_choice("battery", battery, BATTERIES)
    require_choice("stream", stream, STREAMS)
    for test in tests or ():
        require_int(f"the number of a test of {battery}", test, 1, BATTERIES[battery])


def runner(build: Path, source: str = _FILE) -> Path:
    """Compile the runner where it is not, and return its path.

    ``source`` is C with the function that gives words, and one that begins. Raises
    :class:`~seedbed.sim.tools.ToolMissing` without a compiler or the library.
    """
    folder = build / "testu01"
    text = _INCLUDES + source + _RUNNER
    path = folder / f"runner-{sha256(text.encode()).hexdigest()[:12]}"
    if path.is_file():
        return path
    tools.find("TESTU01")
    tools.find("CXX")
    folder.mkdir(parents=True, exist_ok=True)
    file = path.with_suffix(".c")
    file.write_text(text)
    part = path.with_suffix(f".{os.getpid()}")
    libraries = ("-ltestu01", "-ltestu01probdist", "-ltestu01mylib", "-lm")
    tools.run("CXX", "-O2", "-x", "c", file, "-x", "none", "-o", part, *libraries)
    return part.replace(path)


def lines(
    source: Path | str,
    battery: str,
    build: Path,
    progress: Callable[[str], None] | None = None,
    tests: Collection[int] | None = None,
) -> list[Line]:
    """Return the statistics of a battery for words, each test cached in ``build``.

    ``source`` is a file of words, or C with a function that gives them. ``tests`` has the numbers
    of those that are run; by default, all. Raises as :func:`runner`, and ``RuntimeError`` for a
    test without a result.
    """
    if isinstance(source, Path):
        program, where, given = runner(build), source.parent, [source.name]
        with source.open("rb") as file:
            words = file_digest(file, "sha256").hexdigest()
    else:
        # The program's name has the hash of its words.
        program, where, given, words = runner(build, source + _ENDLESS), build, [], ""

    def test(number: int) -> list[Line]:
        key = {"words": words, "battery": battery, "test": number, "runner": program.name}

        def compute() -> dict[str, Any]:
            command = [str(program.resolve()), battery, str(number), *given]
            done = child.run(command, cwd=where)
            found = [Line(m["name"], float(m["p"]), number) for m in _LINE.finditer(done.stdout)]
            if done.returncode or not found:
                raise RuntimeError(f"test {number} of {battery} printed no result")
            return {"lines": [asdict(line) for line in found]}

        found = memo(build / "cache", "testu01", key, compute)["lines"]
        if progress:
            progress(f"test {number} of {BATTERIES[battery]} of {battery}")
        return [Line(**line) for line in found]

    numbers = range(1, BATTERIES[battery] + 1) if tests is None else sorted(tests)
    return [line for found in child.in_threads(test, numbers) for line in found]


def _lanes(config: Any, stream: str) -> int:
    """Return the lanes of a stream."""
    return STREAMS[stream] or dieharder.lanes_of(config)


def endless(config: Any, battery: str) -> bool:
    """Return whether a battery takes words without end: more than a file has, and no short period.

    They are made as they are taken.
    """
    return isinstance(config, LutoptConfig) and battery != "smallcrush"


def reference(config: Any, stream: str, count: int, build: Path) -> Path:
    """Write the reference of a stream: PCG64 with the stream's length and period."""
    period = dieharder.period_bits(config, _lanes(config, stream))
    return dieharder.reference(count, build / "statistics", period=period)


def compared(
    core: str,
    config: Any,
    stream: str,
    battery: str,
    count: int | None,
    build: Path,
    progress: Callable[[str], None] | None = None,
    tests: Collection[int] | None = None,
) -> tuple[list[Line], list[Line]]:
    """Return a battery's statistics of a stream, and the reference's in the tests that failed.

    ``count`` is the number of bytes of a file; where it is ``None``, that of ``LENGTHS``, or words
    without end. The files of words are removed. ``tests`` are as in :func:`lines`. Raises as it
    does.
    """
    runner(build)
    lanes = _lanes(config, stream)
    if count is None and endless(config, battery):
        found = lines(lutopt_source(config, lanes), battery, build, progress, tests)
    else:
        count = count or LENGTHS[battery]
        path = dieharder.write_words(core, config, count, build / "statistics", lanes=lanes)
        try:
            found = lines(path, battery, build, progress, tests)
        finally:
            path.unlink()
    failed = {line.test for line in found if line.verdict == "failed"}
    if not failed:
        return found, []
    path = reference(config, stream, count or LENGTHS[battery], build)
    try:
        return found, lines(path, battery, build, progress, failed)
    finally:
        path.unlink()


def _cause(name: str, config: Any, *, repeats: bool) -> str:
    """Return why a test fails; ``repeats`` says whether the reference fails it, too."""
    if repeats:
        return "repeats"
    if name.startswith(("MatrixRank", "LinearComp")):
        return "linear"
    if isinstance(config, TreeGrngConfig):
        return "levels"
    overlap = "overlap" if getattr(config, "leap", config.period) < config.width else ""
    if isinstance(config, UrngConfig):
        return " and ".join(filter(None, ("states", overlap)))
    return overlap or "other"


def failures(found: list[Line], other: list[Line], config: Any) -> str:
    """Return the names of the failed tests by cause, "none" where all passed.

    ``other`` is what another generator has, with as many words that repeat as often.
    """
    also = {(line.test, line.name) for line in other if line.verdict == "failed"}
    names: dict[str, list[str]] = {}
    for line in found:
        if line.verdict == "failed":
            why = _cause(line.name, config, repeats=(line.test, line.name) in also)
            names.setdefault(why, []).append(line.name)
    return "; ".join(f"{why}: {', '.join(each)}" for why, each in names.items()) or "none"


def figures(core: str, config: Any, build: Path, battery: str = "smallcrush") -> dict[str, Any]:
    """Return failed tests of a battery, for each stream of a core. Raises as :func:`lines`."""
    found: dict[str, Any] = {} if endless(config, battery) else {"bytes": LENGTHS[battery]}
    # A core with one lane has one stream.
    for stream in STREAMS if dieharder.lanes_of(config) > 1 else ["lane"]:
        results, other = compared(core, config, stream, battery, None, build)
        found["tests"] = len(results)
        found[f"{stream}_failed"] = sum(line.verdict == "failed" for line in results)
        found[f"{stream}_reference"] = sum(line.verdict == "failed" for line in other)
        found[f"{stream}_failing"] = failures(results, other, config)
    return found
