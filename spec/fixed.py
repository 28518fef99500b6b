"""Fixed-point numbers: a format's range, and the rounding and saturation that all formats share."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int

__all__ = ["Q4_12", "Q6_12", "Q8_16", "Q9_9", "Fixed", "require_format"]


@dataclass(frozen=True)
class Fixed:
    """Two's complement of ``width`` bits, ``fraction`` of them fractional.

    An integer n of the format represents n / 2^fraction. A conversion to another format rounds half
    up (adds half, then truncates) and saturates at ``low`` and ``high``.

    Parameters
    ----------
    width
        Bits, including the sign, 2..48.
    fraction
        Fractional bits, 0..width - 1.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    width: int
    fraction: int

    def __post_init__(self) -> None:
        require_int("width", self.width, 2, 48)
        require_int("fraction", self.fraction, 0, self.width - 1)

    def __str__(self) -> str:
        return f"Q{self.width - self.fraction}.{self.fraction}"

    def __repr__(self) -> str:
        return str(self)

    @property
    def low(self) -> int:
        """The least integer."""
        return -(1 << (self.width - 1))

    @property
    def high(self) -> int:
        """The greatest integer."""
        return (1 << (self.width - 1)) - 1

    @property
    def one(self) -> int:
        """The integer that represents 1."""
        return 1 << self.fraction


def require_format(name: str, value: object) -> None:
    """Refuse ``value`` with a ``TypeError`` unless it is a :class:`Fixed`."""
    if not isinstance(value, Fixed):
        raise TypeError(f"{name} must be a number format such as {Q6_12}, not {value!r}")


#: Activations and logits by default: 18 bits, one multiplier of 18 x 18 bits per product.
Q6_12 = Fixed(18, 12)
#: Sums of gradients over a batch by default, for the same multiplier.
Q9_9 = Fixed(18, 9)
#: Activations and logits in the paper. Source: InstantFT, section 4.1.
Q8_16 = Fixed(24, 16)
#: Parameters and gradients. Source: InstantFT, section 4.1.
Q4_12 = Fixed(16, 12)
