"""What a long run says where there is no terminal: a line now and then, and no bar."""

from io import StringIO

import pytest
from rich.console import Console
from rich.progress import TextColumn

from seedbed.flow.run import progress


@pytest.fixture
def console():
    return Console(file=StringIO(), width=40)


def printed(console):
    return console.file.getvalue().splitlines()


def test_a_bar_becomes_lines_with_time_between_them(console, monkeypatch):
    now = 100.0
    monkeypatch.setattr(progress, "monotonic", lambda: now)
    with progress.Bar(TextColumn("{task.description}"), console=console) as bar:
        task = bar.add_task("searching the [blocks] of a tensor with a long name", total=8)
        for _ in range(4):
            bar.advance(task)
            now += 20
        bar.update(task, advance=1, description="reading")
    assert printed(console) == [
        "searching the [blocks] of a tensor with a long name: 37.5 % (40 s)",
        "reading: 62.5 % (80 s)",
    ]


def test_a_bar_of_nobody(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PERIOD", 0)
    with progress.Bar(console=None) as bar:
        bar.advance(bar.add_task("searching", total=8))
    assert capsys.readouterr() == ("", "")


def test_a_status_is_told_again_and_ends(console, monkeypatch):
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    with progress.status(console, "building") as tell:
        while not printed(console):
            pass
        tell("running")
        while "running (0 s)" not in printed(console):
            pass
    assert set(printed(console)) == {"building (0 s)", "running (0 s)"}
