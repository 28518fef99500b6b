"""Proofs that a linear generator has its full period: Berlekamp-Massey, and orders over GF(2).

A polynomial over GF(2) is an integer, bit i the coefficient of x^i.
"""

from collections.abc import Callable, Iterable

__all__ = ["is_primitive", "is_probable_prime", "may_be_irreducible", "minimal_polynomial"]

#: Bases of the primality test: a proof below 3.3e24, and else without a known exception.
BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


def minimal_polynomial(bits: Iterable[int]) -> tuple[int, int]:
    """Return the connection polynomial of a sequence, and its linear complexity.

    Bit i of the polynomial c is 1 if ``bits[n - i]`` is in the sum that is 0 for every n; it is the
    reciprocal of the minimal polynomial. The algorithm is that of Berlekamp and Massey; 2k bits
    determine a recurrence of order k.
    """
    found, previous, length, change = 1, 1, 0, -1
    # Bit i of the window is the bit i places before the current one.
    window = 0
    for n, bit in enumerate(bits):
        window = window << 1 | bit
        if (found & window).bit_count() & 1:
            updated = found ^ previous << (n - change)
            if 2 * length <= n:
                length, change, previous = n + 1 - length, n, found
            found = updated
    return found, length


def _powers_of_x(modulus: int) -> Callable[[int], int]:
    """Return a function from e to x^e modulo the polynomial."""
    degree = modulus.bit_length() - 1

    def shift(value: int) -> int:
        value <<= 1
        return value ^ modulus if value >> degree else value

    # Squaring is linear: the square of a byte of coefficients is an entry of a table.
    images, power = [], 1
    for _ in range(degree):
        images.append(power)
        power = shift(shift(power))
    tables = []
    for start in range(0, degree, 8):
        table = [0]
        for image in images[start : start + 8]:
            table += [value ^ image for value in table]
        tables.append(table)

    def raised(exponent: int) -> int:
        result = 1
        for bit in f"{exponent:b}":
            octets = result.to_bytes(len(tables), "little")
            result = 0
            for table, octet in zip(tables, octets, strict=True):
                result ^= table[octet]
            if bit == "1":
                result = shift(result)
        return result

    return raised


def _checked(polynomial: int) -> int:
    """Return the degree; refuse polynomials for which the tests below have no meaning."""
    if polynomial < 4:
        raise ValueError(f"a polynomial must have degree 2 or more, not {polynomial:#b}")
    return polynomial.bit_length() - 1


def may_be_irreducible(polynomial: int) -> bool:
    """Return whether x^(2^k) = x modulo a polynomial of degree k.

    That is necessary, not sufficient; it excludes nearly all reducible polynomials, and needs no
    factors.
    """
    degree = _checked(polynomial)
    return bool(polynomial & 1) and _powers_of_x(polynomial)(2**degree) == 2


def is_primitive(polynomial: int, primes: Iterable[int]) -> bool:
    """Return whether the order of x modulo a polynomial of degree k is 2^k - 1.

    ``primes`` are the distinct prime factors of 2^k - 1. The powers of x are then all 2^k - 1
    non-zero polynomials of lower degree, so that each has an inverse, and the polynomial is
    irreducible as well.
    """
    period = 2 ** _checked(polynomial) - 1
    raised = _powers_of_x(polynomial)
    return raised(period) == 1 and all(raised(period // prime) != 1 for prime in primes)


def is_probable_prime(number: int) -> bool:
    """Return whether a number passes the test of Miller and Rabin for all of :data:`BASES`."""
    if number < 2 or any(number % base == 0 for base in BASES):
        return number in BASES
    twos = (number - 1 & 1 - number).bit_length() - 1
    for base in BASES:
        value = pow(base, number >> twos, number)
        if value == 1:
            continue
        for _ in range(twos):
            if value == number - 1:
                break
            value = value * value % number
        else:
            return False
    return True
