"""IDX files, MNIST's format of images and labels."""

import gzip
import zlib
from pathlib import Path

import numpy as np

__all__ = ["STEMS", "DataError", "find_idx", "read_idx", "read_pair"]

#: Type code (unsigned bytes) and number of dimensions, as the first four bytes of an IDX file.
MAGIC = {"images": 0x00000803, "labels": 0x00000801}
#: Names of the files of a set, without .gz.
STEMS = {"images": "{}-images-idx3-ubyte", "labels": "{}-labels-idx1-ubyte"}


class DataError(ValueError):
    """A data file is missing or invalid; the message is one sentence."""


def find_idx(folder: Path, prefix: str, kind: str) -> Path:
    """Return the file of images or labels of a set, such as ``train``; gzipped, or plain.

    Raises :class:`DataError` if there is none.
    """
    stem = STEMS[kind].format(prefix)
    for path in (folder / f"{stem}.gz", folder / stem):
        if path.is_file():
            return path
    raise DataError(f"{folder} has neither {stem}.gz nor {stem}")


def read_pair(folder: Path, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images and labels of a set, bytes. Raises :class:`DataError`."""
    image_file, label_file = (find_idx(folder, prefix, kind) for kind in ("images", "labels"))
    images, labels = read_idx(image_file, "images"), read_idx(label_file, "labels")
    if len(images) != len(labels):
        raise DataError(
            f"{image_file} has {len(images)} images, but {label_file} has {len(labels)} labels"
        )
    return images, labels


def read_idx(path: Path, kind: str) -> np.ndarray:
    """Return the bytes of an IDX file, shaped as its header says.

    ``kind`` is ``images`` (three dimensions) or ``labels`` (one). A file with the suffix ``.gz`` is
    decompressed. Raises :class:`DataError` for a file of another kind or of the wrong length.
    Source: the format's description on MNIST's page (LeCun et al.).
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            raw = file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    magic, dimensions = MAGIC[kind], MAGIC[kind] & 0xFF
    header = 4 * (1 + dimensions)
    if len(raw) >= 4 and int.from_bytes(raw[:4], "big") != magic:
        raise DataError(
            f"{path} begins with 0x{raw[:4].hex()}, but an IDX file of {kind} begins with "
            f"0x{magic:08x}"
        )
    if len(raw) < header:
        raise DataError(f"{path} has {len(raw)} bytes, less than the {header} of an IDX header")
    shape = [int(size) for size in np.frombuffer(raw, ">u4", 1 + dimensions)[1:]]
    promised = header + int(np.prod(shape, dtype=object))
    if len(raw) != promised:
        raise DataError(f"{path} has {len(raw)} bytes, but its header promises {promised}")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)
