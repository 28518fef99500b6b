"""Atomic file writes, and checks of output paths."""

import fcntl
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

__all__ = [
    "PERMISSIONS",
    "atomic_path",
    "is_generated",
    "locked",
    "os_error_path",
    "require_folder",
    "require_output",
    "require_outputs",
    "write_all",
    "write_atomic",
    "write_generated",
]

#: Permissions of a new file. The umask can be read only by setting it.
_mask = os.umask(0o022)
os.umask(_mask)
PERMISSIONS = 0o666 & ~_mask


#: A line at the start of a generated source file.
_GENERATED = re.compile(
    r"(//|#|;|<!--) [\w -]+ of seedbed [\w.+]+: |name: ['\"]?seedbed:| ?\"generator\": \"seedbed "
)
#: Lines in which it is searched: a FuseSoC file and a JSON file have another first line.
_LINES = 3


def require_folder(path: Path) -> Path:
    """Return ``path``, a folder that exists or can be created; raise ``OSError`` otherwise.

    Raises ``ValueError`` for '-'.
    """
    _require_no_stream(path)
    existing = path.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(path))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(path))
    return path


def _require_no_stream(path: Path) -> None:
    if str(path) == "-":
        raise ValueError("this output cannot be -, standard output; give a name")


def require_output(path: Path, *, force: bool, generated: bool = False) -> Path:
    """Return ``path``, a file that can be written.

    A file of the user is overwritten only with ``force``. With ``generated``, a source file whose
    first lines say that seedbed wrote it is overwritten, too.

    Raises ``OSError``, and ``ValueError`` for an existing file without ``force``, and for '-'.
    """
    _require_no_stream(path)
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    require_folder(path.parent)
    if not path.exists() or (generated and is_generated(path)):
        return path
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file, and cannot be replaced by the output")
    if not force:
        raise ValueError(f"{path} exists already; --force overwrites it")
    return path


def require_outputs(
    *paths: Path | None, force: bool, generated: bool = False, owned: Collection[str] = ()
) -> None:
    """Check the files of one command as :func:`require_output` does; ``None`` is no file.

    Files whose names are in ``owned`` may be overwritten. Raises ``ValueError`` also for two equal
    paths.
    """
    given = [
        require_output(path, force=force or path.name in owned, generated=generated)
        for path in paths
        if path
    ]
    for k, path in enumerate(given):
        if path.absolute() in [other.absolute() for other in given[:k]]:
            raise ValueError(f"{path} is given for two outputs; each needs a file of its own")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of intermediate files, which is created.

    Another process that asks for it waits. The system releases it when this process ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_generated(path: Path) -> bool:
    """Return whether the first lines of a file say that seedbed wrote it."""
    if not path.is_file():
        return False
    with path.open(errors="replace") as file:
        return any(_GENERATED.match(file.readline(200)) for _ in range(_LINES))


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
    """Provide a temporary path in the same folder, renamed to ``path`` on success, else removed.

    No file has that name before.
    """
    names = (path.with_name(f".{path.name}.{os.getpid()}{end}.part") for end in _endings())
    part = next(name for name in names if not os.path.lexists(name))
    try:
        yield part
        part.replace(path)
    except OSError as problem:
        if problem.filename != str(part):
            raise
        # The user knows no temporary name.
        raise OSError(problem.errno, problem.strerror, str(path)) from problem
    finally:
        # A name that is too long is no file.
        with suppress(OSError):
            part.unlink()


def _endings() -> Iterator[str]:
    yield ""
    yield from (f".{k}" for k in count(1))


def write_generated(
    folder: Path, texts: Mapping[str, str | bytes], *, force: bool, owned: Collection[str] = ()
) -> list[Path]:
    """Write generated files to ``folder`` by name, and return their paths.

    All of them are checked as by :func:`require_output` before one is written. Those of the names
    ``owned`` are known to be generated, as a file of bytes cannot say so.
    """
    paths = [folder / name for name in texts]
    require_outputs(*paths, force=force, generated=True, owned=owned)
    return [write_atomic(path, text) for path, text in zip(paths, texts.values(), strict=True)]


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Write files, all of them or none, and create their folders."""
    with ExitStack() as stack:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = stack.enter_context(atomic_path(path))
            with os_error_path(path):
                part.write_bytes(content)


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
