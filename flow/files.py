"""Files that are either whole or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["naming", "write_atomic"]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an ``OSError`` from an open file name ``path``, as one from opening it does."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None or problem.filename is not None:
            raise
        raise OSError(problem.errno, problem.strerror, str(path)) from problem


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Write ``content`` under a temporary name beside ``path``, then rename; makes the folder.

    A file that holds the same content already is left alone, its date included. Raises ``OSError``
    that names a file, with nothing left behind.
    """
    raw = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == raw:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with naming(path), part.open("wb") as file:
            file.write(raw)
            file.flush()
            # Or the name could reach the disk before the content, and a power cut leave it empty.
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
