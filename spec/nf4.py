"""Configuration of 4-bit NormalFloat vectors, quantised by blocks."""

from dataclasses import dataclass

from seedbed.spec.checks import is_zero, require_int
from seedbed.spec.fixed import Q6_12, Fixed, require_format

__all__ = ["NF4_LEVELS", "Nf4Config"]

#: The sixteen levels, code by code. Source: QLoRA (arXiv:2305.14314), appendix E, as in its
#: implementation, bitsandbytes.
NF4_LEVELS = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)


@dataclass(frozen=True, kw_only=True)
class Nf4Config:
    """A block is stored as its peak and a code of 4 bits per number, without a division.

    With integer levels L_c = round(level 2^level_fraction), f = level_fraction and
    s = values.width - 1 - peak_width, a block x is::

        peak   = min(ceil(max|x| / 2^s), 2^peak_width - 1)
        code_k = how many c = 0 .. 14 have x_k > floor(peak (L_c + L_(c+1)) 2^s / 2^(f + 1))
        x_k'   = floor(peak L_c 2^s / 2^f + 1/2), c = code_k

    The peak is rounded up, so that it is at least the greatest magnitude of its block, except
    within 2^s of the format's end. No result overflows. A vector's last block may be shorter.

    Parameters
    ----------
    block
        Numbers per block, 1..4096.
    values
        Format of the numbers, 5..32 bits.
    peak_width
        Bits of a peak, unsigned, 4..values.width - 1.
    level_fraction
        Fractional bits of a level, 6..16.
    lanes, dequantise_lanes
        Numbers per beat of the quantiser and of the dequantiser, 1..256, each a divisor of
        ``block``. 0 means the greatest such power of two up to 32 and 8.
    thresholds
        Thresholds that a number is compared with per cycle, a divisor of 15.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: QLoRA (arXiv:2305.14314), section 3 and appendix E.
    """

    block: int = 64
    values: Fixed = Q6_12
    peak_width: int = 16
    level_fraction: int = 14
    lanes: int = 0
    dequantise_lanes: int = 0
    thresholds: int = 3

    def __post_init__(self) -> None:
        require_int("block", self.block, 1, 4096)
        require_format("values", self.values)
        require_int("the values' width", self.values.width, 5, 32)
        require_int("peak_width", self.peak_width, 4, self.values.width - 1)
        require_int("level_fraction", self.level_fraction, 6, 16)
        if self.shift > self.level_fraction:
            raise ValueError(
                f"peak_width must be at most level_fraction bits less than a magnitude has: "
                f"{self.peak_width} is {self.shift} less than {self.values.width - 1}, but "
                f"level_fraction is {self.level_fraction}"
            )
        for name, most in {"lanes": 32, "dequantise_lanes": 8}.items():
            if is_zero(getattr(self, name)):
                object.__setattr__(self, name, min(most, self.block & -self.block))
            require_int(name, getattr(self, name), 1, 256)
            if self.block % getattr(self, name):
                raise ValueError(
                    f"{name} must divide the block of {self.block} numbers, not "
                    f"{getattr(self, name)}"
                )
        require_int("thresholds", self.thresholds, 1, 15)
        if 15 % self.thresholds:
            raise ValueError(f"thresholds must be 1, 3, 5 or 15, not {self.thresholds}")

    @property
    def shift(self) -> int:
        """Low bits of a number that a peak does not have."""
        return self.values.width - 1 - self.peak_width

    @property
    def levels(self) -> tuple[int, ...]:
        """The integers L_c, ascending."""
        return tuple(round(level * 2**self.level_fraction) for level in NF4_LEVELS)

    @property
    def middles(self) -> tuple[int, ...]:
        """L_c + L_(c+1), twice the middle between neighbours, ascending."""
        return tuple(a + b for a, b in zip(self.levels, self.levels[1:], strict=False))

    def blocks(self, length: int) -> int:
        """Return how many blocks a vector has."""
        return -(-length // self.block)

    def bits(self, length: int) -> int:
        """Return the bits of a quantised vector: codes and peaks."""
        return 4 * length + self.peak_width * self.blocks(length)
