"""Worker processes that end when the command ends or is interrupted."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from multiprocessing.context import BaseContext
from typing import Any

__all__ = ["workers"]


def _noop() -> None:
    """Do nothing."""


def _start_worker(initializer: Callable[..., None], *arguments: Any) -> None:
    """Make a worker process end with its parent, together with the tools that it runs."""
    parent = parent_process()

    def exit_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    # A killed parent cannot terminate its workers; they would wait for work forever.
    threading.Thread(target=exit_with_parent, daemon=True).start()
    signal.signal(signal.SIGTERM, _end_worker)
    initializer(*arguments)


def _end_worker(*_: object) -> None:
    """End a worker by an exception, so that the tool that it waits for is terminated, too."""
    # A second signal could arrive before the tool is terminated.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Suppresses messages about queues that break meanwhile.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.exit(1)


@contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Defer SIGINT in this process, and block it in the processes that are started here.

    They inherit the signal mask. This process needs a handler as well, because the signal may be
    delivered to another of its threads.
    """
    received: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
    if received:
        raise KeyboardInterrupt


@contextmanager
def workers(
    count: int,
    context: BaseContext | None = None,
    initializer: Callable[..., None] = _noop,
    *arguments: Any,
) -> Iterator[ProcessPoolExecutor]:
    """Provide an executor of ``count`` processes, each started with ``initializer(*arguments)``.

    SIGINT reaches this process alone, which terminates the workers and the tools that they run.
    After any other exception, running tasks are finished.
    """
    executor = ProcessPoolExecutor(count, context, _start_worker, (initializer, *arguments))
    try:
        with _deferred_interrupt():
            for _ in range(count):
                executor.submit(_noop)
        yield executor
    except KeyboardInterrupt:
        for child in active_children():
            child.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)
