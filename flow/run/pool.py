"""Parallel runs of one task in several processes; each result is cached as it completes."""

from collections.abc import Iterable
from concurrent.futures import as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.run.cache import memo
from seedbed.flow.run.processes import workers as processes
from seedbed.flow.run.progress import Bar

__all__ = ["NotCachedError", "Task", "bar", "cached_run", "run_jobs"]


class Task(Protocol):
    """Data shared by all runs. It and the jobs are frozen dataclasses, sent to the processes."""

    @property
    def digest(self) -> str:
        """A hash of everything that a result depends on besides its job, code included."""

    def run(self, job: Any) -> dict[str, Any]:
        """Run one job, and return a dictionary of JSON values."""


class NotCachedError(Exception):
    """There is no cached result."""


def cached_run(task: Task, job: Any, folder: Path, *, may_run: bool = False) -> dict[str, Any]:
    """Return a job's result, cached in ``folder``.

    Raises :class:`NotCachedError` if it is not cached, unless ``may_run``.
    """

    def compute() -> dict[str, Any]:
        if not may_run:
            raise NotCachedError
        return task.run(job)

    return memo(folder, "run", {"task": task.digest, "job": asdict(job)}, compute)


_worker_state: list[tuple[Task, Path]] = []


def _init_worker(task: Task, folder: Path) -> None:
    """Set the task of this worker process, and limit it to one thread."""
    threadpool_limits(1)
    _worker_state[:] = [(task, folder)]


def _run_in_worker(job: Any) -> dict[str, Any]:
    task, folder = _worker_state[0]
    return cached_run(task, job, folder, may_run=True)


def bar(shown: bool) -> Bar:
    """Return a progress bar on standard error, or a hidden one."""
    return Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True) if shown else None,
    )  # fmt: skip


def run_jobs(
    task: Task,
    wanted: Iterable[Any],
    folder: Path,
    *,
    workers: int,
    progress: bool,
    description: str = "fine-tuning",
) -> dict[Any, dict[str, Any]]:
    """Return the result of every job. Results are cached in ``folder``.

    With one worker, the jobs run in this process.
    """
    done: dict[Any, dict[str, Any]] = {}
    todo = []
    for job in dict.fromkeys(wanted):
        try:
            done[job] = cached_run(task, job, folder)
        except NotCachedError:
            todo.append(job)
    if not todo:
        return done
    with bar(progress) as shown:
        line = shown.add_task(description, total=len(done) + len(todo), completed=len(done))
        if workers == 1:
            for job in todo:
                with threadpool_limits(1):
                    done[job] = cached_run(task, job, folder, may_run=True)
                shown.advance(line)
            return done
        count = min(workers, len(todo))
        with processes(count, get_context("spawn"), _init_worker, task, folder) as pool:
            waiting = {pool.submit(_run_in_worker, job): job for job in todo}
            for future in as_completed(waiting):
                done[waiting[future]] = future.result()
                shown.advance(line)
    return done
