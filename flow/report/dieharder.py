"""Statistical tests of a core's words with dieharder, an optional tool.

dieharder reads a file of words, and starts again at its beginning if a test needs more. A numpy
generator with the same number of bytes is the reference: a test that it fails, too, fails because
of the file's length.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.report.linear_words import lutopt_beats
from seedbed.flow.run.cache import memo
from seedbed.flow.run.files import atomic_path
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.prng_pool import PrngPool
from seedbed.golden.tree_grng import TreeGrng
from seedbed.golden.urng_array import UrngArray
from seedbed.sim import child, tools
from seedbed.spec import LfsrConfig, LutoptConfig, PoolConfig, TreeGrngConfig, UrngConfig
from seedbed.spec.checks import require_int

__all__ = [
    "LENGTH",
    "Line",
    "figures",
    "lanes_of",
    "lines",
    "period_bits",
    "reference",
    "require_words",
    "word_bits",
    "write_words",
]

#: Bytes of a file: nearly the whole period of 31 lanes of 14 bits, 27.55 million bytes.
LENGTH = 27_000_000
#: dieharder's numbers of the Diehard, STS and dieharder tests, without RGB tests that take hours or
#: need separate parameters.
TESTS = (*range(18), 100, 101, 102, *range(204, 210))
#: Beats per chunk; a multiple of 8, so that chunks are whole bytes.
CHUNK = 1 << 14
#: Bits per chunk of repeated words.
PART = 1 << 24
#: Bits of a word of a core whose numbers are not uniform.
UNIFORM_BITS = 8

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


def _array(config: UrngConfig, _: int) -> Iterator[np.ndarray]:
    model = UrngArray(config)
    while True:
        yield model.beats(CHUNK)


def _lfsr(config: LfsrConfig, _: int) -> Iterator[np.ndarray]:
    words = Lfsr(config).words()
    while True:
        yield np.array([next(words) for _ in range(CHUNK)])


def _uniform(
    numbers: Iterator[np.ndarray], values: Sequence[int] | np.ndarray, shares: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield numbers of any distribution as uniform words: their places in its function.

    A number covers as much of 0..1 as its share. numpy's PCG64 chooses the place within.
    """
    starts = np.cumsum(shares) - shares
    random = np.random.Generator(np.random.PCG64(2))
    for beats in numbers:
        at = np.searchsorted(values, beats)
        places = starts[at] + shares[at] * random.random(beats.shape)
        yield np.minimum((places * 2**UNIFORM_BITS).astype(np.int64), 2**UNIFORM_BITS - 1)


def _pool(config: PoolConfig, _: int) -> Iterator[np.ndarray]:
    values, counts = np.unique(config.numbers, return_counts=True)
    model = PrngPool(config)

    def numbers() -> Iterator[np.ndarray]:
        while True:
            taken = model.take(model.position, CHUNK * config.lanes)
            model.position = model.next_start(model.position, taken.size)
            yield taken.reshape(CHUNK, config.lanes)

    return _uniform(numbers(), values, counts / config.size)


def _tree(config: TreeGrngConfig, _: int) -> Iterator[np.ndarray]:
    model = TreeGrng(config)

    def numbers() -> Iterator[np.ndarray]:
        while True:
            yield model.numbers(CHUNK)

    return _uniform(numbers(), np.arange(-128, 128), model.probabilities())


#: Cores with words, and generators of their beats in chunks, of at least so many lanes, 0 for all.
WORDS: dict[str, Callable[[Any, int], Iterator[np.ndarray]]] = {
    "lfsr": _lfsr,
    "urng_array": _array,
    "lutopt": lutopt_beats,
    "prng_pool": _pool,
    "tree_grng": _tree,
}


def require_words(core: str) -> None:
    """Raise ``ValueError`` for a core without uniform words."""
    if core not in WORDS:
        raise ValueError(
            f"statistics of uniform words are available for {', '.join(WORDS)}, not for {core}"
        )


def word_bits(config: Any) -> int:
    """Return the bits of a core's word."""
    uniform = isinstance(config, LfsrConfig | UrngConfig | LutoptConfig)
    return config.width if uniform else UNIFORM_BITS


def lanes_of(config: Any) -> int:
    """Return the words of a beat that differ: the lanes, without repeats of them."""
    return getattr(config, "lanes", 0) or getattr(config, "instances", 1)


def period_bits(config: Any, lanes: int) -> int:
    """Return the bits after which the words of the first ``lanes`` of a beat repeat."""
    return config.period * lanes * word_bits(config)


def write_words(core: str, config: Any, count: int, folder: Path, *, lanes: int = 0) -> Path:
    """Write the first ``count`` bytes of a core's words to a file of ``folder``; return its path.

    Each word has :func:`word_bits` bits, the least significant first; the first ``lanes`` of a
    beat, or all of them where it is 0, and beats are packed without gaps. The file is whole as soon
    as it has its name, as another job may read the same one. Raises ``ValueError`` for
    a core that is not in ``WORDS``, and a count that is not in 1,000 .. 2^32 bytes.
    """
    require_words(core)
    require_int("bytes", count, 1000, 1 << 32)
    key = repr((config, count, lanes) if lanes else (config, count))
    path = folder / f"{core}-{sha256(key.encode()).hexdigest()[:12]}.raw"
    folder.mkdir(parents=True, exist_ok=True)
    whole = period_bits(config, lanes or getattr(config, "tile", 0) or lanes_of(config))
    remaining = made = min(count, whole)
    with atomic_path(path) as part:
        with part.open("wb") as file:
            for beats in WORDS[core](config, lanes):
                words = beats.reshape(len(beats), -1)[:, : lanes or None]
                octets = words.astype("<u4").reshape(-1, 1).view(np.uint8)
                bits = np.unpackbits(octets, axis=1, count=word_bits(config), bitorder="little")
                packed = np.packbits(bits, bitorder="little")[:remaining]
                file.write(packed.tobytes())
                remaining -= len(packed)
                if not remaining:
                    break
        _repeat(part, made, count)
    return path


def _repeat(path: Path, made: int, count: int) -> None:
    """Repeat a file of eight periods, which are ``made`` whole bytes, to ``count`` bytes."""
    if made < count:
        path.write_bytes(np.resize(np.fromfile(path, np.uint8), count).tobytes())


def reference(count: int, folder: Path, *, period: int = 0) -> Path:
    """Write ``count`` bytes of PCG64 to a file of ``folder``; return its path.

    They repeat after ``period`` bits, where it is not 0 and shorter. The file is written as by
    :func:`write_words`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.Generator(np.random.PCG64(1))
    if not 0 < period < 8 * count:
        path = folder / f"pcg64-{count}.raw"
        with atomic_path(path) as part:
            part.write_bytes(random.bytes(count))
        return path
    path = folder / f"pcg64-{count}-{period}.raw"
    octets = np.frombuffer(random.bytes(ceil(period / 8)), np.uint8)
    bits = np.unpackbits(octets, count=period, bitorder="little")
    made = min(count, period)
    with atomic_path(path) as part:
        with part.open("wb") as file:
            for start in range(0, 8 * made, PART):
                at = np.arange(start, min(start + PART, 8 * made)) % period
                file.write(np.packbits(bits[at], bitorder="little").tobytes())
        _repeat(part, made, count)
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
    period = period_bits(config, getattr(config, "tile", 0) or lanes_of(config)) / 8
    return {
        "bytes": count,
        **({"period_bytes": period} if period < 2**64 else {}),
        "tests": len(found),
        "failed": failed.total(),
        "weak": sum(line.verdict == "WEAK" for line in found),
        "reference_failed": sum(line.verdict == "FAILED" for line in compared),
        "failing": ", ".join(names) or "none",
    }
