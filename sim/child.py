"""Child processes that end with the command: an interruption leaves none of them running."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["SIGNALS", "child", "deferred", "in_threads", "kill", "kill_all", "run"]

#: The signals that interrupt a command.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
T = TypeVar("T")
R = TypeVar("R")
_running: set[subprocess.Popen[Any]] = set()


@contextmanager
def deferred() -> Iterator[None]:
    """Defer the handlers of interruptions: they are called at the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        # Python calls handlers in the main thread alone.
        yield
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, lambda caught, frame: received.append(caught))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for caught in received:
        signal.raise_signal(caught)


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process group whose leader was not waited for, so that its number is still in use."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def child(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a command; at the end of the block, it and the processes that it started are killed.

    ``options`` are those of ``subprocess.Popen``. The command runs in a process group of its own,
    and reads nothing from the terminal.
    """
    options = {"stdin": subprocess.DEVNULL, **options}
    if options.get("text"):
        options.setdefault("errors", "replace")
    process = None
    try:
        # An interruption within Popen would lose the process.
        with deferred():
            process = subprocess.Popen(command, process_group=0, **options)
            _running.add(process)
        yield process
    finally:
        if process:
            kill(process)
            # Closes the pipes, and waits. What was not written to standard input is lost.
            with suppress(BrokenPipeError), process:
                pass
            _running.discard(process)


def run(
    command: Sequence[str | Path], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return its exit status and its output, as text.

    Standard error is in the output, unless ``stderr`` says otherwise. Raises
    ``subprocess.TimeoutExpired`` after ``timeout`` seconds.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    with child(command, **options) as process:
        output, errors = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def kill_all() -> None:
    """Kill every command that runs, also those of other threads."""
    for process in list(_running):
        kill(process)


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return what ``work``, which runs commands, has for each item; a thread for each processor.

    An error or an interruption kills the commands, and no others are started.
    """
    begun: list[Future[R]] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            with deferred():
                begun = [pool.submit(work, item) for item in items]
            return [each.result() for each in begun]
        except BaseException:
            # The executor waits for its threads, and a thread may be about to start a command.
            pool.shutdown(wait=False, cancel_futures=True)
            # 'wait' counts those that were cancelled as not done.
            while wait([each for each in begun if not each.cancelled()], 0.1).not_done:
                kill_all()
            raise
