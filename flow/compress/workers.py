"""Who does the work: this process, several, or those of a dask.distributed cluster."""

import logging
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

from seedbed.flow.processes import workers

__all__ = ["Pool", "cluster", "processes", "results"]

#: Seconds to wait for a scheduler, and for a cluster that has lost its last worker to get one.
PATIENCE = 30.0
KEPT = "what was finished is kept, and the same command goes on from there"


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Pool:
    """An executor, how many pieces to give it ahead, and what may raise if it has no workers."""

    executor: Executor
    ahead: int = 1
    check: Callable[[], None] = _nothing


class _Here(Executor):
    """Does the work at once, where it is asked for."""

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


@contextmanager
def processes(jobs: int) -> Iterator[Pool]:
    """Provide ``jobs`` processes of this machine; one is this process itself.

    Raises ``RuntimeError`` if one of them ends without a result.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be 1 or more, not {jobs}")
    if jobs == 1:
        yield Pool(_Here())
        return
    try:
        with workers(jobs, get_context("spawn")) as executor:
            yield Pool(executor, 2 * jobs)
    except BrokenProcessPool as problem:
        raise RuntimeError(
            f"a worker process was ended from outside, perhaps for want of memory; {KEPT}"
        ) from problem


@contextmanager
def cluster(address: str) -> Iterator[Pool]:
    """Provide the workers of the dask.distributed cluster whose scheduler is at ``address``.

    A piece whose worker is lost is done again by another. Raises ``ModuleNotFoundError`` without
    the extra ``cluster``, and ``RuntimeError`` if no scheduler answers or has no worker, and if
    either is lost for good.
    """
    from distributed import Client, KilledWorker
    from distributed.comm import CommClosedError

    # One sentence is raised here for what the library would log in pages.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=PATIENCE / 3, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise RuntimeError(f"no dask scheduler answers at {address!r}") from problem
    lost = None

    def check() -> None:
        nonlocal lost
        if client.status != "running":
            raise RuntimeError(f"the dask scheduler at {address!r} was lost; {KEPT}")
        if client.nthreads():
            lost = None
            return
        lost = lost or monotonic()
        if monotonic() - lost > PATIENCE:
            raise RuntimeError(f"the dask scheduler at {address!r} has no workers; {KEPT}")

    with client:
        try:
            # Equal pieces are found equal by name, unless told that they are not.
            executor = client.get_executor(pure=False)
            yield Pool(executor, 4 * max(sum(client.nthreads().values()), 1), check)
        except ImportError as problem:
            raise RuntimeError(f"a worker of the dask cluster lacks {problem.name}") from problem
        except (CancelledError, KilledWorker, CommClosedError) as problem:
            raise RuntimeError(f"the dask cluster at {address!r} was lost; {KEPT}") from problem


def results(pool: Pool, work: Callable, tasks: Iterable[tuple[Any, Any]]) -> Iterator[tuple]:
    """Yield ``key, work(task)`` for each key and task, in the order in which they are done.

    Tasks are taken when there is room, so that few are in memory at a time.
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
