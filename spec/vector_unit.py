"""Formats and tables of the vector unit: what a transformer computes beside its matrices."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import erf, exp, frexp, log, pi, sin, sqrt

from seedbed.spec.checks import require_choice, require_int, require_power
from seedbed.spec.fixed import Fixed

__all__ = ["ACTIVATIONS", "VECTOR_OPERATIONS", "VectorUnitConfig"]


def _silu(x: float) -> float:
    return x / (1 + exp(-x))


def _gelu(x: float) -> float:
    return x * (1 + erf(x / sqrt(2))) / 2


#: Operations of a command, in the order of their codes.
VECTOR_OPERATIONS = (
    "scale",
    "multiply",
    "activate",
    "sum",
    "square",
    "normalise",
    "score",
    "power",
    "mix",
    "angle",
    "sine",
    "rotate",
)

#: Activations by name. Each is max(x, 0) less an even function of x that ends near 0.
ACTIVATIONS = {"relu": lambda x: max(x, 0.0), "silu": _silu, "gelu": _gelu}


@dataclass(frozen=True, kw_only=True)
class VectorUnitConfig:
    """Norms, rotations, softmax, products and activations of vectors of integers.

    Every table has 2^i + 1 entries for 2^i segments, and is interpolated linearly: of a position
    with f bits below the index i::

        y = (T[i] 2^f + (T[i + 1] - T[i]) low) / 2^f

    All bits of it are kept until the result is rounded. All divisions are multiplications by a
    reciprocal, and shifts.

    Parameters
    ----------
    lanes
        Elements a cycle: 2, 4 or 8.
    width
        Bits of an element of a vector, 8..16.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    lanes: int = 8
    width: int = 16

    #: Bits of an element of the residual and of a vector with a shift for each token.
    residual_width = 24
    #: Bits of a number at the input: a sum of products.
    sum_width = 40
    #: Bits of a factor: a gain, a sine, an element of a vector, the shift of a key.
    factor_width = 16
    #: Bits of the number of elements of a command.
    length_bits = 14
    #: Bits of a command's constant: its greatest use is a norm's epsilon.
    constant_bits = 48
    #: Bits of a constant that is a factor, without a sign.
    factor_bits = 17
    #: Bits of a shift to the right.
    shift_bits = 6
    #: The least constant of a sum of squares: its root is then at least 2^2.
    least_epsilon = 16
    #: Fraction bits of reciprocals, reciprocal roots, powers of two and sines: 1 is 2^15.
    table_fraction = 15
    #: Segments of the tables of reciprocals, reciprocal roots and powers of two: 2^8.
    index_bits = 8
    #: Fraction bits of a score, in units of a power of two.
    score_fraction = 12
    #: Bits of a score, with its sign.
    score_width = 24
    #: Segments of the table of sines: 2^9 of half a turn; an angle is a fraction of a turn.
    sine_bits = 9
    #: Bits of an angle, and those that are left of it for the sine.
    angle_bits = 32
    sine_angle_bits = 22
    #: Fraction bits of the vector divided by its norm, before its gain.
    normal_fraction = 17
    #: An activation's table ends at 16, and has 32 segments for each unit.
    activation_end = 16
    activation_bits = 5
    #: Fraction bits of an activation's table: its greatest entry is below 0.28.
    activation_fraction = 17
    #: Fraction bits of an activation's result: those that its table has an index for.
    activated_fractions = (5, 17)
    #: Bits of the multiplier of a score.
    multiplier_bits = 16
    #: Bits of keys and values, which have a shift for each token and head.
    cache_width = 8

    def __post_init__(self) -> None:
        require_power("lanes", self.lanes, 2, 8)
        require_int("width", self.width, 8, 16)

    @property
    def vector(self) -> Fixed:
        """The range of an element of a vector; its fraction is the program's."""
        return Fixed(self.width, 0)

    @property
    def residual(self) -> Fixed:
        """The range of an element of the residual."""
        return Fixed(self.residual_width, 0)

    @property
    def score(self) -> Fixed:
        """The format of a score, in units of a power of two."""
        return Fixed(self.score_width, self.score_fraction)

    @property
    def reciprocals(self) -> tuple[int, ...]:
        """1 / v for v from 1 to 2."""
        count = 1 << self.index_bits
        return self._table(1 / (1 + k / count) for k in range(count + 1))

    @property
    def reciprocal_roots(self) -> tuple[int, ...]:
        """1 / sqrt(v): half of the segments for v from 1 to 2, half of them for 2 to 4."""
        half = 1 << self.index_bits - 1
        points = [1 + k / half for k in range(half)] + [2 + 2 * k / half for k in range(half + 1)]
        return self._table(1 / sqrt(v) for v in points)

    @property
    def powers(self) -> tuple[int, ...]:
        """2^-f for f from 0 to 1."""
        count = 1 << self.index_bits
        return self._table(2 ** (-k / count) for k in range(count + 1))

    @property
    def sines(self) -> tuple[int, ...]:
        """The sine over half a turn; 1 is 2^15 - 1."""
        count = 1 << self.sine_bits
        most = (1 << self.table_fraction) - 1
        found = self._table(sin(pi * k / count) for k in range(count + 1))
        return tuple(min(entry, most) for entry in found)

    def corrections(self, name: str) -> tuple[int, ...]:
        """max(x, 0) less the activation, for x from 0 to 16: an even function of x."""
        require_choice("activation", name, tuple(ACTIVATIONS))
        per_unit = 1 << self.activation_bits
        one = 1 << self.activation_fraction
        points = [k / per_unit for k in range(self.activation_end * per_unit + 1)]
        return tuple(round(one * -ACTIVATIONS[name](-x)) for x in points)

    def score_scale(self, head: int, fraction: int) -> tuple[int, int]:
        """Return multiplier and shift from a sum of products to a score.

        A sum has ``fraction`` fraction bits: those of query and key. A score is the sum times
        log2(e) / sqrt(head), so that its power of two is the exponential.
        """
        mantissa, exponent = frexp(2.0 ** (self.score_fraction - fraction) / log(2) / sqrt(head))
        multiplier = round(mantissa * (1 << self.multiplier_bits))
        if multiplier >> self.multiplier_bits:
            multiplier, exponent = multiplier >> 1, exponent + 1
        return multiplier, self.multiplier_bits - exponent

    def _table(self, reals: Iterable[float]) -> tuple[int, ...]:
        one = 1 << self.table_fraction
        return tuple(round(one * real) for real in reals)
