"""Standard output and standard error: nothing that is printed ends the work."""

import io
import os
import sys
from typing import Any

__all__ = ["flush_streams", "setup_streams"]


def setup_streams() -> None:
    """Escape characters that a stream's encoding lacks, and ignore a pipe that its reader closes.

    A stream that is not the process's own, such as a test's, is left unchanged.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue
        stream.flush()
        found = io.TextIOWrapper(
            io.BufferedWriter(_Descriptor(number)),
            encoding=stream.encoding, errors="backslashreplace",
            line_buffering=stream.line_buffering, write_through=stream.write_through,
        )  # fmt: skip
        setattr(sys, name, found)


def flush_streams() -> None:
    """Write what is left in the buffers; raise ``OSError`` for standard output, once."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


class _Descriptor(io.FileIO):
    """A file descriptor that cannot be closed, and is discarded after an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)

    def write(self, data: Any, /) -> int:
        """Write all of ``data`` that the descriptor takes."""
        try:
            return super().write(data) or 0
        except OSError as problem:
            # What is printed later, or is left in the buffer, must raise no second error.
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            # There is no place left for a message that standard error cannot be written.
            if self.fileno() == 2 or isinstance(problem, BrokenPipeError):
                return len(data)
            raise OSError(problem.errno, problem.strerror, "standard output") from problem
