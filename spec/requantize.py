"""Configuration of a layer's requantization to int8 with a shift of its own."""

from dataclasses import dataclass

from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.elasticzo import ROUNDINGS

__all__ = ["VALUE_BITS", "RequantizeConfig"]

#: Bits of the magnitude of an output value: values are in -127..127.
VALUE_BITS = 7


@dataclass(frozen=True, kw_only=True)
class RequantizeConfig:
    """A layer's wide sums to int8: the shift is found from the layer's greatest magnitude.

    Of one layer and one sample, with b the bits of the greatest magnitude::

        shift = max(b - 7, 0)
        value = max over a pooling square of its sums, negative ones as 0 with ReLU
        output = value / 2^shift, rounded, in -127..127

    With rounding to nearest, half away from zero, b is that of all sums, before ReLU and pooling.
    This rounding is monotone: the outputs are those of a square that is rounded before its
    maximum is taken. Pseudo-stochastic rounding is not monotone: there, b is that of the squares'
    maxima, before ReLU. These are ``pool_first`` False and True of
    :class:`~seedbed.spec.elasticzo.ElasticZoConfig`.

    Parameters
    ----------
    ways
        Sums side by side, 1..64.
    width
        Bits of a sum, 9..32.
    entries
        Depth of the sum buffer: beats that a layer may have after pooling, 2..65536.
    rounding
        ``nearest`` or ``pseudo-stochastic``.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: Wang et al., "NITI" (IEEE TPDS 2022); ElasticZO, section 4.2.
    """

    ways: int = 4
    width: int = 25
    entries: int = 392
    rounding: str = "nearest"

    def __post_init__(self) -> None:
        require_int("ways", self.ways, 1, 64)
        require_int("width", self.width, 9, 32)
        require_int("entries", self.entries, 2, 65536)
        require_choice("rounding", self.rounding, ROUNDINGS)

    @property
    def pool_first(self) -> bool:
        """Whether the greatest magnitude is that of the squares' maxima, not of all sums."""
        return self.rounding != "nearest"

    @property
    def most_shift(self) -> int:
        """The greatest shift: that of the sum -2^(width - 1)."""
        return self.width - VALUE_BITS
