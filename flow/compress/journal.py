"""Journal of finished pieces, to resume an interrupted run."""

import fcntl
import json
import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Self

from seedbed.flow.run.files import os_error_path

__all__ = ["Journal", "is_journal"]

#: How the first line of a journal begins.
_BEGIN = b'{"version of seedbed": '


def _piece(line: bytes) -> tuple[int, tuple] | None:
    """Return a finished piece's index and entry, or ``None`` for a damaged line."""
    try:
        index, crc, *sums = json.loads(line)
        valid = type(index) is type(crc) is int and len(sums) == 3 and all(map(isfinite, sums))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return (index, (crc, *sums)) if valid else None


def is_journal(path: Path) -> bool:
    """Return whether a file is the journal of a run that was interrupted."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN


class Journal:
    """A text file: the first line identifies the run, each further line is a finished piece.

    Written lines survive the end of the process. Truncated or damaged lines are ignored. A second
    concurrent run is an error.

    Parameters
    ----------
    path
        The journal's file, created if needed.
    run
        Everything that the result depends on, as JSON values.

    Members
    -------
    done
        Finished pieces by index: CRC-32 of the bytes, and three sums of squares.

    Raises ``ValueError`` if the journal belongs to another run, and ``OSError``.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        self.path = path
        self.done: dict[int, tuple] = {}
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115
        try:
            with os_error_path(path):
                self._lock()
                self._load(json.loads(json.dumps(run)))
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

    def _load(self, run: dict[str, Any]) -> None:
        self._file.seek(0)
        content = self._file.read()
        complete = content[: content.rfind(b"\n") + 1]
        lines = complete.splitlines()
        if not content:
            self._write(run)
            return
        try:
            found = dict(json.loads(lines[0]))
        except (IndexError, ValueError, TypeError, RecursionError) as problem:
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
        os.ftruncate(self._file.fileno(), len(complete))

    def _write(self, value: Any) -> None:
        line = memoryview(json.dumps(value).encode() + b"\n")
        # A full disk may accept part of it; the next write then raises the error.
        while line:
            line = line[os.write(self._file.fileno(), line) :]

    def add(self, index: int, crc: int, *sums: float) -> None:
        """Record a finished piece."""
        with os_error_path(self.path):
            self._write((index, crc, *sums))
        self.done[index] = (crc, *sums)

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Remove the file before its lock is released."""
        self.path.unlink(missing_ok=True)
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
