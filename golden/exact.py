"""Exact products of whole numbers, and reproducible ones of float32 matrices.

Both give the same bits on every machine.
"""

import numpy as np

__all__ = ["DOUBLE", "product", "whole_product"]

#: Bits of the significand of a float32, and of a float64.
SINGLE, DOUBLE = 24, 53


def _rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Return ``x`` as float64, rounded to ``bits`` bits below its largest magnitude's power of two.

    Adding a large number rounds ``x`` to that number's last bit; subtracting it restores ``x``.
    """
    peak = max(x.max(initial=0), -x.min(initial=0))
    large = np.ldexp(np.float32(1.5), np.frexp(peak)[1] + 23 - bits)
    return ((x + large) - large).astype(np.float64)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``a @ b``; for float32 operands the result does not depend on the summation order.

    A BLAS has a different summation order for each processor, and training amplifies a difference
    in the last bit. Here both operands are rounded to about 18 bits, so that a float64 holds every
    sum of their products exactly; only the result is rounded to float32.
    """
    if not a.dtype == b.dtype == np.float32:
        return a @ b
    bits = (DOUBLE - a.shape[-1].bit_length()) // 2
    return (_rounded(a, bits) @ _rounded(b, bits)).astype(np.float32)


def _peak(x: np.ndarray) -> int:
    """Return the largest magnitude of whole numbers, as Python's integer."""
    return max(int(x.max(initial=0)), -int(x.min(initial=0)))


def whole_product(a: np.ndarray, b: np.ndarray, *, added: int = 1) -> np.ndarray:
    """Return ``a @ b`` of whole numbers of any type: exact, and whole numbers again.

    The largest magnitudes bound every sum. The product is computed in float32 where the bound is
    below 2^24, else in float64 where it is below 2^53, else in int64: the type of the result. Of
    the result, ``added`` numbers may be added up in its type.

    Raises ``ValueError`` for a bound of 2^63 or more.
    """
    bound = a.shape[-1] * _peak(a) * _peak(b) * added
    if bound >= 1 << 63:
        raise ValueError(f"sums of products must be less than 2^63 = {1 << 63}, not {bound}")
    single, double = bound < 1 << SINGLE, bound < 1 << DOUBLE
    kind = np.float32 if single else np.float64 if double else np.int64
    return a.astype(kind, copy=False) @ b.astype(kind, copy=False)
