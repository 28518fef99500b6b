"""Compilation by numba, cached where there is a folder for it."""

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["LOOSE", "STRICT", "compiled"]

STRICT = {"nogil": True, "error_model": "numpy"}
#: Reordered and fused sums.
LOOSE = {**STRICT, "fastmath": True}


def compiled(**options: Any) -> Callable[[Callable], Callable]:
    """Return numba's decorator, with a cache of compiled code if there is a folder for it."""

    def decorated(function: Callable) -> Callable:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:
            return njit(**options)(function)

    return decorated
