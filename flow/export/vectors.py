"""Arrays in files of NumPy: vectors of a product, and numbers of a pool."""

from io import BytesIO
from pathlib import Path

import numpy as np

from seedbed.flow.importer.integers import integer_weights

__all__ = ["npy_bytes", "read_array", "read_vectors"]


def npy_bytes(numbers: np.ndarray) -> bytes:
    """Return the content of a ``.npy`` file."""
    file = BytesIO()
    np.save(file, numbers)
    return file.getvalue()


def read_array(path: Path) -> np.ndarray:
    """Return the array of a ``.npy`` file; raise ``ValueError`` with the file's name."""
    try:
        found = np.load(path, allow_pickle=False)
    except OSError as problem:
        if problem.strerror is None:
            raise ValueError(f"{path} is not a complete .npy file") from problem
        raise
    except (ValueError, EOFError, SyntaxError, MemoryError) as problem:
        raise ValueError(f"{path} is not a complete .npy file") from problem
    if not isinstance(found, np.ndarray):
        found.close()
        raise ValueError(f"{path} is not a .npy file: it has several arrays")
    return found


def read_vectors(
    path: Path, shape: tuple[int, ...], width: int, *, several: bool = False
) -> tuple[np.ndarray, int | None]:
    """Return vectors of ``width`` bits, int64, and the exponent of their unit.

    Integers must be in the range. Floating-point numbers are scaled by a power of two, so that the
    largest one fills the range, and rounded; the exponent of integers is ``None``.

    Parameters
    ----------
    path, shape
        The file: an array of this shape.
    several
        Whether a list of such arrays, with one dimension more, is allowed, too.

    Raises ``ValueError`` with the file's name for another array.
    """
    found = read_array(path)
    listed = several and found.ndim == len(shape) + 1 and len(found)
    if found.shape[1 if listed else 0 :] != shape:
        wanted = f"{'N x ' * several}{_text(shape)}"
        raise ValueError(f"{path} must be an array of {wanted}, not of {_text(found.shape)}")
    if found.dtype.kind in "iu":
        half = 1 << (width - 1)
        wrong = (found < -half) | (found >= half)
        if wrong.any():
            raise ValueError(
                f"{path} must have numbers of {width} bits, {-half}..{half - 1}, not "
                f"{found[wrong][0]}"
            )
        return found.astype(np.int64), None
    if found.dtype.kind != "f":
        raise ValueError(f"{path} must have integers or floating-point numbers, not {found.dtype}")
    if not np.isfinite(found).all():
        raise ValueError(f"{path} has numbers that are not finite")
    return integer_weights(found.astype(np.float64), width)


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"
