"""Files that are either whole or not there, and never in place of a user's by mistake."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PERMISSIONS", "naming", "require_folder", "require_output", "whole", "write_atomic"]

#: What ``open`` gives a new file; the mask can only be read by setting it.
_mask = os.umask(0o022)
os.umask(_mask)
PERMISSIONS = 0o666 & ~_mask


def require_folder(path: Path) -> Path:
    """Return ``path``, a folder that is there or can be made; refuse any other, before any work."""
    there = path.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(path))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(path))
    return path


def require_output(path: Path, *, force: bool) -> Path:
    """Return ``path``, a file that may be written; refuse one that is there already.

    With ``force`` it is overwritten. Raises ``OSError``, and ``ValueError`` for such a file.
    """
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    require_folder(path.parent)
    if path.exists() and not force:
        raise ValueError(f"{path} exists already; --force overwrites it")
    return path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an ``OSError`` from an open file name ``path``, as one from opening it does."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None or problem.filename is not None:
            raise
        raise OSError(problem.errno, problem.strerror, str(path)) from problem


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Provide a temporary name beside ``path``, which it gets if all goes well; else it goes."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Write ``content`` under a temporary name beside ``path``, then rename; makes the folder.

    A file that holds the same content already is left alone, its date included. Raises ``OSError``
    that names a file, with nothing left behind.
    """
    raw = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == raw:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part, naming(path), part.open("wb") as file:
        file.write(raw)
        file.flush()
        # Or the name could reach the disk before the content, and a power cut leave it empty.
        os.fsync(file.fileno())
    return path
