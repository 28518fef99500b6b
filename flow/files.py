"""Files that are either whole or not there."""

import os
from pathlib import Path

__all__ = ["write_atomic"]


def write_atomic(path: Path, content: str | bytes) -> Path:
    """Write ``content`` under a temporary name beside ``path``, then rename; makes the folder.

    A file that holds the same content already is left alone, its date included. Raises ``OSError``
    with nothing left behind.
    """
    raw = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == raw:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(raw)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
