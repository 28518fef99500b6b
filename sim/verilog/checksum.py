"""Checksums of cached files that external tools write: some tools do not detect a full disk.

The SHA-256 of a finished file is stored next to it, in the format of ``sha256sum``. A file that is
empty, truncated or changed, or has no checksum, is built again.
"""

from hashlib import file_digest
from pathlib import Path

__all__ = ["intact", "record"]


def _checksum(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _line(path: Path) -> str:
    with path.open("rb") as file:
        return f"{file_digest(file, 'sha256').hexdigest()}  {path.name}\n"


def record(path: Path) -> None:
    """Store the checksum of ``path``, which is finished, next to it."""
    # A truncated checksum matches no file: no need for a temporary name.
    _checksum(path).write_text(_line(path))


def intact(path: Path) -> bool:
    """Return whether ``path`` still has the content that :func:`record` saw."""
    try:
        return _checksum(path).read_bytes() == _line(path).encode()
    except OSError:
        return False
