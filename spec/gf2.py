"""Linear algebra over GF(2) on tuples of row masks.

A K x K matrix is a tuple of K integers: bit ``c`` of row ``r`` is the element at (r, c). A vector
is an integer, bit 0 first. K is at most 24. The bit-serial definition of the LFSR gives one matrix;
these functions give its powers.
"""

__all__ = ["apply", "identity", "multiply", "power", "prime_factors"]

Matrix = tuple[int, ...]


def identity(size: int) -> Matrix:
    """Return the identity matrix."""
    return tuple(1 << row for row in range(size))


def apply(matrix: Matrix, vector: int) -> int:
    """Return the product ``matrix @ vector``: bit r is the parity of row r masked by the vector."""
    return sum(((row & vector).bit_count() & 1) << r for r, row in enumerate(matrix))


def multiply(left: Matrix, right: Matrix) -> Matrix:
    """Return ``left @ right``."""

    def row(mask: int) -> int:
        total = 0
        for r, other in enumerate(right):
            if mask >> r & 1:
                total ^= other
        return total

    return tuple(row(mask) for mask in left)


def power(matrix: Matrix, exponent: int) -> Matrix:
    """Return ``matrix ** exponent`` for ``exponent >= 0``, by repeated squaring."""
    result = identity(len(matrix))
    while exponent:
        if exponent & 1:
            result = multiply(result, matrix)
        matrix = multiply(matrix, matrix)
        exponent >>= 1
    return result


def prime_factors(number: int) -> list[int]:
    """Return the distinct prime factors of ``number``, in ascending order, by trial division."""
    factors = []
    candidate = 2
    while candidate * candidate <= number:
        if number % candidate == 0:
            factors.append(candidate)
            while number % candidate == 0:
                number //= candidate
        candidate += 1
    return [*factors, number] if number > 1 else factors
