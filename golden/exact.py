"""Reproducible products of float32 matrices: the same bits on every machine."""

import numpy as np

__all__ = ["product"]

#: Bits of a float64's significand.
DOUBLE = 53


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
