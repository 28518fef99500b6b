"""Kept files of outside tools, which do not all notice a full disk: used only where they are whole.

What a tool wrote is sealed: its SHA-256 is written beside it, as ``sha256sum`` does, and a file
that is empty, cut short, changed, or was never sealed is made again.
"""

from hashlib import file_digest
from pathlib import Path

__all__ = ["seal", "whole"]


def _seal(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _line(path: Path) -> str:
    with path.open("rb") as file:
        return f"{file_digest(file, 'sha256').hexdigest()}  {path.name}\n"


def seal(path: Path) -> None:
    """Note beside ``path`` what it holds, now that it is complete."""
    # Cut short, the note does not fit the file: no need for a temporary name.
    _seal(path).write_text(_line(path))


def whole(path: Path) -> bool:
    """Return whether ``path`` holds what it held when it was sealed."""
    try:
        return _seal(path).read_bytes() == _line(path).encode()
    except OSError:
        return False
