"""How far a long run is: a bar on a terminal, and elsewhere, as in a log, a line now and then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID

__all__ = ["PERIOD", "Bar", "status"]

#: Seconds between lines where there is no terminal.
PERIOD = 30.0


def _line(console: Console, text: str, began: float) -> None:
    passed = f"{monotonic() - began:,.0f} s"
    console.print(f"{text} ({passed})", markup=False, highlight=False, soft_wrap=True)


class Bar(Progress):
    """A bar for each task; a line of one task at most each ``PERIOD`` where there is no terminal.

    Parameters
    ----------
    columns
        What the bar shows.
    console
        Where it is shown; ``None`` shows nothing.
    """

    def __init__(self, *columns: ProgressColumn, console: Console | None):
        shown = console or Console(quiet=True)
        super().__init__(*columns, console=shown, transient=True, disable=not shown.is_terminal)
        self._began = self._told = monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:  # type: ignore[override]
        super().update(task_id, **changes)
        self._tell(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        if self.console.is_terminal or monotonic() - self._told < PERIOD:
            return
        self._told = monotonic()
        task = next(task for task in self.tasks if task.id == task_id)
        _line(self.console, f"{task.description}: {task.percentage:.1f} %", self._began)


@contextmanager
def status(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show what is going on; call what this provides with what goes on next."""
    if console.is_terminal:
        with console.status(text) as shown:
            yield shown.update
        return
    current, ended, began = [text], Event(), monotonic()

    def tell() -> None:
        while not ended.wait(PERIOD):
            _line(console, current[0], began)

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield lambda following: current.__setitem__(0, following)
    finally:
        ended.set()
        thread.join()
