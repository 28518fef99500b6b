"""Runs of one task in several processes, each kept as soon as it is done."""

from collections.abc import Iterable
from concurrent.futures import as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.cache import memo
from seedbed.flow.processes import workers as processes
from seedbed.flow.progress import Bar

__all__ = ["Task", "bar", "perform"]


class Task(Protocol):
    """What all runs share; it and the jobs, frozen dataclasses, are sent to the processes."""

    @property
    def digest(self) -> str:
        """A hash of everything that a result depends on beside its job, the code included."""

    def run(self, job: Any) -> dict[str, Any]:
        """Do one job, and return a dictionary of JSON values."""


class _NotKeptError(Exception):
    """Raised in place of running."""


def _kept(task: Task, job: Any, folder: Path, *, may_run: bool = False) -> dict[str, Any]:
    def compute() -> dict[str, Any]:
        if not may_run:
            raise _NotKeptError
        return task.run(job)

    return memo(folder, "run", {"task": task.digest, "job": asdict(job)}, compute)


_here: list[tuple[Task, Path]] = []


def _begin(task: Task, folder: Path) -> None:
    """Take what this process works on, in one thread."""
    threadpool_limits(1)
    _here[:] = [(task, folder)]


def _run_here(job: Any) -> dict[str, Any]:
    task, folder = _here[0]
    return _kept(task, job, folder, may_run=True)


def bar(shown: bool) -> Bar:
    """Return a progress bar on standard error, or one that is not shown."""
    return Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True) if shown else None,
    )  # fmt: skip


def perform(
    task: Task,
    wanted: Iterable[Any],
    folder: Path,
    *,
    workers: int,
    progress: bool,
    what: str = "fine-tuning",
) -> dict[Any, dict[str, Any]]:
    """Return every job's result, from ``folder`` where it holds; the others are run and kept.

    With one worker they are run in this process.
    """
    done: dict[Any, dict[str, Any]] = {}
    todo = []
    for job in dict.fromkeys(wanted):
        try:
            done[job] = _kept(task, job, folder)
        except _NotKeptError:
            todo.append(job)
    if not todo:
        return done
    with bar(progress) as shown:
        line = shown.add_task(what, total=len(done) + len(todo), completed=len(done))
        if workers == 1:
            for job in todo:
                with threadpool_limits(1):
                    done[job] = _kept(task, job, folder, may_run=True)
                shown.advance(line)
            return done
        count = min(workers, len(todo))
        with processes(count, get_context("spawn"), _begin, task, folder) as pool:
            waiting = {pool.submit(_run_here, job): job for job in todo}
            for future in as_completed(waiting):
                done[waiting[future]] = future.result()
                shown.advance(line)
    return done
