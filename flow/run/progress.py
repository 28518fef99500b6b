"""Progress of long runs: a bar on a terminal, periodic lines elsewhere, as in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

__all__ = ["PERIOD", "Bar", "status", "steps_bar", "throughput_bar"]

#: Seconds between lines without a terminal.
PERIOD = 30.0


def _print_line(console: Console, text: str, start: float) -> None:
    elapsed = f"{monotonic() - start:,.0f} s"
    console.print(f"{text} ({elapsed})", markup=False, highlight=False, soft_wrap=True)


class Bar(Progress):
    """A bar per task on a terminal; elsewhere at most one line per ``PERIOD``.

    Parameters
    ----------
    columns
        Columns of the bar.
    console
        Output console; ``None`` for no output.
    """

    def __init__(self, *columns: ProgressColumn, console: Console | None):
        shown = console or Console(quiet=True)
        super().__init__(*columns, console=shown, transient=True, disable=not shown.is_terminal)
        self._start = self._last_line = monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:  # type: ignore[override]
        super().update(task_id, **changes)
        self._print_progress(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._print_progress(task_id)

    def _print_progress(self, task_id: TaskID) -> None:
        if self.console.is_terminal or monotonic() - self._last_line < PERIOD:
            return
        self._last_line = monotonic()
        task = next(task for task in self.tasks if task.id == task_id)
        _print_line(self.console, f"{task.description}: {task.percentage:.1f} %", self._start)


class _Rate(ProgressColumn):
    """Current throughput."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.speed or 0.0
        return Text(f"{speed:,.{0 if speed >= 10 else 1}f} {self.unit}/s")


def throughput_bar(console: Console | None, unit: str = "blocks") -> Bar:
    """Return a bar whose tasks count ``unit``, with throughput and remaining time.

    Without a terminal, it prints a line periodically.
    """
    return Bar(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.1f} %"),
        _Rate(unit), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip


@contextmanager
def steps_bar(console: Console | None, first: str) -> Iterator[Callable[[str, float], None]]:
    """Show a bar of a job's steps; provide a function of a step and its completed share, 0..1.

    ``first`` is the first step. ``console`` is ``None`` for no output.
    """
    with Bar(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(), console=console,
    ) as bar:  # fmt: skip
        line = bar.add_task(first, total=1)
        yield lambda step, share: bar.update(line, description=step, completed=share)


@contextmanager
def status(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show the current activity; provide a function that updates its text."""
    if console.is_terminal:
        with console.status(text) as shown:
            yield shown.update
        return
    current, ended, start = [text], Event(), monotonic()

    def print_lines() -> None:
        while not ended.wait(PERIOD):
            _print_line(console, current[0], start)

    thread = Thread(target=print_lines, daemon=True)
    thread.start()
    try:
        yield lambda text: current.__setitem__(0, text)
    finally:
        ended.set()
        thread.join()
