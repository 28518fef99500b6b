"""Safetensors files of any size in a few megabytes of memory: read and written in pieces."""

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Self

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, TensorSpec, safe_open, serialize_file

from seedbed.flow.run.files import PERMISSIONS, os_error_path

__all__ = ["FLOATS", "Checkpoint", "CheckpointError", "Entry", "require_writable"]

#: NumPy dtypes of compressible tensors, by the format's names.
FLOATS = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}

#: By the format's name of a dtype: the library's name in writing, and bits per element.
DTYPES = {
    "BOOL": ("bool", 8), "U8": ("uint8", 8), "I8": ("int8", 8),
    "U16": ("uint16", 16), "I16": ("int16", 16), "F16": ("float16", 16), "BF16": ("bfloat16", 16),
    "U32": ("uint32", 32), "I32": ("int32", 32), "F32": ("float32", 32),
    "U64": ("uint64", 64), "I64": ("int64", 64), "F64": ("float64", 64), "C64": ("complex64", 64),
    "F8_E4M3": ("float8_e4m3fn", 8), "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2": ("float8_e5m2", 8), "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8), "F4": ("float4_e2m1fn_x2", 4),
}  # fmt: skip

#: Tensors that an error lists.
LISTED = 4
#: Bytes per step of a copy.
CHUNK = 1 << 20


class CheckpointError(ValueError):
    """A file is invalid; the message is one sentence with its name."""


def require_writable(target: Path) -> None:
    """Raise an exception if ``target`` cannot be written."""
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(2, "No such directory", str(target.parent))
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(13, "Permission denied", str(target.parent))


@dataclass(frozen=True)
class Entry:
    """A tensor of a file: the format's name of its dtype, its shape, and its offset."""

    dtype: str
    shape: tuple[int, ...]
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Size of the tensor in bytes."""
        return prod(self.shape) * DTYPES[self.dtype][1] // 8


class Checkpoint:
    """An open safetensors file, read and written on demand.

    The library checks the file and reads its header. The data is then read at its file offset: the
    tensors follow the header in order. The library's slices are not used, because they keep pages
    in memory.

    Members
    -------
    path, tensors, metadata
        The file's name; an :class:`Entry` of each tensor by its name; strings by their keys.

    Raises :class:`CheckpointError` for a file that is no complete safetensors file, and
    ``OSError``.
    """

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.path = path
        if path.exists() and not path.is_file() and not path.is_dir():
            # A device cannot be mapped, and a pipe would be waited for.
            raise CheckpointError(f"{path} is not a regular file")
        # Opened here first: the library's errors name neither the file nor the reason.
        self._file = open(path, "r+b" if writable else "rb", buffering=0)  # noqa: SIM115
        try:
            with os_error_path(path), safe_open(path, framework="numpy") as opened:
                self.metadata: dict[str, str] = opened.metadata() or {}
                self.tensors = self._entries(opened)
        except SafetensorError as problem:
            self.close()
            raise CheckpointError(
                f"{path} is not a complete safetensors file: {problem}"
            ) from problem
        except BaseException:
            self.close()
            raise

    def _entries(self, opened) -> dict[str, Entry]:
        offset = 8 + int.from_bytes(self._file.read(8), "little")
        entries = {}
        for name in opened.offset_keys():
            tensor = opened.get_slice(name)
            dtype, shape = tensor.get_dtype(), tuple(tensor.get_shape())
            if dtype not in DTYPES:
                raise CheckpointError(
                    f"{self.path}: tensor {name!r} is of {dtype}, which cannot be written again; "
                    f"allowed are {', '.join(DTYPES)}"
                )
            if dtype == "F4" and shape[-1] % 2:
                # The library writes F4 in pairs along the last dimension.
                raise CheckpointError(
                    f"{self.path}: tensor {name!r} is of F4 in the shape {list(shape)}, which "
                    f"cannot be written again; its last dimension must be even"
                )
            entries[name] = Entry(dtype, shape, offset)
            offset += entries[name].nbytes
        return entries

    def listing(self) -> str:
        """Return the first tensors with types and shapes, as the rest of a sentence."""
        entries = sorted(self.tensors.items())
        first = [f"{n!r} of {e.dtype} in {list(e.shape)}" for n, e in entries[:LISTED]]
        if len(entries) > LISTED:
            first.append(f"{len(entries) - LISTED} more")
        return f"it has {', '.join(first) or 'no tensors'}"

    @classmethod
    def create(cls, path: Path, tensors: Mapping[str, Entry], metadata: Mapping[str, str]) -> Self:
        """Write a file of zeros with these tensors, and return it open for writing.

        The library writes the file, so that its space is allocated at once. The zeros are one
        anonymous mapping, which takes no memory. ``metadata`` should have at most one key: the
        library writes several keys in arbitrary order, and the file would not be reproducible.
        """
        size = max((entry.nbytes for entry in tensors.values()), default=0)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        with mmap.mmap(-1, max(size, 1), flags=flags, prot=mmap.PROT_READ) as zeros:
            pointer = np.frombuffer(zeros, np.uint8).ctypes.data
            specs = {}
            for name, entry in tensors.items():
                shape = entry.shape
                if entry.dtype == "F4":
                    # The library counts F4 in pairs.
                    shape = (*shape[:-1], shape[-1] // 2)
                specs[name] = TensorSpec(
                    dtype=DTYPES[entry.dtype][0],
                    shape=shape,
                    data_ptr=pointer,
                    data_len=entry.nbytes,
                )
            try:
                serialize_file(specs, path, metadata=dict(metadata))
            except SafetensorError as problem:
                raise OSError(f"{path} cannot be written: {problem}") from problem
            # The library creates the file without permissions for others.
            path.chmod(PERMISSIONS)
        return cls(path, writable=True)

    def file_of(self, name: str) -> Path:
        """Return the file of a tensor, for an error."""
        return self.path

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` of the file."""
        with os_error_path(self.path):
            found = os.pread(self._file.fileno(), size, offset)
        if len(found) != size:
            raise CheckpointError(f"{self.path} was truncated while it was read")
        return found

    def write(self, offset: int, payload: bytes) -> None:
        """Write ``payload`` at ``offset``, inside a tensor of the created file."""
        with os_error_path(self.path):
            written = 0
            while written < len(payload):
                view = memoryview(payload)[written:]
                written += os.pwrite(self._file.fileno(), view, offset + written)

    def copy(self, name: str, target: "Checkpoint") -> None:
        """Copy a tensor unmodified to the tensor of the same name in ``target``."""
        source, destination = self.tensors[name], target.tensors[name]
        for begin in range(0, source.nbytes, CHUNK):
            size = min(CHUNK, source.nbytes - begin)
            target.write(destination.offset + begin, self.read(source.offset + begin, size))

    def sync(self) -> None:
        """Flush all writes to the disk."""
        with os_error_path(self.path):
            os.fsync(self._file.fileno())

    def stamp(self) -> tuple[int, ...]:
        """Return the file's size and modification time, to detect concurrent writes."""
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
