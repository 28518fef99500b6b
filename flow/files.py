"""Atomic file writes, and checks of output paths."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "PERMISSIONS",
    "atomic_path",
    "os_error_path",
    "require_folder",
    "require_output",
    "write_atomic",
]

#: Permissions of a new file. The umask can be read only by setting it.
_mask = os.umask(0o022)
os.umask(_mask)
PERMISSIONS = 0o666 & ~_mask


def require_folder(path: Path) -> Path:
    """Return ``path``, a folder that exists or can be created; raise ``OSError`` otherwise."""
    existing = path.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(path))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(path))
    return path


def require_output(path: Path, *, force: bool) -> Path:
    """Return ``path``, a file that can be written.

    Raises ``OSError``, and ``ValueError`` for an existing file without ``force``.
    """
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    require_folder(path.parent)
    if path.exists() and not force:
        raise ValueError(f"{path} exists already; --force overwrites it")
    return path


@contextmanager
def os_error_path(path: Path) -> Iterator[None]:
    """Add ``path`` to an ``OSError`` without a file name, such as one from a write."""
    try:
        yield
    except OSError as problem:
        if problem.errno is None or problem.filename is not None:
            raise
        raise OSError(problem.errno, problem.strerror, str(path)) from problem


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Provide a temporary path in the same folder, renamed to ``path`` on success, else removed."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Write ``content`` to a temporary file, then rename it to ``path``; create the folder.

    A file with the same content is not written, so that its date is unchanged. Raises ``OSError``
    with a file name, and leaves no temporary file.
    """
    raw = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == raw:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as part, os_error_path(path), part.open("wb") as file:
        file.write(raw)
        file.flush()
        # Without it, the rename could reach the disk before the content: empty after a power cut.
        os.fsync(file.fileno())
    return path
