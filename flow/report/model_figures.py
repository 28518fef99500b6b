"""Measurements of the golden models: correlation and moments of their numbers, and speed."""

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from time import perf_counter, process_time
from typing import Any

import numpy as np

from seedbed.golden.lutopt import Lutopt
from seedbed.golden.tree_grng import TreeGrng
from seedbed.golden.urng_array import UrngArray
from seedbed.spec import LutoptConfig, ScaleConfig, TreeGrngConfig, UrngConfig

__all__ = ["correlation", "gaussian", "linear_correlation", "linear_speed", "scales", "speed"]

#: Beats per chunk of the sums.
CHUNK = 1 << 15


def _correlations(chunks: Iterable[np.ndarray], beats: int, lags: int) -> np.ndarray:
    """Return r of column a at beat t with column b at beat t + k, as an array over (k, a, b).

    ``chunks`` are consecutive rows, ``beats + lags`` of them or more; mean and variance are those
    of the first ``beats``.
    """
    parts = iter(chunks)
    first = next(parts)
    # Near the mean, so that products are small.
    centre = first.mean(axis=0, dtype=np.float64)
    total = np.zeros((lags + 1, first.shape[1], first.shape[1]))
    sums = np.zeros((lags + 1, first.shape[1]))
    rows = np.empty((0, first.shape[1]))
    done = 0
    for chunk in chain([first], parts):
        rows = np.concatenate([rows, chunk - centre])
        size = max(min(len(rows) - lags, beats - done), 0)
        for k in range(lags + 1):
            later = rows[k : k + size]
            total[k] += rows[:size].T @ later
            sums[k] += later.sum(axis=0)
        rows = rows[size:]
        done += size
        if done == beats:
            break
    mean = sums[0] / beats
    for k in range(lags + 1):
        total[k] -= np.outer(mean, sums[k])
    deviation = np.sqrt(np.diagonal(total[0]))
    return np.abs(total / np.outer(deviation, deviation))


def _parts(words: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows of an array in chunks."""
    for start in range(0, len(words), CHUNK):
        yield words[start : start + CHUNK]


def correlation(config: UrngConfig, *, lags: int = 8, limit: int = 1 << 25) -> dict[str, Any]:
    """Return the array's correlation coefficients, the largest ``|r|`` of each kind.

    Measured on the words of the model; the signed numbers ``word - 2**(b - 1)`` have the same
    coefficients. A *lane* is a position in the beat, the input of one multiplier. A *generator* is
    one LFSR, tracked as the rotation shifts it from lane to lane. With x_j(t) for lane j at beat t,
    the figures are the largest ``|r|`` of

    - ``lane_autocorrelation``: x_j(t) with x_j(t + k), over lanes and lags k = 1 .. ``lags``;
    - ``generator_autocorrelation``: the same of each generator;
    - ``lane_to_lane``: x_a(t) with x_b(t), over pairs of lanes in one beat;
    - ``any_pair``: x_a(t) with x_b(t + k), over all pairs of lanes, a = b included, and lags. It
      detects, for example, a beat that repeats the words of the previous beat;

    and the same by lag as lists. ``beats`` is the number of beats: the array's whole period, up to
    ``limit`` numbers.
    """
    lanes = config.lanes
    beats = min(config.period, max(limit // lanes, 1))
    words = UrngArray(config).beats(beats + lags)[:, :lanes]
    generators = np.empty_like(words)
    for start in range(0, len(words), CHUNK):
        # Beat t has generator i in lane (i - t) mod n.
        times = np.arange(start, min(start + CHUNK, len(words)))[:, None]
        at = (np.arange(lanes) - times) % lanes
        generators[times[:, 0]] = np.take_along_axis(words[times[:, 0]], at, axis=1)
    own = _correlations(_parts(generators), beats, lags).diagonal(axis1=1, axis2=2).max(axis=1)
    return {
        **_by_lane(_parts(words), beats, lags),
        "generator_autocorrelation": float(own[1:].max()),
        "generator_by_lag": own[1:].tolist(),
    }


def _by_lane(words: Iterable[np.ndarray], beats: int, lags: int) -> dict[str, Any]:
    """Return the figures of :func:`correlation` that depend on lanes only."""
    by_lane = _correlations(words, beats, lags)
    lists = {
        "lane_by_lag": by_lane.diagonal(axis1=1, axis2=2).max(axis=1)[1:].tolist(),
        "any_pair_by_lag": by_lane.max(axis=(1, 2))[1:].tolist(),
    }
    return {
        "beats": beats,
        "lane_autocorrelation": max(lists["lane_by_lag"]),
        "lane_to_lane": float((by_lane[0] - np.eye(by_lane.shape[1])).max()),
        "any_pair": max(lists["any_pair_by_lag"]),
        **lists,
    }


def linear_correlation(
    config: LutoptConfig, *, lags: int = 8, limit: int = 1 << 30
) -> dict[str, Any]:
    """Return the figures of :func:`correlation` for the first ``limit`` words of ``lutopt``."""
    beats = max(limit // config.lanes, 1)
    model = Lutopt(config)
    chunks = (model.beats(CHUNK) for _ in range(-(-(beats + lags) // CHUNK)))
    return _by_lane(chunks, beats, lags)


def scales(config: ScaleConfig) -> dict[str, Any]:
    """Return the exponents of the table, and the share of the most frequent one.

    A generator passes through every state once per period: shares of states are shares of beats.
    State 0 does not occur.
    """
    found = Counter(config.exponents[1:])
    ((_, most),) = found.most_common(1)
    return {
        "exponents": ", ".join(map(str, sorted(found))),
        "commonest_percent": 100 * most / found.total(),
    }


def gaussian(config: TreeGrngConfig, *, count: int = 2**20) -> dict[str, Any]:
    """Return the moments of a Gaussian generator's numbers, and measures of dependence.

    ``magnitude_lag_1`` is the correlation of ``|x|`` with that of the next number, 0 for
    independent numbers. ``signs_repeat_after`` is the period of the signs, if it is detected.
    """
    numbers = TreeGrng(config).numbers(count).reshape(count, -1)[:, 0].astype(np.float64)
    centred = (numbers - numbers.mean()) / numbers.std()
    magnitudes = np.abs(centred)
    figures: dict[str, Any] = {
        "numbers": count,
        "mean_lsb": float(numbers.mean()),
        "sigma_lsb": float(numbers.std()),
        "excess_kurtosis": float((centred**4).mean() - 3),
        "magnitude_lag_1": float(np.corrcoef(magnitudes[:-1], magnitudes[1:])[0, 1]),
    }
    period = config.levels[0].lfsr.period
    signs = numbers < 0
    if period < count // 2 and np.array_equal(signs[period:], signs[:-period]):
        figures["signs_repeat_after"] = period
    return figures


def speed(config: UrngConfig, *, numbers: int = 10**8) -> dict[str, Any]:
    """Return the run time of the model for ``numbers`` words, and its peak memory.

    ``seconds`` is wall-clock time and ``cpu_seconds`` processor time, both including the model's
    tables. ``peak_mib`` is the peak of allocated memory. Tracing slows allocations down, so that
    it is measured in a second run with a tenth of the numbers.
    """

    def generate(count: int) -> None:
        for _ in UrngArray(config).chunks(count):
            pass

    return _speed(generate, numbers)


def linear_speed(config: LutoptConfig, *, numbers: int = 10**7) -> dict[str, Any]:
    """Return the figures of :func:`speed` for ``lutopt``."""

    def generate(count: int) -> None:
        model = Lutopt(config)
        for _ in range(-(-count // (CHUNK * config.lanes))):
            model.beats(CHUNK)

    return _speed(generate, numbers)


def _speed(generate: Callable[[int], None], numbers: int) -> dict[str, Any]:
    clock, busy = perf_counter(), process_time()
    generate(numbers)
    seconds, cpu_seconds = perf_counter() - clock, process_time() - busy
    tracemalloc.start()
    try:
        generate(max(numbers // 10, 1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return {
        "numbers": numbers,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_mib": peak / 2**20,
    }
