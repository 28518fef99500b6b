"""How fast the search is, beside Algorithm 1 written literally in NumPy, in one run."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from threading import Barrier
from time import perf_counter
from typing import Any

import numpy as np

from seedbed.flow.compress.search import search
from seedbed.golden import seedlm
from seedbed.spec import SeedlmConfig

__all__ = ["bench"]

#: The model whose time is projected, in weights.
WEIGHTS = 7e9
#: Timed runs of each search, of which the best counts.
REPEATS = 5


def _blocks(config: SeedlmConfig, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.02, (count, config.block))


def _run(
    config: SeedlmConfig, rule: str, seconds: float, seed: int, start: Barrier
) -> tuple[float, float, bool]:
    """Time both searches in this process, each while all others time the same one."""
    try:
        return _timed(config, rule, seconds, seed, start)
    except BaseException:
        # Or the others would wait for this one.
        start.abort()
        raise


def _timed(
    config: SeedlmConfig, rule: str, seconds: float, seed: int, start: Barrier
) -> tuple[float, float, bool]:
    work, found, rates = [], [], [0.0, 0.0]
    for run, least in ((seedlm.search, 16), (search, 256)):
        blocks = _blocks(config, least, seed)
        # Tables and compiled code are made here, outside the time.
        run(config, blocks, rule=rule)
        begin = perf_counter()
        found.append(run(config, blocks, rule=rule))
        count = max(least, int(seconds * least / (perf_counter() - begin)))
        work.append((run, _blocks(config, count, seed)))
    # In turns, so that what else the machine does falls on both.
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
    """Return blocks a second of both searches on Gaussian weights, and what follows from them.

    ``jobs`` processes work at the same time, all with the literal search, then all with the fast
    one, so that both have as many processors, in turns of about ``seconds`` of which each one's
    best counts. Tables, compilation and the start of processes are outside the time. The figures
    are ``literal`` and ``fast`` in blocks a second over all processes, ``fast_one_process``,
    ``ratio``, ``hours`` projected for 7 billion weights, and ``same``: whether both gave the same
    blocks.
    """
    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(jobs, context) as pool:
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
