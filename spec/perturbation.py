"""Configuration of the stream of perturbations."""

from dataclasses import dataclass, field

from seedbed.spec.checks import is_zero, require_choice, require_int
from seedbed.spec.prng_pool import PoolConfig
from seedbed.spec.scale_lut import MIDPOINTS, ScaleConfig
from seedbed.spec.urng_array import UrngConfig

__all__ = ["PerturbationConfig"]

#: Lanes and bits of a number that each source has in the paper (4.2, Table 6).
DEFAULTS = {"urng": {"lanes": 31, "width": 14}, "pool": {"lanes": 8, "width": 12}}


@dataclass(frozen=True, kw_only=True)
class PerturbationConfig:
    """A perturbation k eps z of any length, named by its seed.

    Parameters
    ----------
    source
        ``urng``: on the fly, from an array of LFSRs, scaled a beat at a time by a table.
        ``pool``: pre-generated, from a circular memory of numbers that were scaled before.
    lanes, width
        Numbers a beat and bits a number; 0 stands for the paper's: 31 lanes of 14 bits from the
        array, 8 lanes of 12 bits from the pool.
    leap
        Bit-serial steps a beat of the array: 1 is the paper, ``width`` gives decorrelated words.
    rounding
        Of the array's scale, see :class:`~seedbed.spec.ScaleConfig`.
    size, banks
        Of the pool, see :class:`~seedbed.spec.PoolConfig`.
    count_width
        Bits of d, the length, 8..32.
    eps_width
        Bits of the signed exponent of eps, 2..8.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: PeZO (ICCAD 2025), section 3 and Eq. 1.
    """

    source: str = "urng"
    lanes: int = 0
    width: int = 0
    leap: int = 1
    rounding: str = "ratio"
    size: int = 4095
    banks: int = 8
    count_width: int = 20
    eps_width: int = 6
    array: UrngConfig | None = field(init=False, repr=False, default=None)
    scale: ScaleConfig | None = field(init=False, repr=False, default=None)
    pool: PoolConfig | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        require_choice("source", self.source, DEFAULTS)
        for name, default in DEFAULTS[self.source].items():
            if is_zero(getattr(self, name)):
                object.__setattr__(self, name, default)
        require_int("count_width", self.count_width, 8, 32)
        require_int("eps_width", self.eps_width, 2, 8)
        # What the other source has is checked too, if only by its widest range.
        require_int("leap", self.leap, 1, 24)
        require_choice("rounding", self.rounding, MIDPOINTS)
        require_int("size", self.size, 3, 65535)
        require_int("banks", self.banks, 1, 32)
        if self.source == "urng":
            scale = ScaleConfig(
                lanes=self.lanes, width=self.width, leap=self.leap, rounding=self.rounding
            )
            object.__setattr__(self, "scale", scale)
            object.__setattr__(self, "array", scale.array)
        else:
            pool = PoolConfig(size=self.size, width=self.width, banks=self.banks, lanes=self.lanes)
            object.__setattr__(self, "pool", pool)

    @property
    def seeds(self) -> range:
        """The seeds that name a perturbation: first words of the array, or places in the pool."""
        return range(1, 2**self.width) if self.source == "urng" else range(self.size)

    @property
    def fraction_bits(self) -> int:
        """f: a lane's signed integer m at exponent e stands for m 2^-f 2^e.

        The array's numbers are fractions of 2^(b-1); the least scale that occurs is left in f, so
        that only what is above it is added to the exponent of eps.
        """
        if self.pool is not None:
            return self.pool.fraction_bits
        assert self.scale is not None
        return self.width - 1 - self.scale.least

    @property
    def exponents(self) -> range:
        """The exponents that a beat can have."""
        top = 1 << (self.eps_width - 1)
        above = self.scale.greatest - self.scale.least if self.scale else 0
        return range(-top, top + above)
