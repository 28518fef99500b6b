"""Speed of the search compared with a direct NumPy implementation of Algorithm 1."""

from multiprocessing import get_context
from threading import Barrier
from time import perf_counter
from typing import Any

import numpy as np

from seedbed.flow.compress.search import search
from seedbed.flow.compress.weighted import weighted_search
from seedbed.flow.run.processes import workers
from seedbed.golden import seedlm
from seedbed.spec import SeedlmConfig

__all__ = ["bench", "bench_weighted"]

#: Weights of the model for the projected time.
WEIGHTS = 7e9
#: Timed runs of each search; the best one counts.
REPEATS = 5


def _blocks(config: SeedlmConfig, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.02, (count, config.block))


def _run(
    config: SeedlmConfig, rule: str, seconds: float, seed: int, start: Barrier
) -> tuple[float, float, bool]:
    """Time both searches in this process, in step with the other processes."""
    try:
        return _timed(config, rule, seconds, seed, start)
    except BaseException:
        # Otherwise the other processes would wait for this one.
        start.abort()
        raise


def _timed(
    config: SeedlmConfig, rule: str, seconds: float, seed: int, start: Barrier
) -> tuple[float, float, bool]:
    work, found, rates = [], [], [0.0, 0.0]
    for run, least in ((seedlm.search, 16), (search, 256)):
        blocks = _blocks(config, least, seed)
        # Tables and compilation are outside the timed runs.
        run(config, blocks, rule=rule)
        begin = perf_counter()
        found.append(run(config, blocks, rule=rule))
        count = max(least, int(seconds * least / (perf_counter() - begin)))
        work.append((run, _blocks(config, count, seed)))
    # Alternating, so that other load affects both.
    for _ in range(REPEATS):
        for k, (run, blocks) in enumerate(work):
            start.wait()
            begin = perf_counter()
            run(config, blocks, rule=rule)
            rates[k] = max(rates[k], len(blocks) / (perf_counter() - begin))
    same = all(np.array_equal(a, b[:16]) for a, b in zip(*found, strict=True))
    return rates[0], rates[1], same


def bench(
    config: SeedlmConfig, *, rule: str = "fit", jobs: int = 2, seconds: float = 1.0, seed: int = 1
) -> dict[str, Any]:
    """Return the blocks per second of both searches on Gaussian weights, and derived figures.

    ``jobs`` processes run at the same time, alternating between the direct and the fast search, so
    that both have the same number of processors. A run takes about ``seconds``; the best one
    counts. Tables, compilation and the start of processes are not timed. The figures are
    ``literal`` (direct search) and ``fast`` in blocks per second over all processes,
    ``fast_one_process``, ``ratio``, ``hours`` projected for 7 billion weights, and ``same``:
    whether both found the same blocks.
    """
    context = get_context("spawn")
    with context.Manager() as manager, workers(jobs, context) as pool:
        start = manager.Barrier(jobs)
        runs = [pool.submit(_run, config, rule, seconds, seed + k, start) for k in range(jobs)]
        rows = [run.result() for run in runs]
    literal, fast = (sum(row[k] for row in rows) for k in (0, 1))
    return {
        "jobs": jobs,
        "literal": literal,
        "fast": fast,
        "fast_one_process": fast / jobs,
        "ratio": fast / literal,
        "hours": WEIGHTS / config.block / fast / 3600,
        "same": all(row[2] for row in rows),
    }


def bench_weighted(
    config: SeedlmConfig, *, rows: int = 2048, few: int = 24, seed: int = 1, outlier: float = 1.0
) -> dict[str, Any]:
    """Return the blocks per second of both searches with importance, in this process.

    ``rows`` Gaussian blocks of one column share random weights, of which the first is ``outlier``
    times as large. The fast search computes its tables in the timed run. The direct one searches
    ``few`` of the blocks; its pseudo-inverses of all seeds, which serve all rows, are not counted.
    The figures are ``literal`` and ``fast`` in blocks per second, ``ratio``, and ``same``: whether
    both found the same blocks.
    """
    blocks = _blocks(config, rows, seed)
    weights = np.exp(np.random.default_rng(seed).normal(size=config.block))
    weights[0] *= outlier
    weighted_search(config, blocks[:2], weights)
    times = [perf_counter()]
    fast = weighted_search(config, blocks, weights)
    times.append(perf_counter())
    seeds = np.arange(1, config.lfsr.order + 1, dtype=np.uint32)
    seedlm.weighted_inverses(config, seeds, np.sqrt(seedlm.normalized(config, weights)))
    times.append(perf_counter())
    literal = seedlm.search(config, blocks[:few], weights=weights)
    times.append(perf_counter())
    run, inverses, whole = np.diff(times)
    rates = few / max(whole - inverses, 1e-9), rows / run
    same = all(np.array_equal(a[:few], b) for a, b in zip(fast, literal, strict=True))
    return {
        "literal": float(rates[0]),
        "fast": float(rates[1]),
        "ratio": float(rates[1] / rates[0]),
        "same": same,
    }
