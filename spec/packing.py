"""Configurations of packed 4-bit weights without seeds: tables by row, and scales by group."""

from dataclasses import dataclass
from typing import ClassVar

from seedbed.spec.checks import require_int

__all__ = ["GroupsConfig", "Lut4Config"]


@dataclass(frozen=True, kw_only=True)
class GroupsConfig:
    """Groups of 4-bit codes with a float16 scale each: ``w_c = scale code_c``, code in -8 .. 7.

    A packed group is the scale in the low 16 bits, then the codes, 4 bits each, two's complement.

    Parameters
    ----------
    group
        Weights per group, 32 or 128: 4.5 or 4.125 bits per weight.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    group: int = 32
    #: Bytes of a row before its groups.
    header: ClassVar[int] = 0

    def __post_init__(self) -> None:
        require_int("group", self.group, 32, 128)
        if self.group not in (32, 128):
            raise ValueError(f"group must be 32 or 128, not {self.group}")

    @property
    def block(self) -> int:
        """Weights per group."""
        return self.group

    @property
    def block_bits(self) -> int:
        """Bits of a packed group."""
        return 16 + 4 * self.group


@dataclass(frozen=True, kw_only=True)
class Lut4Config:
    """Rows of 4-bit codes with a table of 16 levels: ``w_c = levels[code_c] 2^exponent``.

    A packed row is the exponent in a byte, the 16 levels in 2 bytes each, low byte first, both in
    two's complement, then the codes, 4 bits each. Levels have 14 bits at most.

    Source: SqueezeLLM (arXiv:2306.07629), section 4.1; the order of bits is this project's.
    """

    #: Bytes of a row before its codes; weights and bits of the unit that is packed.
    header: ClassVar[int] = 33
    block: ClassVar[int] = 1
    block_bits: ClassVar[int] = 4
    #: Levels of a table, and bits of one.
    levels: ClassVar[int] = 16
    level_bits: ClassVar[int] = 14
