"""Safetensors files of any size, in a few megabytes: read in pieces, created and then filled."""

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

from seedbed.flow.files import PERMISSIONS, os_error_path

__all__ = ["FLOATS", "Checkpoint", "CheckpointError", "Entry", "apart"]

#: What a tensor's weights are in NumPy, where they can be compressed.
FLOATS = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}

#: The format's name of a dtype: the library's name for it when it writes, and bits an element.
DTYPES = {
    "BOOL": ("bool", 8), "U8": ("uint8", 8), "I8": ("int8", 8),
    "U16": ("uint16", 16), "I16": ("int16", 16), "F16": ("float16", 16), "BF16": ("bfloat16", 16),
    "U32": ("uint32", 32), "I32": ("int32", 32), "F32": ("float32", 32),
    "U64": ("uint64", 64), "I64": ("int64", 64), "F64": ("float64", 64), "C64": ("complex64", 64),
    "F8_E4M3": ("float8_e4m3fn", 8), "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2": ("float8_e5m2", 8), "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8), "F4": ("float4_e2m1fn_x2", 4),
}  # fmt: skip

#: Bytes that a copy moves at once.
CHUNK = 1 << 20


class CheckpointError(ValueError):
    """A file is not what it should be; the message is one sentence that names it."""


def apart(source: Path, target: Path) -> None:
    """Refuse a target that cannot be written, before hours of work for it."""
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(2, "No such directory", str(target.parent))
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(13, "Permission denied", str(target.parent))
    if target.exists() and target.samefile(source):
        raise ValueError(f"{target} is the input itself; the output must be another file")


@dataclass(frozen=True)
class Entry:
    """A tensor of a file: the format's name of its dtype, its shape, and where its bytes are."""

    dtype: str
    shape: tuple[int, ...]
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return prod(self.shape) * DTYPES[self.dtype][1] // 8


class Checkpoint:
    """An open safetensors file, whose bytes are moved only where they are asked for.

    The library checks the file and reads its header. Bytes are then read where the format puts
    them, one tensor after the other behind the header, because the library's own slices keep what
    they touched in memory.

    Members
    -------
    path, tensors, metadata
        The file's name; an :class:`Entry` of each tensor by its name; strings by their keys.

    Raises :class:`CheckpointError` for what is not a whole safetensors file, and ``OSError``.
    """

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.path = path
        # Opened here first: the library's errors name neither the file nor the reason.
        self._file = open(path, "r+b" if writable else "rb", buffering=0)  # noqa: SIM115
        try:
            with safe_open(path, framework="numpy") as opened:
                self.metadata: dict[str, str] = opened.metadata() or {}
                self.tensors = self._entries(opened)
        except SafetensorError as problem:
            self.close()
            raise CheckpointError(f"{path} is not a whole safetensors file: {problem}") from problem
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
                # The library writes these in pairs along the last dimension.
                raise CheckpointError(
                    f"{self.path}: tensor {name!r} is of F4 in the shape {list(shape)}, which "
                    f"cannot be written again; its last dimension must be even"
                )
            entries[name] = Entry(dtype, shape, offset)
            offset += entries[name].nbytes
        return entries

    @classmethod
    def create(cls, path: Path, tensors: Mapping[str, Entry], metadata: Mapping[str, str]) -> Self:
        """Write a file of zeros with these tensors, and return it open for writing.

        The library writes it, so that all of the room it needs is taken at once; its zeros are
        one mapping of nothing, so that it takes no memory. Give one key of ``metadata`` at most
        where the same bytes are wanted each time: the library writes several in any order.
        """
        size = max((entry.nbytes for entry in tensors.values()), default=0)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        with mmap.mmap(-1, max(size, 1), flags=flags, prot=mmap.PROT_READ) as zeros:
            pointer = np.frombuffer(zeros, np.uint8).ctypes.data
            specs = {}
            for name, entry in tensors.items():
                shape = entry.shape
                if entry.dtype == "F4":
                    # The library counts these in pairs.
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
            # The library lets nobody else read it.
            path.chmod(PERMISSIONS)
        return cls(path, writable=True)

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset`` of the file."""
        with os_error_path(self.path):
            found = os.pread(self._file.fileno(), size, offset)
        if len(found) != size:
            raise CheckpointError(f"{self.path} has become shorter while it was read")
        return found

    def write(self, offset: int, payload: bytes) -> None:
        """Write ``payload`` at ``offset``, which lies in a tensor of the created file."""
        with os_error_path(self.path):
            written = 0
            while written < len(payload):
                view = memoryview(payload)[written:]
                written += os.pwrite(self._file.fileno(), view, offset + written)

    def copy(self, name: str, target: "Checkpoint") -> None:
        """Copy a tensor as it is into the tensor of the same name of ``target``."""
        source, there = self.tensors[name], target.tensors[name]
        for begin in range(0, source.nbytes, CHUNK):
            size = min(CHUNK, source.nbytes - begin)
            target.write(there.offset + begin, self.read(source.offset + begin, size))

    def sync(self) -> None:
        """Return when what was written is on the disk."""
        with os_error_path(self.path):
            os.fsync(self._file.fileno())

    def stamp(self) -> tuple[int, int]:
        """Return the file's size and date, which tell whether it was written to meanwhile."""
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
