"""Images for the fine-tuning demonstration: scikit-learn's digits, or MNIST from IDX files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

from seedbed.flow.importer.idx import DataError, find_idx, read_idx, read_pair

__all__ = ["DataError", "Split", "digits", "few_shot", "mnist", "read_idx", "rotated"]

CLASSES = 10


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
    images, labels = read_pair(folder, prefix)
    image_file, label_file = (find_idx(folder, prefix, kind) for kind in ("images", "labels"))
    if images.shape[1:] != (28, 28):
        raise DataError(
            f"{image_file} has images of {images.shape[1]} x {images.shape[2]}, but MNIST's are "
            f"28 x 28"
        )
    if labels.max(initial=0) >= CLASSES:
        raise DataError(f"{label_file} has the label {labels.max()}, but MNIST's are 0..9")
    return images.astype(np.float32) / 255, labels.astype(np.int64)


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
