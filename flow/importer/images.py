"""Labelled images of a user: a file of NumPy, or a folder with IDX files."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from seedbed.spec.network import NetworkConfig

__all__ = ["Images", "read"]


@dataclass(frozen=True)
class Images:
    """Images as a network takes them, float32 (samples, channels, height, width), and labels."""

    x: np.ndarray
    labels: np.ndarray

    @property
    def pixels(self) -> np.ndarray | None:
        """The images as bytes, or ``None`` where a number is not in 0..1."""
        if self.x.min() < 0 or self.x.max() > 1:
            return None
        return np.rint(self.x * 255).astype(np.uint8)


def read(path: Path, network: NetworkConfig) -> Images:
    """Return the images of a file ``.npz``, or the test images of a folder with MNIST's IDX files.

    The file has ``images``, (samples, channels, height, width) or one without the channel, and
    ``labels``. Bytes are divided by 255. Raises ``ValueError`` with the path for others, for images
    that do not fit the network, and for labels that it has no output for.
    """
    if path.is_dir():
        from seedbed.flow.jobs.data import mnist

        x, labels = mnist(path).test
    else:
        x, labels = _arrays(path)
    first, outputs = network.layers[0].inputs, network.layers[-1].outputs
    if x.shape[1:] not in (first, first[first[0] == 1 :], (first[0] * first[1] * first[2],)):
        raise ValueError(
            f"{path}: images must be of the network's shape {first}, not {x.shape[1:]}"
        )
    if labels.shape != (len(x),) or labels.dtype.kind not in "iu" or not len(x):
        raise ValueError(
            f"{path}: labels must be integers, one for each of {len(x)} images, at least one, not "
            f"{labels.dtype} of shape {labels.shape}"
        )
    if labels.min() < 0 or labels.max() >= outputs:
        raise ValueError(
            f"{path}: labels must be in 0..{outputs - 1}, the network's outputs, not "
            f"{labels.min()}..{labels.max()}"
        )
    x = x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 else 1)
    if not np.isfinite(x).all():
        raise ValueError(f"{path}: images have a number that is infinite or not a number")
    return Images(x.reshape(len(x), *first), labels.astype(np.int64))


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            missing = [name for name in ("images", "labels") if name not in file]
            if missing:
                raise ValueError(f"it has no array {missing[0]!r}")
            x, labels = file["images"], file["labels"]
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, TypeError, EOFError, BadZipFile, AttributeError) as problem:
        raise ValueError(
            f"{path} must be a file .npz with images and labels, or a folder with IDX files: "
            f"{problem}"
        ) from problem
    if x.dtype != np.uint8 and x.dtype.kind != "f":
        raise ValueError(f"{path}: images must be uint8 or floats, not {x.dtype}")
    return x, labels
