"""What an interrupted run has finished, so that the next one goes on from there."""

import fcntl
import json
import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Self

from seedbed.flow.files import os_error_path

__all__ = ["Journal"]


def _piece(line: bytes) -> tuple[int, tuple] | None:
    """Return a finished piece's number and what is told of it, or ``None`` for a damaged line."""
    try:
        index, crc, *sums = json.loads(line)
        good = type(index) is type(crc) is int and len(sums) == 3 and all(map(isfinite, sums))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return (index, (crc, *sums)) if good else None


class Journal:
    """A file of lines: what run it belongs to, then a finished piece each.

    A line that is written survives the process's end, and one that was cut short or damaged is as
    if it had never been. A second run at the same time is refused.

    Parameters
    ----------
    path
        The journal's file, made if it is not there.
    run
        All that the result depends on, as JSON values.

    Members
    -------
    done
        By a finished piece's number: its bytes' CRC-32, and its three sums of squares.

    Raises ``ValueError`` if the journal is another run's, and ``OSError``.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path = path
        self.done: dict[int, tuple] = {}
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115
        try:
            with os_error_path(path):
                self._lock()
                self._begin(json.loads(json.dumps(run)))
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise ValueError(
                f"{self.path} is in use: another run writes the same file"
            ) from problem

    def _begin(self, run: dict[str, Any]) -> None:
        self._file.seek(0)
        whole = self._file.read()
        kept = whole[: whole.rfind(b"\n") + 1]
        lines = kept.splitlines()
        if not lines:
            os.ftruncate(self._file.fileno(), 0)
            self._write(run)
            return
        try:
            found = dict(json.loads(lines[0]))
        except (ValueError, TypeError, RecursionError) as problem:
            raise ValueError(
                f"{self.path} is not a journal; remove it to start afresh"
            ) from problem
        if found != run:
            other = sorted(key for key in run if found.get(key) != run[key])
            raise ValueError(
                f"{self.path} belongs to a run that was interrupted, with another "
                f"{' and '.join(other)}; remove it to start afresh"
            )
        self.done = dict(filter(None, map(_piece, lines[1:])))
        os.ftruncate(self._file.fileno(), len(kept))

    def _write(self, value: Any) -> None:
        line = memoryview(json.dumps(value).encode() + b"\n")
        # A full disk may take part of it; to write the rest then says so.
        while line:
            line = line[os.write(self._file.fileno(), line) :]

    def add(self, index: int, crc: int, *sums: float) -> None:
        """Note a piece as finished."""
        with os_error_path(self.path):
            self._write((index, crc, *sums))
        self.done[index] = (crc, *sums)

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Remove the file, before anybody else may lock it."""
        self.path.unlink(missing_ok=True)
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
