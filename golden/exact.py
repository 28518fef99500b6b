"""Reproducible products of float32 matrices: the same bits on any machine."""

import numpy as np

__all__ = ["product"]

#: Bits of a float64's significand.
DOUBLE = 53


def _rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Return ``x`` as float64, rounded to ``bits`` bits below its largest magnitude's power of two.

    The sum with a large number has its last bit where ``x`` is to have it.
    """
    peak = max(x.max(initial=0), -x.min(initial=0))
    large = np.ldexp(np.float32(1.5), np.frexp(peak)[1] + 23 - bits)
    return ((x + large) - large).astype(np.float64)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``a @ b``; where both are float32, rounded so that no order of summation shows.

    A BLAS adds in an order of its own for each processor, and training makes of the last bit
    another network. Here both operands keep 18 bits or so, as many as let a float64 hold every
    sum of their products exactly, and only the result is rounded to float32.
    """
    if not a.dtype == b.dtype == np.float32:
        return a @ b
    bits = (DOUBLE - a.shape[-1].bit_length()) // 2
    return (_rounded(a, bits) @ _rounded(b, bits)).astype(np.float32)
