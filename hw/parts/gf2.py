"""XOR networks from GF(2) matrices."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Value

__all__ = ["product"]


def product(matrix, vector) -> Value:
    """Return ``matrix @ vector`` over GF(2), one XOR per row; see :mod:`seedbed.spec.gf2`."""
    return Cat(
        reduce(xor, (vector[c] for c in range(len(vector)) if row >> c & 1)) for row in matrix
    )
