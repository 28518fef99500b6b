"""Configuration and tables of the sign of a batch's loss difference, from integer logits."""

from dataclasses import dataclass
from math import floor, log2

from seedbed.spec.checks import require_int
from seedbed.spec.elasticzo import LOG2_E
from seedbed.spec.step_levels import require_levels

__all__ = [
    "EXPONENT_BITS",
    "LOGIT_BITS",
    "LOG_BITS",
    "POWER_BITS",
    "RANGE",
    "LossSignConfig",
]

#: Exponents of a power of two that are kept below the largest one. Source: section 4.3.
RANGE = 10
#: Fraction bits of the table of powers of two, and of the mantissa that the logarithm looks at.
POWER_BITS = 14
LOG_BITS = 8
#: Bits of a logit, and of its exponent.
LOGIT_BITS = 8
EXPONENT_BITS = 8


@dataclass(frozen=True, kw_only=True)
class LossSignConfig:
    """The sign of the difference of two passes' losses over a batch: -1, 0 or 1.

    With a the logits of a pass, s their exponent, t the label and F ``fraction``::

        e_j = floor(47274 (a_j - a_t) 2^(s - 15) 2^F),  p = max e_j of both passes - 10 2^F
        S = sum of powers[f] 2^w over j,  w + f / 2^F = max(e_j - p, 0) / 2^F
        loss = 2^F floor(log2 S) + logarithms[8 bits of S after the leading one]
        sign = sign of the sum over the batch of loss(+) - loss(-)

    Parameters
    ----------
    classes
        Logits of a pass, 2..256.
    ways
        Logits side by side, 1..64.
    fraction
        F: fraction bits of exponents and logarithms, 0..8.
    batch
        Samples of a batch, at most, 1..65536.
    levels
        1: the sign is all. 4: the magnitude of the sum over the batch is given out, too.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: ElasticZO, section 4.3, Eq. 6 to 12, which have no fraction bits.
    """

    classes: int = 10
    ways: int = 4
    fraction: int = 4
    batch: int = 4096
    levels: int = 1

    def __post_init__(self) -> None:
        require_int("classes", self.classes, 2, 256)
        require_int("ways", self.ways, 1, 64)
        require_int("fraction", self.fraction, 0, 8)
        require_int("batch", self.batch, 1, 65536)
        require_levels(self.levels)

    @property
    def most_exponent(self) -> int:
        """The greatest exponent: that of a shift by 0."""
        return 15 - self.fraction

    @property
    def most_shift(self) -> int:
        """Bits of the magnitude of 47274 (a_j - a_t): this shift leaves its sign."""
        return (LOG2_E * ((1 << LOGIT_BITS) - 1)).bit_length()

    @property
    def powers(self) -> tuple[int, ...]:
        """2^(k / 2^F), rounded to 14 fraction bits."""
        count = 1 << self.fraction
        return tuple(round(2 ** (k / count) * (1 << POWER_BITS)) for k in range(count))

    @property
    def logarithms(self) -> tuple[int, ...]:
        """log2(1 + k / 2^8), rounded down to F fraction bits."""
        return tuple(
            floor(log2(1 + k / (1 << LOG_BITS)) * (1 << self.fraction))
            for k in range(1 << LOG_BITS)
        )

    @property
    def sum_bits(self) -> int:
        """Bits of S: of as many powers as there are classes."""
        return (self.classes << POWER_BITS + RANGE).bit_length()

    @property
    def most_log(self) -> int:
        """The greatest floor(log2 S), less the fraction bits of the powers."""
        return self.sum_bits - 1 - POWER_BITS

    @property
    def total_bits(self) -> int:
        """Bits, with a sign, of the sum of a batch's differences and of one more loss."""
        loss_bits = self.most_log.bit_length() + self.fraction
        return (((1 << loss_bits) - 1) * (self.batch + 1)).bit_length() + 1
