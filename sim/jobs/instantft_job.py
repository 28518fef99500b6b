"""Jobs of fine-tuning on the emitted Verilog under Verilator, with no Python in the loop."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedbed.golden.engine import words
from seedbed.hw.adapters import instantft
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.hw.memory.memory_port import command_layout as burst_layout
from seedbed.sim.harness import Mismatch
from seedbed.sim.payloads import image_beats, pack, unpack
from seedbed.sim.verilog import cpp_bench
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS, InstantFtConfig

__all__ = ["MAIN", "Act", "ActResult", "Memory", "executable", "play"]

#: Feeds the core and plays its memory: some million cycles, so no Python in the loop.
MAIN = Path(__file__).with_suffix(".cpp")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """How the memory behaves.

    Parameters
    ----------
    latency
        The least and the most cycles to the first beat of a burst, or to the answer of one that was
        written; drawn for each.
    gaps
        Of 16 cycles, in so many it neither gives nor takes a beat, at random.
    fault
        The burst, counted from 0, that is answered with an error.
    """

    latency: tuple[int, int] = (20, 60)
    gaps: int = 2
    fault: int | None = None


@dataclass(frozen=True, kw_only=True)
class Act:
    """A part of a job: rows of parameters to load, or a command with the images it takes.

    ``rows`` are as :mod:`seedbed.golden.engine` gives them, ``trainable`` says of which memory.
    ``fields`` are those of :func:`seedbed.hw.adapters.instantft.command_layout` but for the kind.
    """

    rows: np.ndarray | None = None
    trainable: bool = False
    kind: str | None = None
    fields: tuple[tuple[str, int], ...] = ()
    images: Sequence[int] | np.ndarray = ()


@dataclass(frozen=True, kw_only=True)
class ActResult:
    """What came of an act: cycles, how it ended, results by sample, parameters, counters.

    ``when`` has the cycle of each result, from the act's first; ``status`` is ``None`` without a
    command.
    """

    cycles: int
    status: str | None
    when: np.ndarray
    best: np.ndarray
    loss: np.ndarray
    hit: np.ndarray
    parameters: np.ndarray
    counters: dict[str, int]


def executable(verilog: Path, *, build: Path) -> Path:
    """Build the core in ``verilog``, with packed payloads; see :func:`cpp_bench.executable`."""
    return cpp_bench.executable(MAIN, verilog, verilog.stem, build=build, flags=cpp_bench.OPTIMISED)


def _images(config: InstantFtConfig, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the beats of every image, each with its place as its index: (images, beats, words)."""
    pixels = image_beats(images[:, None], config.ways)
    count, beats, _ = pixels.shape
    found = pack(
        instantft.sample_layout(config),
        count * beats,
        pixels=pixels,
        label=np.repeat(labels, beats),
        index=np.repeat(np.arange(count), beats),
        last=np.arange(count * beats) % beats == beats - 1,
    )
    return found.reshape(count, beats, -1)


def _job(
    config: InstantFtConfig,
    images: np.ndarray,
    acts: Iterable[Act],
    memory: Memory,
    *,
    seed: int,
    pauses: int,
) -> bytes:
    """Return the bench's input: how it behaves, all images, and then act by act."""
    cache = config.forward_cache
    place = instantft.command_layout(config)
    command, results = burst_layout(cache.address_bits), instantft.result_layout(config)
    acts = list(acts)
    found: list[np.ndarray | list[int]] = [
        [seed, pauses, memory.gaps, *memory.latency],
        [0xFFFFFFFF if memory.fault is None else memory.fault],
        [cache.beat_bits // 32, command["write"].offset, cache.entries * cache.beats],
        [*images.shape[:2], results["last"].offset],
        images.ravel(),
        [len(acts)],
    ]
    loaded = packet_layout(config.engine)
    for act in acts:
        pairs = np.zeros((0, 2)) if act.rows is None else words(act.rows)
        last = np.arange(len(pairs)) == len(pairs) - 1
        found += [
            [len(pairs)],
            pack(loaded, len(pairs), word=pairs, trainable=act.trainable, last=last).ravel(),
            [act.kind is not None],
        ]
        if act.kind is not None:
            kind = INSTANTFT_KINDS.index(act.kind)
            found += [pack(place, 1, kind=kind, **dict(act.fields)).ravel()]
        found += [[len(act.images)], np.asarray(act.images)]
    return np.concatenate([np.asarray(part, np.int64) for part in found]).astype("<u4").tobytes()


def _results(config: InstantFtConfig, raw: bytes, acts: Iterable[Act]) -> list[ActResult]:
    """Return what the bench's output says of each act."""
    numbers, at = np.frombuffer(raw, "<u4"), 0

    def take(count: int, columns: int = 1) -> np.ndarray:
        nonlocal at
        at += count * columns
        return numbers[at - count * columns : at].reshape(count, columns)

    results, given = instantft.result_layout(config), words_layout(config.engine)
    found = []
    for act in acts:
        cycles, count = map(int, take(2)[:, 0])
        came = take(count, 1 + -(-results.size // 32))
        parts = {
            name: unpack(results, came[:, 1:], name)[:, 0]
            for name in ("best", "loss", "hit", "status", "last")
        }
        samples = parts.pop("last") == 0
        ended = parts.pop("status")[~samples]
        gave = take(int(take(1)[0, 0]), -(-given.size // 32))
        found.append(
            ActResult(
                cycles=cycles,
                status=INSTANTFT_STATUS[ended[0]] if act.kind else None,
                when=came[samples, 0],
                **{name: part[samples] for name, part in parts.items()},
                parameters=unpack(given, gave, "word").ravel(),
                counters=dict(
                    zip(
                        instantft.COUNTERS,
                        take(len(instantft.COUNTERS))[:, 0].tolist(),
                        strict=True,
                    )
                ),
            )
        )
    return found


def play(
    bench: Path,
    config: InstantFtConfig,
    images: np.ndarray,
    labels: np.ndarray,
    acts: Sequence[Act],
    *,
    seed: int,
    pauses: int = 0,
    memory: Memory = Memory(),
    progress: Callable[[int], None] = lambda results: None,
) -> list[ActResult]:
    """Play ``acts`` one after the other, from reset; return what came of each.

    Parameters
    ----------
    bench
        What :func:`executable` built.
    images, labels
        Bytes (images, rows, columns), and classes; an image's index in the cache is its place.
    seed
        Of the memory's latencies and gaps, and of the pauses.
    pauses
        Of 16 cycles, in so many every port pauses, at random; 0 is as fast as the core is.
    progress
        Called with the number of results so far, a few times a second.

    Raises :class:`Mismatch` where nothing is transferred for long or breaks its memory's rules. An
    interruption ends the simulation too.
    """
    packed = _images(config, images, labels)
    job = _job(config, packed, acts, memory, seed=seed, pauses=pauses)
    try:
        _, found = cpp_bench.run(
            bench, "job.bin", "results.bin", files={"job.bin": job}, output="results.bin",
            progress=lambda line: progress(int(line)),
        )  # fmt: skip
    except cpp_bench.BenchFailed as failure:
        raise Mismatch(f"the simulation ended with {failure.status}: {failure.message}") from None
    return _results(config, found, acts)
