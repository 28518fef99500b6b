"""Labelled images of a user: a file of NumPy, or a folder with IDX files or with PNG files."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from seedbed.flow.importer.idx import STEMS, read_pair
from seedbed.spec.network import NetworkConfig

__all__ = ["Images", "read", "read_sets"]

#: What a path may be, in a sentence.
ALLOWED = (
    "a file .npz with images and labels, a folder with IDX files, or a folder with a folder of PNG "
    "files for each class"
)


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
    """Return the images of a path that accuracies are of: the test images, where there are any.

    Raises ``ValueError``, as :func:`read_sets`.
    """
    return read_sets(path, network)[-1]


def read_sets(path: Path, network: NetworkConfig) -> list[Images]:
    """Return the one set of images of a path, or training and test images.

    Parameters
    ----------
    path
        A file ``.npz`` with ``images``, (samples, channels, height, width) or without the channel,
        and ``labels``; a folder with one pair of IDX files, or with MNIST's two pairs; or a folder
        with a folder of PNG files for each class, whose labels are the places of the sorted names.
    network
        Images are of its shape, and it has an output for each label.

    Bytes are divided by 255. Raises ``ValueError`` with the path for others, for images that do not
    fit the network, and for labels that it has no output for.
    """
    if not path.is_dir():
        sets = [_arrays(path)]
    elif prefixes := _prefixes(path):
        sets = [read_pair(path, prefix) for prefix in prefixes]
    else:
        sets = [_pictures(path)]
    return [_images(path, *each, network) for each in sets]


def _images(path: Path, x: np.ndarray, labels: np.ndarray, network: NetworkConfig) -> Images:
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
        raise ValueError(f"{path} must be {ALLOWED}: {problem}") from problem
    if x.dtype != np.uint8 and x.dtype.kind != "f":
        raise ValueError(f"{path}: images must be uint8 or floats, not {x.dtype}")
    return x, labels


def _prefixes(folder: Path) -> list[str]:
    """Return the names of the sets of IDX files in a folder, that of the test images last."""
    end = STEMS["images"].format("")
    names = {path.name.removesuffix(".gz") for path in folder.iterdir()}
    found = sorted(name.removesuffix(end) for name in names if name.endswith(end))
    if len(found) > 1 and found != ["t10k", "train"]:
        raise ValueError(
            f"{folder} has IDX files of {', '.join(found)}; allowed is one pair, or train and t10k"
        )
    return found[::-1]


def _pictures(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of a folder's PNG files, as floats, and the places of their folders."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    files = [sorted(path.glob("*.[pP][nN][gG]")) for path in classes]
    if not any(files):
        raise ValueError(f"{folder} must be {ALLOWED}")
    from matplotlib.image import imread

    images: list[np.ndarray] = []
    for path in [path for each in files for path in each]:
        try:
            picture = imread(path)
        except (OSError, SyntaxError, ValueError) as problem:
            raise ValueError(f"{path} is no PNG file that can be read: {problem}") from problem
        # An even number of channels has alpha as the last one.
        channels = picture.shape[2] - (picture.shape[2] + 1) % 2 if picture.ndim == 3 else 1
        maps = np.moveaxis(np.atleast_3d(picture)[..., :channels], -1, 0)
        if images and maps.shape != images[0].shape:
            raise ValueError(
                f"{path} has the shape {maps.shape}, and the images before it {images[0].shape}"
            )
        images.append(maps)
    labels = np.repeat(np.arange(len(classes)), [len(each) for each in files])
    return np.stack(images), labels
