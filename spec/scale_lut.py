"""Configuration and contents of the table of power-of-two scaling exponents."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import exp, frexp, lgamma, log, sqrt
from operator import add

from seedbed.spec import gf2
from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.urng_array import UrngConfig

__all__ = ["ScaleConfig", "expected_norm"]

#: From which value between 1 and 2 on the next power of two is the nearest one.
MIDPOINTS = {"value": 1.5, "ratio": sqrt(2)}


def expected_norm(dimension: int) -> float:
    """Return E||N(0, I_d)||, the expected norm of a Gaussian perturbation of ``dimension`` d.

    Source: PeZO, Eq. 4 in the form of Eq. 5, computed with log-gamma.
    """
    return exp(0.5 * log(2) + lgamma((dimension + 1) / 2) - lgamma(dimension / 2))


@dataclass(frozen=True, kw_only=True)
class ScaleConfig:
    """The scaling exponent of a beat of ``lanes`` uniform numbers, from generator 0's state.

    A beat's numbers are u_i = (s_i - 2^(b-1)) / 2^(b-1), and the scale is the power of two nearest
    to E||N(0, I_n)|| / ||u||. The generators' relative phases are fixed, so the first one's state
    determines all the others', and the scale.

    Parameters
    ----------
    lanes, width, leap, taps
        As in :class:`~seedbed.spec.UrngConfig`; ``width`` at most 16 here. The table depends
        on ``leap`` only where the default phases do, see :attr:`UrngConfig.spacing`.
    rounding
        Nearest in ``ratio`` (the midpoint of 1 and 2 is the square root of 2: the smallest relative
        error) or in ``value`` (it is 1.5). The paper says "nearest power of two".

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: PeZO (ICCAD 2025), section 3.2, Eq. 3 to 5.
    """

    lanes: int = 31
    width: int = 8
    leap: int = 1
    rounding: str = "ratio"
    taps: tuple[int, ...] | None = None
    array: UrngConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_int("width", self.width, 4, 16)
        require_choice("rounding", self.rounding, MIDPOINTS)
        array = UrngConfig(
            lanes=self.lanes, width=self.width, leap=self.leap, taps=self.taps, seeding="grown"
        )
        object.__setattr__(self, "taps", array.taps)
        object.__setattr__(self, "array", array)

    def exponent(self, scale: float) -> int:
        """Return e of the power of two 2^e that is nearest to ``scale``."""
        mantissa, power = frexp(scale)
        return power - 1 + (2 * mantissa >= MIDPOINTS[self.rounding])

    @cached_property
    def exponents(self) -> tuple[int, ...]:
        """The exponent for every state 0 .. 2^b - 1; unused state 0 has the most frequent one.

        The sum of squares over the lanes is a sum of shifted copies of one sequence, that of the
        squares along the m-sequence.
        """
        return _exponents(self)

    @cached_property
    def least(self) -> int:
        """The smallest exponent; the table stores offsets from it."""
        return min(self.exponents)

    @cached_property
    def greatest(self) -> int:
        """The greatest exponent."""
        return max(self.exponents)

    @property
    def style(self) -> str:
        """How the table is implemented: the smallest way that its contents allow.

        ``constant`` where only one exponent occurs; ``logic`` where the table's offsets fit
        2^9 bits, eight LUT6; ``memory`` otherwise.
        """
        if self.least == self.greatest:
            return "constant"
        bits = (self.greatest - self.least).bit_length() << self.width
        return "logic" if bits <= 2**9 else "memory"


@lru_cache(maxsize=32)
def _exponents(config: ScaleConfig) -> tuple[int, ...]:
    half = 1 << (config.width - 1)
    step = config.array.lfsr.jump(1)
    states = [1]
    while len(states) < config.array.lfsr.order:
        states.append(gf2.apply(step, states[-1]))
    squares = [(state - half) ** 2 for state in states]
    sums = [0] * len(squares)
    for lane in range(config.lanes):
        start = lane * config.array.spacing % len(squares)
        sums = list(map(add, sums, squares[start:] + squares[:start]))
    norm = half * expected_norm(config.lanes)
    table = [0] * (len(states) + 1)
    for state, total in zip(states, sums, strict=True):
        table[state] = config.exponent(norm / sqrt(total))
    table[0] = Counter(table[1:]).most_common(1)[0][0]
    return tuple(table)
