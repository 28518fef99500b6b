"""Statistical tests of a core's words with dieharder, an optional tool.

dieharder reads a file of words, and starts again at its beginning if a test needs more. A numpy
generator with the same number of bytes is the reference: a test that it fails, too, fails because
of the file's length.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.run.cache import memo
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.lutopt import Lutopt
from seedbed.golden.urng_array import UrngArray
from seedbed.sim import child, tools
from seedbed.spec import LfsrConfig, LutoptConfig, UrngConfig
from seedbed.spec.checks import require_int

__all__ = ["LENGTH", "Line", "figures", "lines", "reference", "require_words", "write_words"]

#: Bytes of a file: nearly the whole period of 31 lanes of 14 bits, 27.55 million bytes.
LENGTH = 27_000_000
#: dieharder's numbers of the Diehard, STS and dieharder tests, without RGB tests that take hours or
#: need separate parameters.
TESTS = (*range(18), 100, 101, 102, *range(204, 210))
#: Beats per chunk; a multiple of 8, so that chunks are whole bytes.
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


def _lutopt(config: LutoptConfig) -> Iterator[np.ndarray]:
    model = Lutopt(config)
    while True:
        yield model.beats(CHUNK)


def _lfsr(config: LfsrConfig) -> Iterator[np.ndarray]:
    words = Lfsr(config).words()
    while True:
        yield np.array([next(words) for _ in range(CHUNK)])


#: Cores with uniform words, and generators of their beats in chunks.
WORDS: dict[str, Callable[[Any], Iterator[np.ndarray]]] = {
    "lfsr": _lfsr,
    "urng_array": _array,
    "lutopt": _lutopt,
}


def require_words(core: str) -> None:
    """Raise ``ValueError`` for a core without uniform words."""
    if core not in WORDS:
        raise ValueError(
            f"statistics of uniform words are available for {', '.join(WORDS)}, not for {core}"
        )


def write_words(core: str, config: Any, count: int, folder: Path, *, lanes: int = 0) -> Path:
    """Write the first ``count`` bytes of a core's words to a file of ``folder``; return its path.

    Each word has ``width`` bits, the least significant first; the first ``lanes`` of a beat, or all
    of them where it is 0, and beats are packed without gaps. Raises ``ValueError`` for a core that
    is not in ``WORDS``, and a count that is not in 1,000 .. 2^32 bytes.
    """
    require_words(core)
    require_int("bytes", count, 1000, 1 << 32)
    key = repr((config, count, lanes) if lanes else (config, count))
    path = folder / f"{core}-{sha256(key.encode()).hexdigest()[:12]}.raw"
    folder.mkdir(parents=True, exist_ok=True)
    remaining = count
    with path.open("wb") as file:
        for beats in WORDS[core](config):
            words = beats.reshape(len(beats), -1)[:, : lanes or None]
            octets = words.astype("<u4").reshape(-1, 1).view(np.uint8)
            bits = np.unpackbits(octets, axis=1, count=config.width, bitorder="little")
            packed = np.packbits(bits, bitorder="little")[:remaining]
            file.write(packed.tobytes())
            remaining -= len(packed)
            if not remaining:
                return path
    raise AssertionError("words have no end")


def reference(count: int, folder: Path) -> Path:
    """Write ``count`` bytes of PCG64 to a file of ``folder``; return its path."""
    path = folder / f"pcg64-{count}.raw"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.random.Generator(np.random.PCG64(1)).bytes(count))
    return path


def lines(path: Path, build: Path) -> list[Line]:
    """Return dieharder's results for a file, cached in ``build`` by the file's content.

    Raises :class:`~seedbed.sim.tools.ToolMissing` without dieharder, and ``RuntimeError`` if its
    output has no results.
    """
    key = {
        "words": sha256(path.read_bytes()).hexdigest(),
        "tests": list(TESTS),
        "dieharder": tools.version("DIEHARDER"),
    }

    def test(number: int) -> list[dict[str, Any]]:
        # Generator 201 is a file of raw words.
        words = ("-g", "201", "-f", path.name, "-d", str(number))
        found = [
            Line(line["name"], int(line["size"]), float(line["p"]), line["verdict"])
            for line in _LINE.finditer(tools.run("DIEHARDER", *words, cwd=path.parent))
        ]
        if not found:
            raise RuntimeError(f"dieharder printed no result of its test {number}")
        return [asdict(line) for line in found]

    def compute() -> dict[str, Any]:
        return {"lines": [line for found in child.in_threads(test, TESTS) for line in found]}

    return [Line(**line) for line in memo(build / "cache", "dieharder", key, compute)["lines"]]


def figures(core: str, config: Any, build: Path, count: int = LENGTH) -> dict[str, Any]:
    """Return the number of failed lines for a core, the failed tests, and those of PCG64.

    ``period_bytes`` is the period of the words in bytes, where any file could have as many. Raises
    as :func:`write_words` and :func:`lines`.
    """
    folder = build / "statistics"
    found = lines(write_words(core, config, count, folder), build)
    compared = lines(reference(count, folder), build)
    failed = Counter(line.name for line in found if line.verdict == "FAILED")
    names = (f"{name} ({times})" if times > 1 else name for name, times in failed.items())
    lanes = getattr(config, "tile", 0) or getattr(config, "lanes", 1)
    period = config.period * lanes * config.width / 8
    return {
        "bytes": count,
        **({"period_bytes": period} if period < 2**64 else {}),
        "tests": len(found),
        "failed": failed.total(),
        "weak": sum(line.verdict == "WEAK" for line in found),
        "reference_failed": sum(line.verdict == "FAILED" for line in compared),
        "failing": ", ".join(names) or "none",
    }
