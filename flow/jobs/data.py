"""Images for the fine-tuning demonstration: scikit-learn's digits, or MNIST from IDX files."""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

__all__ = ["DataError", "Split", "digits", "few_shot", "mnist", "read_idx", "rotated"]

#: Type code (unsigned bytes) and number of dimensions, as the first four bytes of an IDX file.
MAGIC = {"images": 0x00000803, "labels": 0x00000801}
CLASSES = 10


class DataError(ValueError):
    """A data file is missing or invalid; the message is one sentence."""


@dataclass(frozen=True)
class Split:
    """Three disjoint sets of upright images (count, side, side), float32 in 0..1, and labels.

    ``pre`` is for pre-training, ``tune`` for fine-tuning, ``test`` is held out.
    """

    name: str
    pre: tuple[np.ndarray, np.ndarray]
    tune: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @property
    def counts(self) -> dict[str, int]:
        """Images in each set."""
        return {"pre": len(self.pre[1]), "tune": len(self.tune[1]), "test": len(self.test[1])}


def digits() -> Split:
    """Return scikit-learn's 1797 digits of 8 x 8: 500 for ``pre``, 597 ``tune``, 700 ``test``."""
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8) / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(labels))
    parts = [(images[i], labels[i]) for i in np.split(order, [500, 1097])]
    return Split("digits", *parts)


def mnist(folder: Path) -> Split:
    """Return MNIST from its four IDX files in ``folder``, plain or gzipped.

    Five sixths of the training images are ``pre``, the others ``tune``; the test images are held
    out.
    Raises :class:`DataError`.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; it should hold MNIST's four IDX files")
    images, labels = _pair(folder, "train")
    cut = len(labels) * 5 // 6
    pre, tune = (images[:cut], labels[:cut]), (images[cut:], labels[cut:])
    return Split("mnist", pre, tune, _pair(folder, "t10k"))


def _pair(folder: Path, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the images, scaled to 0..1, and the labels of one of MNIST's two sets."""
    image_file = _find(folder, f"{prefix}-images-idx3-ubyte")
    label_file = _find(folder, f"{prefix}-labels-idx1-ubyte")
    images, labels = read_idx(image_file, "images"), read_idx(label_file, "labels")
    if len(images) != len(labels):
        raise DataError(
            f"{image_file} has {len(images)} images, but {label_file} has {len(labels)} labels"
        )
    if images.shape[1:] != (28, 28):
        raise DataError(
            f"{image_file} has images of {images.shape[1]} x {images.shape[2]}, but MNIST's are "
            f"28 x 28"
        )
    if labels.max(initial=0) >= CLASSES:
        raise DataError(f"{label_file} has the label {labels.max()}, but MNIST's are 0..9")
    return images.astype(np.float32) / 255, labels.astype(np.int64)


def _find(folder: Path, stem: str) -> Path:
    for path in (folder / f"{stem}.gz", folder / stem):
        if path.is_file():
            return path
    raise DataError(f"{folder} has neither {stem}.gz nor {stem}")


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


def rotated(images: np.ndarray, degrees: float) -> np.ndarray:
    """Return the images rotated about their centre, anticlockwise, by bilinear interpolation."""
    return rotate(images, degrees, axes=(2, 1), reshape=False, order=1)


def few_shot(labels: np.ndarray, shots: int, rng: np.random.Generator) -> np.ndarray:
    """Return the indices of ``shots`` images of each class, drawn without replacement.

    Raises :class:`DataError` if a class has fewer.
    """
    chosen = []
    for label in range(CLASSES):
        places = np.flatnonzero(labels == label)
        if len(places) < shots:
            raise DataError(
                f"class {label} has {len(places)} images to fine-tune with, but {shots} are needed"
            )
        chosen.append(rng.choice(places, shots, replace=False))
    return np.concatenate(chosen)
