"""The linear-feedback shift register: tap table, configuration, and its step as a matrix."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from seedbed.spec import gf2
from seedbed.spec.checks import require_int, require_ints

__all__ = ["TAPS", "LfsrConfig", "step_matrix"]

#: Tap indices for every width 2..24, bit 0 least significant; all of maximal length.
#: Source: SeedLM (arXiv:2410.10714), appendix A.1, Table 6.
TAPS: dict[int, tuple[int, ...]] = {
    2: (0, 1),
    3: (0, 1),
    4: (0, 1),
    5: (0, 2),
    6: (0, 1),
    7: (0, 1),
    8: (0, 2, 3, 4),
    9: (0, 4),
    10: (0, 3),
    11: (0, 2),
    12: (0, 1, 2, 8),
    13: (0, 1, 2, 5),
    14: (0, 1, 2, 12),
    15: (0, 1),
    16: (0, 1, 3, 12),
    17: (0, 3),
    18: (0, 7),
    19: (0, 1, 2, 5),
    20: (0, 3),
    21: (0, 2),
    22: (0, 1),
    23: (0, 5),
    24: (0, 1, 2, 7),
}


def step_matrix(width: int, taps: tuple[int, ...]) -> gf2.Matrix:
    """Return A of ``state' = A @ state``, by the bit-serial definition.

    One step shifts right, ``state'[k] = state[k + 1]``, and fills the most significant bit with the
    XOR of the tapped bits.
    """
    return (*(1 << (k + 1) for k in range(width - 1)), sum(1 << tap for tap in taps))


def is_maximal(width: int, taps: tuple[int, ...]) -> bool:
    """Return whether the order of the step matrix is 2^width - 1, the greatest possible period.

    The order divides the period exactly when ``A ** period`` is the identity matrix. It is the
    period itself when no ``A ** (period / prime)`` is the identity.
    """
    step, period, identity = step_matrix(width, taps), 2**width - 1, gf2.identity(width)
    return gf2.power(step, period) == identity and all(
        gf2.power(step, period // prime) != identity for prime in gf2.prime_factors(period)
    )


@dataclass(frozen=True, kw_only=True)
class LfsrConfig:
    """A Fibonacci LFSR of ``width`` bits that advances ``leap`` bit-serial steps per beat.

    Parameters
    ----------
    width
        State bits, 2..24.
    leap
        Bit-serial steps per beat, 1..width. Successive words share no bit at ``leap = width``.
    taps
        Tapped bit indices; by default those of SeedLM's Table 6. Other taps must give a maximal
        length, which is checked by the order of the step matrix.
    seed
        State after reset, 1..2^width - 1: the all-zero state is absorbing. It is never output.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SeedLM (arXiv:2410.10714), section 3.1 and appendix A.1.
    """

    width: int = 8
    leap: int = 1
    taps: tuple[int, ...] | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        require_int("width", self.width, 2, 24)
        require_int("leap", self.leap, 1, self.width)
        require_int("seed", self.seed, 1, 2**self.width - 1)
        if self.taps is None:
            object.__setattr__(self, "taps", TAPS[self.width])
            return
        taps = require_ints("taps", self.taps, 0, self.width - 1, least=1, most=self.width)
        object.__setattr__(self, "taps", taps)
        if len(set(taps)) != len(taps):
            raise ValueError(f"taps must be distinct, not {taps}")
        if not is_maximal(self.width, self.taps):
            raise ValueError(
                f"taps must give a register of {self.width} bits its full period of {self.order}, "
                f"as {TAPS[self.width]} of SeedLM's Table 6 do, not {self.taps}"
            )

    @property
    def order(self) -> int:
        """Number of non-zero states, 2^width - 1: the period of single steps."""
        return 2**self.width - 1

    @property
    def period(self) -> int:
        """Beats after which the words repeat: the order over its common factor with ``leap``."""
        return self.order // gcd(self.order, self.leap)

    @cached_property
    def matrix(self) -> gf2.Matrix:
        """The matrix of one beat, ``leap`` steps."""
        return self.jump(self.leap)

    def jump(self, steps: int) -> gf2.Matrix:
        """Return the matrix of ``steps`` bit-serial steps; a negative number steps backwards."""
        assert self.taps is not None
        return gf2.power(step_matrix(self.width, self.taps), steps % self.order)
