"""Configuration of the array of LFSR uniform generators."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import gcd, lcm

from seedbed.spec import gf2
from seedbed.spec.checks import is_zero, require_bool, require_choice, require_int
from seedbed.spec.lfsr import LfsrConfig

__all__ = ["UrngConfig"]

SEEDINGS = ("serial", "grown")


@dataclass(frozen=True, kw_only=True)
class UrngConfig:
    """``lanes`` LFSRs of ``width`` bits whose outputs rotate by one lane per beat.

    Parameters
    ----------
    lanes
        n = 2^k - 1 generators, 3..1023 (PeZO writes "32" for 31).
    width
        b, bits per generator, 4..24.
    leap
        Bit-serial steps per beat: 1 as in the paper; ``width`` gives decorrelated words.
    tile
        Lanes of the output beat, ``lanes`` or more: the generators are repeated by wiring. 0 means
        ``lanes``.
    seeding
        ``serial``: every generator gets a separate seed, one bit per beat, without extra LUTs.
        ``grown``: the array computes all seeds from one word, each ``spacing`` steps further along
        the same m-sequence, in ``lanes`` cycles, at about two LUTs per bit of *one* lane. One word
        then identifies a perturbation, and the generators keep the relative phases that the scale
        table requires.
    repair
        Whether a zero seed is replaced in hardware (by 2^(width-1)); otherwise the source must not
        send one.
    taps
        See :class:`LfsrConfig`.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: PeZO (ICCAD 2025), section 3.1.
    """

    lanes: int = 31
    width: int = 8
    leap: int = 1
    tile: int = 0
    seeding: str = "serial"
    repair: bool = False
    taps: tuple[int, ...] | None = None
    lfsr: LfsrConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_int("lanes", self.lanes, 3, 1023)
        if self.lanes & (self.lanes + 1):
            raise ValueError(
                f"lanes must be 2^k - 1 (3, 7, 15, .. 1023), so that no layer's width is a "
                f"multiple of it, not {self.lanes}"
            )
        require_int("width", self.width, 4, 24)
        require_int("leap", self.leap, 1, self.width)
        if self.lanes > 2**self.width - 1:
            raise ValueError(
                f"{self.lanes} lanes need as many distinct non-zero states, but {self.width} bits "
                f"have {2**self.width - 1}: use more bits or fewer lanes"
            )
        if is_zero(self.tile):
            object.__setattr__(self, "tile", self.lanes)
        require_int("tile", self.tile, self.lanes, 65536)
        require_choice("seeding", self.seeding, SEEDINGS)
        require_bool("repair", self.repair)
        lfsr = LfsrConfig(width=self.width, leap=self.leap, taps=self.taps)
        object.__setattr__(self, "taps", lfsr.taps)
        object.__setattr__(self, "lfsr", lfsr)

    @cached_property
    def spacing(self) -> int:
        """Bit-serial steps from one generator's default phase to the next.

        They are floor(order / n), or the next smaller number with the full period. Where n divides
        the order, the phases are evenly spaced around the cycle, and rotation by a lane is a step
        by ``spacing``. If ``spacing + leap`` then has a common factor with the order, beats repeat
        early, and a lane gives only a part of the words.
        """
        largest = self.lfsr.order // self.lanes
        # Only an array with as many lanes as states has no smaller number.
        candidates = chain(range(largest, 0, -1), range(2, self.lfsr.order))
        return next(steps for steps in candidates if self._full_period(steps))

    def _full_period(self, steps: int) -> bool:
        """Return whether phases spaced by ``steps`` are distinct and have the full period."""
        order = self.lfsr.order
        if order // gcd(order, steps) < self.lanes:
            return False
        # Without even spacing, only a whole rotation can give the first beat again.
        even = steps * self.lanes % order == 0
        return not even or order // gcd(order, steps + self.leap) == self.period

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Default seeds: generator i at phase ``i * spacing`` of the m-sequence from state 1.

        Neighbouring *numbers* as seeds would correlate by up to 0.5 from lane to lane.
        """
        return self.grow(1)

    def grow(self, seed: int) -> tuple[int, ...]:
        """Return all generators' states for the first one's state, with the default spacing."""
        require_int("seed", seed, 1, self.lfsr.order)
        matrix = self.lfsr.jump(self.spacing)
        states = [seed]
        while len(states) < self.lanes:
            states.append(gf2.apply(matrix, states[-1]))
        return tuple(states)

    @property
    def period(self) -> int:
        """Beats after which the default seeds' beats repeat.

        The least common multiple of the rotation's and of a generator's period. Where n divides
        2^b - 1, :attr:`spacing` is chosen for that.
        """
        return lcm(self.lanes, self.lfsr.period)
