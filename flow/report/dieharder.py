"""Statistical tests of a core's words by dieharder, where it is installed.

dieharder reads a file of words, and begins again at its start where a test needs more. So a
generator of numpy's is asked the same questions about as many bytes: what it fails, too, is the
file's length.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.cache import memo
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.urng_array import UrngArray
from seedbed.sim import tools
from seedbed.spec import LfsrConfig, UrngConfig
from seedbed.spec.checks import require_int

__all__ = ["LENGTH", "Line", "figures", "lines", "write_words"]

#: Bytes of a file: nearly all of the 27.55 million that a period of 31 lanes of 14 bits has.
LENGTH = 27_000_000
#: dieharder's numbers of Diehard's tests, of STS's, and of its own; but for those of RGB that take
#: hours, or ask for other parameters each time.
TESTS = (*range(18), 100, 101, 102, *range(204, 210))
#: Beats that are made at a time; a multiple of 8, so that they are whole bytes.
CHUNK = 1 << 12

_LINE = re.compile(
    r"^\s*(?P<name>\w+)\|\s*(?P<size>\d+)\|\s*\d+\|\s*\d+\|\s*(?P<p>[\d.]+)\|\s*(?P<verdict>\w+)\s*$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Line:
    """A line of dieharder's table: the test, the size of its tuples, p-value and verdict."""

    name: str
    size: int
    p: float
    verdict: str


def _array(config: UrngConfig) -> Iterator[np.ndarray]:
    model = UrngArray(config)
    while True:
        yield model.beats(CHUNK)


def _lfsr(config: LfsrConfig) -> Iterator[np.ndarray]:
    words = Lfsr(config).words()
    while True:
        yield np.array([next(words) for _ in range(CHUNK)])


#: Cores whose words are uniform, and what gives them, beats at a time.
WORDS: dict[str, Callable[[Any], Iterator[np.ndarray]]] = {"lfsr": _lfsr, "urng_array": _array}


def write_words(core: str, config: Any, count: int, folder: Path) -> Path:
    """Write the first ``count`` bytes of a core's words to a file of ``folder``; return its path.

    Each word has ``width`` bits, the lowest first; lanes and beats follow one another without a
    gap. Raises ``ValueError`` for another core than those of ``WORDS``, and another count than of
    1,000 to 2^32 bytes.
    """
    if core not in WORDS:
        raise ValueError(
            f"the statistics of uniform words are those of {' and '.join(WORDS)}, not of {core}"
        )
    require_int("bytes", count, 1000, 1 << 32)
    path = folder / f"{core}-{sha256(repr((config, count)).encode()).hexdigest()[:12]}.raw"
    folder.mkdir(parents=True, exist_ok=True)
    left = count
    with path.open("wb") as file:
        for beats in WORDS[core](config):
            octets = beats.astype("<u4").reshape(-1, 1).view(np.uint8)
            bits = np.unpackbits(octets, axis=1, count=config.width, bitorder="little")
            packed = np.packbits(bits, bitorder="little")[:left]
            file.write(packed.tobytes())
            left -= len(packed)
            if not left:
                return path
    raise AssertionError("words have no end")


def _reference(count: int, folder: Path) -> Path:
    path = folder / f"pcg64-{count}.raw"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.random.Generator(np.random.PCG64(1)).bytes(count))
    return path


def lines(path: Path, build: Path) -> list[Line]:
    """Return what dieharder says of a file; kept in ``build`` by what is in the file.

    Raises :class:`~seedbed.sim.tools.ToolMissing` without dieharder, and ``RuntimeError`` where it
    says nothing.
    """
    key = {
        "words": sha256(path.read_bytes()).hexdigest(),
        "tests": list(TESTS),
        "dieharder": tools.version("DIEHARDER"),
    }

    def test(number: int) -> list[dict[str, Any]]:
        # 201 is a file of words as they are.
        words = ("-g", "201", "-f", path.name, "-d", str(number))
        found = [
            Line(line["name"], int(line["size"]), float(line["p"]), line["verdict"])
            for line in _LINE.finditer(tools.run("DIEHARDER", *words, cwd=path.parent))
        ]
        if not found:
            raise RuntimeError(f"dieharder said nothing of its test {number}")
        return [asdict(line) for line in found]

    def compute() -> dict[str, Any]:
        with ThreadPoolExecutor(cpu_count()) as pool:
            return {"lines": [line for found in pool.map(test, TESTS) for line in found]}

    return [Line(**line) for line in memo(build / "cache", "dieharder", key, compute)["lines"]]


def figures(core: str, config: Any, build: Path, count: int = LENGTH) -> dict[str, Any]:
    """Return how many of dieharder's lines fail for a core, which, and how many for PCG64.

    ``period_bytes`` are those after which the file begins again. Raises as :func:`write_words` and
    :func:`lines`.
    """
    folder = build / "statistics"
    found = lines(write_words(core, config, count, folder), build)
    reference = lines(_reference(count, folder), build)
    failed = Counter(line.name for line in found if line.verdict == "FAILED")
    names = (f"{name} ({times})" if times > 1 else name for name, times in failed.items())
    return {
        "bytes": count,
        "period_bytes": config.period * getattr(config, "tile", 1) * config.width / 8,
        "tests": len(found),
        "failed": failed.total(),
        "weak": sum(line.verdict == "WEAK" for line in found),
        "reference_failed": sum(line.verdict == "FAILED" for line in reference),
        "failing": ", ".join(names) or "none",
    }
