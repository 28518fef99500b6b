"""Worker pools: this process, several processes, or a dask.distributed cluster."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    wait,
)  # fmt: skip
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from time import monotonic
from typing import Any

from seedbed.flow.run.processes import workers

__all__ = ["SERIAL", "Pool", "cluster", "processes", "results", "results_in_order"]

#: Timeout in seconds for a scheduler, and for a cluster without workers.
PATIENCE = 30.0
RESUME = "finished work is kept, and the same command resumes it"


def _noop() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Pool:
    """An executor, its queue depth in pieces, and a check that raises if workers are lost."""

    executor: Executor
    ahead: int = 1
    check: Callable[[], None] = _noop


class _SynchronousExecutor(Executor):
    """Runs each task at once, in this process."""

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


#: This process.
SERIAL = Pool(_SynchronousExecutor())


@contextmanager
def processes(jobs: int) -> Iterator[Pool]:
    """Provide ``jobs`` local processes; with one job, the work runs in this process.

    Raises ``RuntimeError`` if a process ends without a result.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be 1 or more, not {jobs}")
    if jobs == 1:
        yield SERIAL
        return
    try:
        with workers(jobs, get_context("spawn")) as executor:
            yield Pool(executor, 2 * jobs)
    except BrokenProcessPool as problem:
        raise RuntimeError(
            f"a worker process was killed, possibly out of memory; {RESUME}"
        ) from problem


@contextmanager
def cluster(address: str) -> Iterator[Pool]:
    """Provide the workers of the dask.distributed cluster whose scheduler is at ``address``.

    A piece of a lost worker is assigned to another worker. Raises ``ModuleNotFoundError`` without
    the extra ``cluster``, and ``RuntimeError`` if there is no scheduler or no worker, or if either
    is lost permanently.
    """
    from distributed import Client, KilledWorker
    from distributed.comm import CommClosedError

    # Errors are raised here as one sentence; the library would log pages.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=PATIENCE / 3, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise RuntimeError(f"no dask scheduler answers at {address!r}") from problem
    lost = None

    def check() -> None:
        nonlocal lost
        if client.status != "running":
            raise RuntimeError(f"the dask scheduler at {address!r} was lost; {RESUME}")
        if client.nthreads():
            lost = None
            return
        lost = lost or monotonic()
        if monotonic() - lost > PATIENCE:
            raise RuntimeError(f"the dask scheduler at {address!r} has no workers; {RESUME}")

    with client:
        try:
            # With pure=True, equal pieces would share one result by name.
            executor = client.get_executor(pure=False)
            yield Pool(executor, 4 * max(sum(client.nthreads().values()), 1), check)
        except ImportError as problem:
            raise RuntimeError(f"a worker of the dask cluster lacks {problem.name}") from problem
        except (CancelledError, KilledWorker, CommClosedError) as problem:
            raise RuntimeError(f"the dask cluster at {address!r} was lost; {RESUME}") from problem


def results(pool: Pool, work: Callable, tasks: Iterable[tuple[Any, Any]]) -> Iterator[tuple]:
    """Yield ``key, work(task)`` for each key and task, in order of completion.

    Tasks are consumed as the queue empties, so that few are in memory at a time.
    """
    pending: dict[Future, Any] = {}

    def done() -> Iterator[tuple]:
        while True:
            finished, _ = wait(pending, timeout=PATIENCE / 6, return_when=FIRST_COMPLETED)
            if finished:
                break
            pool.check()
        for future in finished:
            yield pending.pop(future), future.result()

    for key, task in tasks:
        pending[pool.executor.submit(work, task)] = key
        if len(pending) >= pool.ahead:
            yield from done()
    while pending:
        yield from done()


def results_in_order(pool: Pool, work: Callable, tasks: Iterable[Any]) -> Iterator[Any]:
    """Yield ``work(task)`` for each task, in the order of the tasks, few of them in memory."""
    pending: deque[Future] = deque()

    def first() -> Any:
        while not wait([pending[0]], timeout=PATIENCE / 6).done:
            pool.check()
        return pending.popleft().result()

    for task in tasks:
        pending.append(pool.executor.submit(work, task))
        if len(pending) >= pool.ahead:
            yield first()
    while pending:
        yield first()
