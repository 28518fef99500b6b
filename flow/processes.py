"""Worker processes that end with the command, quietly, whenever that is interrupted."""

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


def _nothing() -> None:
    """Do nothing."""


def _begin(begin: Callable[..., None], *arguments: Any) -> None:
    """Let a worker process end with its parent, and with what it runs itself."""
    parent = parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    # A killed parent cannot end its workers, and they would wait for work forever.
    threading.Thread(target=follow, daemon=True).start()
    signal.signal(signal.SIGTERM, _end)
    begin(*arguments)


def _end(*_: object) -> None:
    """End a worker: by an exception, so that a tool that it waits for is ended, too."""
    # A second one could come before the tool is ended.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Of queues that break meanwhile nobody wants to read.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.exit(1)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off an interruption from the keyboard, and let processes begun here never have one.

    They inherit that it is blocked. This process needs a handler as well: the signal may come to
    another of its threads.
    """
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


@contextmanager
def workers(
    count: int,
    context: BaseContext | None = None,
    begin: Callable[..., None] = _nothing,
    *arguments: Any,
) -> Iterator[ProcessPoolExecutor]:
    """Provide an executor of ``count`` processes, each of which has called ``begin(*arguments)``.

    An interruption from the keyboard comes to this process alone, and ends the workers with the
    tools that they run. After any other exception, what has begun is finished.
    """
    executor = ProcessPoolExecutor(count, context, _begin, (begin, *arguments))
    try:
        with _uninterrupted():
            for _ in range(count):
                executor.submit(_nothing)
        yield executor
    except KeyboardInterrupt:
        for child in active_children():
            child.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)
