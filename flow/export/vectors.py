"""The vector of a product: from a file of NumPy, or random."""

from pathlib import Path

import numpy as np

from seedbed.flow.export.tensors import integer_weights

__all__ = ["read_array", "read_vectors"]


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
    path: Path, shape: tuple[int | None, ...], width: int
) -> tuple[np.ndarray, int | None]:
    """Return vectors of ``width`` bits, int64, and the exponent of their unit.

    Integers must be in the range. Floating-point numbers are scaled by a power of two, so that the
    largest one fills the range, and rounded; the exponent of integers is ``None``.

    Parameters
    ----------
    path
        The file: an array of ``shape``.
    shape
        What is allowed; ``None`` is any number but 0.

    Raises ``ValueError`` with the file's name for another array.
    """
    found = read_array(path)
    fits = found.ndim == len(shape) and all(
        size == (wanted if wanted is not None else max(size, 1))
        for size, wanted in zip(found.shape, shape, strict=True)
    )
    if not fits:
        wanted = " x ".join("N" if size is None else str(size) for size in shape)
        raise ValueError(
            f"{path} must be an array of {wanted}, not of "
            f"{' x '.join(map(str, found.shape)) or 'one number'}"
        )
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
