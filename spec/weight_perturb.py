"""Configuration of the stage that perturbs and updates weights on their way."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int, require_ints
from seedbed.spec.lutopt import SEED_LEAST, LutoptConfig

__all__ = ["MASK_LANES", "WeightPerturbConfig"]

#: Offsets of the lanes whose magnitudes are the mask of a lane: bits 0, 1, 2, 3, counted modulo the
#: bits of a magnitude, the first of them the mask's most significant bit. No sign is in a mask, so
#: that perturbations are uncorrelated.
MASK_LANES = (1, 2, 3, 5)


@dataclass(frozen=True, kw_only=True)
class WeightPerturbConfig:
    """Rows of int8 weights, and the numbers that are added to them.

    A row's weights each have ``bits`` + 1 bits of a generator: magnitude m and sign s. With the
    range r = 2^c - 1, c in 1..bits, the perturbation of a lane is::

        z = (-1)^s (m & r)  where the lane's mask is at least n, else 0

    The mask has four bits, of magnitudes of four other lanes; of 16 numbers, n are 0 on average
    before those whose m is.

    Parameters
    ----------
    lanes, ways
        A row has ``ways`` times ``lanes`` weights.
    bits
        Bits of a magnitude, 1..6.
    rows
        Rows that there are, 1..65536.
    used
        For each buffered row, from row 0 on, how many of its lanes are perturbed. Buffered rows are
        read again and again: their numbers are kept, and need not be read in order.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    lanes: int = 32
    ways: int = 4
    bits: int = 4
    rows: int = 1024
    used: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require_int("lanes", self.lanes, 8, 64)
        require_int("ways", self.ways, 1, 16)
        require_int("bits", self.bits, 1, 6)
        require_int("rows", self.rows, 1, 65536)
        used = require_ints("used", self.used, 0, self.lanes, least=0, most=self.rows)
        object.__setattr__(self, "used", used)
        # Refuses what no generator is known for.
        if self.generator.bits < SEED_LEAST:
            raise ValueError(
                f"a row must have {SEED_LEAST} bits of state or more, not {self.generator.bits}: "
                "two seeds could give the same perturbations; give more lanes or bits"
            )

    @property
    def count(self) -> int:
        """Weights of a row."""
        return self.ways * self.lanes

    @property
    def generator(self) -> LutoptConfig:
        """The generator of a row's bits."""
        return LutoptConfig(lanes=self.count, width=self.bits + 1)

    @property
    def buffered(self) -> int:
        """Buffered rows."""
        return len(self.used)
