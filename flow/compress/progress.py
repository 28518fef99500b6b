"""Progress bar with throughput and remaining time."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)  # fmt: skip
from rich.text import Text

from seedbed.flow.progress import Bar

__all__ = ["bar"]


class _Rate(ProgressColumn):
    """Current throughput."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.speed or 0.0
        return Text(f"{speed:,.{0 if speed >= 10 else 1}f} {self.unit}/s")


def bar(console: Console, unit: str = "blocks") -> Bar:
    """Return a bar whose tasks count ``unit``, with throughput and remaining time.

    Without a terminal, it prints a line periodically.
    """
    return Bar(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.1f} %"),
        _Rate(unit), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip
