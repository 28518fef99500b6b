"""Search for matrices of LUT-optimised generators with the full period."""

from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import numpy as np

from seedbed.flow.jobs.primitive import is_primitive, may_be_irreducible, minimal_polynomial
from seedbed.spec.checks import require_int
from seedbed.spec.lutopt import Rows, draw, factors

__all__ = ["connection_polynomial", "search"]


def _first_bits(rows: Rows, length: int) -> Iterator[int]:
    """Yield state bit 0 of ``length`` steps from a random state."""
    size, most = len(rows), max(map(len, rows))
    # The bit after the last is 0, in place of a missing tap.
    taps = np.array([(*row, *[size] * (most - len(row))) for row in rows]).T
    random = Random(1)
    state = np.array([*(int(2 * random.random()) for _ in rows), 0], np.uint8)
    for _ in range(length):
        yield int(state[0])
        np.bitwise_xor.reduce(state[taps], axis=0, out=state[:size])


def connection_polynomial(rows: Rows) -> tuple[int, int]:
    """Return the shortest recurrence of a state bit as a polynomial, and its order.

    If the order is k, the size of the matrix, the polynomial is the reciprocal of the
    characteristic polynomial of the matrix.
    """
    return minimal_polynomial(_first_bits(rows, 2 * len(rows)))


def search(
    lanes: int,
    width: int,
    *,
    taps: int = 3,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Return the first seed of :func:`seedbed.spec.lutopt.draw` from ``seed`` on of full period.

    ``progress`` is called with each seed that is tried. About k to 3 k of them are. Raises
    ``TypeError`` or ``ValueError`` for sizes out of range, or 2^k - 1 whose factors are unknown.
    """
    require_int("lanes", lanes, 1, 1024)
    require_int("width", width, 2, 24)
    require_int("taps", taps, 3, 6)
    require_int("seed", seed, 0, 2**31)
    size = lanes * width
    if size < 2 * taps:
        raise ValueError(f"{taps} taps need at least {2 * taps} bits of state, not {size}")
    primes = factors(size)
    for tried in count(seed):
        progress(tried)
        polynomial, order = connection_polynomial(draw(lanes, width, taps, tried))
        full = order == size == polynomial.bit_length() - 1
        if full and may_be_irreducible(polynomial) and is_primitive(polynomial, primes):
            return tried
    raise AssertionError("the draws have no end")
