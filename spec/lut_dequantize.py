"""Configuration of the dequantizer with a row's table of levels."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int

__all__ = ["LEVELS", "LutDequantizeConfig"]

#: Levels of a table: a code has 4 bits.
LEVELS = 16


@dataclass(frozen=True, kw_only=True)
class LutDequantizeConfig:
    """Codes of 4 bits, and for each row of a matrix a table of 16 levels and an exponent.

    Weight c of row r is ``levels_r[code_rc] 2^exponent_r``.

    Parameters
    ----------
    lanes
        Codes per beat, 1..1024.
    width
        Bits of a level, 2..32, two's complement.
    load
        Levels per beat of a table, 1, 2 or 4: a table takes 16, 8 or 4 cycles to load.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SqueezeLLM (arXiv:2306.07629), section 4.1.
    """

    lanes: int = 16
    width: int = 14
    load: int = 1

    def __post_init__(self) -> None:
        require_int("lanes", self.lanes, 1, 1024)
        require_int("width", self.width, 2, 32)
        require_int("load", self.load, 1, 4)
        if self.load == 3:
            raise ValueError("load must be 1, 2 or 4, not 3")

    @property
    def beats(self) -> int:
        """Beats of a table."""
        return LEVELS // self.load
