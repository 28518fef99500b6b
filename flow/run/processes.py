"""Worker processes that end when the command ends or is interrupted."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, redirect_stderr
from multiprocessing import active_children, get_context, parent_process, resource_tracker
from multiprocessing.context import BaseContext
from time import monotonic
from typing import Any

from seedbed.flow.run.interruption import limit_cleanup
from seedbed.sim import child

__all__ = ["workers"]

#: Seconds for a terminated worker to clean up; then it ends itself, and later it is killed.
GRACE, PATIENCE = 2.0, 3.5
#: Whether this process is a worker that is to end.
_ending = threading.Event()


def _noop() -> None:
    """Do nothing."""


def _exit() -> None:
    """End this worker, and its tools."""
    child.kill_all()
    os._exit(1)


def _start_worker(initializer: Callable[..., None], *arguments: Any) -> None:
    """Make a worker process end with its parent, together with the tools that it runs."""
    parent = parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            parent.join()
            _exit()

    # A killed parent cannot terminate its workers; they would wait for work forever.
    threading.Thread(target=exit_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, _end_worker)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    initializer(*arguments)


def _end_worker(*_: object) -> None:
    """End a worker by an exception, so that its tool is killed and its scratch files are removed.

    The exception is not ``SystemExit``, which libraries suppress.
    """
    # A second signal could arrive before the tool is killed.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Suppresses messages about queues that break meanwhile.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _ending.set()
    limit_cleanup(GRACE, _exit)
    raise KeyboardInterrupt


def _run_task(task: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run a task in a worker.

    The executor returns every exception of a task, and starts the next task, of which some are
    already in its queue: a worker that is to end would continue for as long as these take.
    """
    if _ending.is_set():
        _exit()
    try:
        return task(*arguments, **options)
    finally:
        if _ending.is_set():
            _exit()


class _Executor(ProcessPoolExecutor):
    """An executor whose workers start no task after they are terminated."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_run_task, fn, *args, **kwargs)


@contextmanager
def _started_uninterrupted(context: BaseContext) -> Iterator[None]:
    """Defer interruptions of this process, and block them in the processes that start here.

    They inherit the signal mask. Signals reach them, too, if they are sent to the process group, as
    a terminal does: a worker that died before it reads its task would leave this process waiting
    for it, and without the tracker, which Python starts beside spawned workers, semaphores are
    released twice. The tracker has no standard error, as all that it could report is that.
    """
    with child.deferred():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, child.SIGNALS)
        try:
            # Forked workers have no tracker.
            if context.get_start_method() != "fork":
                with redirect_stderr(None):
                    resource_tracker.ensure_running()
                # The start of the tracker unblocks some of them.
                signal.pthread_sigmask(signal.SIG_BLOCK, child.SIGNALS)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _terminate() -> None:
    """End all workers and the tools that they run."""
    started = active_children()
    for process in started:
        process.terminate()
    limit = monotonic() + PATIENCE
    for process in started:
        process.join(max(limit - monotonic(), 0))
        if process.is_alive():
            process.kill()


@contextmanager
def workers(
    count: int,
    context: BaseContext | None = None,
    initializer: Callable[..., None] = _noop,
    *arguments: Any,
) -> Iterator[ProcessPoolExecutor]:
    """Provide an executor of ``count`` processes, each started with ``initializer(*arguments)``.

    An interruption is handled by this process, which terminates the workers and the tools that
    they run. After any other exception, running tasks are finished.
    """
    executor = None
    context = context or get_context()
    try:
        with _started_uninterrupted(context):
            executor = _Executor(count, context, _start_worker, (initializer, *arguments))
            for _ in range(count):
                executor.submit(_noop)
        try:
            yield executor
        except Exception:
            executor.shutdown(cancel_futures=True)
            raise
        executor.shutdown()
    except BaseException:
        if executor:
            # The executor's thread may wait for a lock that the interruption left acquired.
            executor.shutdown(wait=False, cancel_futures=True)
        _terminate()
        raise
