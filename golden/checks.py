"""Range check of the integers that a model is given."""

import numpy as np

__all__ = ["require_integers"]


def require_integers(name: str, numbers: object, low: int, high: int) -> np.ndarray:
    """Return ``numbers`` as int64; refuse them unless all are whole, and in ``low .. high``.

    A port would silently drop the bits that it does not have, and NumPy the fraction.

    Raises ``TypeError`` for values that are no numbers and ``ValueError`` for the first wrong one.
    """
    found = np.asarray(numbers)
    several = "every one of " if found.ndim else ""
    allowed = f"{several}{name} must be a whole number in {low}..{high}"
    if found.size == 0:
        return found.astype(np.int64)
    if found.dtype.kind not in "iuf":
        raise TypeError(f"{allowed}, not {found.ravel().tolist()[0]!r}")
    # NaN is not in the range either.
    wrong = ~((found >= low) & (found <= high))
    if found.dtype.kind == "f":
        wrong |= found != np.trunc(found)
    if wrong.any():
        raise ValueError(f"{allowed}, not {found[wrong][0]}")
    return found.astype(np.int64, copy=False)
