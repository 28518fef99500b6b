"""Configuration of the tree Gaussian generator: levels, thresholds and seeds."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import erf, gcd, lcm, sqrt

from seedbed.spec import gf2
from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.lfsr import LfsrConfig

__all__ = ["TreeGrngConfig", "TreeLevel"]

#: Bits of the output.
BITS = 8
#: Standard deviation in units of the output: the range is +-4 sigma, truncated there.
SIGMA = 32
#: How many of the magnitude's decided bits select a level's node. The last two levels use fewer
#: than are decided: their nodes share thresholds.
#: Source: the example published with TreeGRNG, which has 1, 1, 2, 4, 8, 16, 16 and 8 nodes.
DEPTHS = (0, 0, 1, 2, 3, 4, 4, 3)
#: Width and leap of each level's LFSR, and how many of its top bits are compared.
LFSRS: dict[str, tuple[tuple[int, int, int], ...]] = {
    # Lengths of the published example, one step a number.
    "published": tuple((width, 1, width) for width in (8, 9, 10, 7, 8, 9, 7, 10)),
    # Coprime widths, so that the periods are coprime; successive words of a level share no bit. The
    # longest registers are at the most significant levels. The sign needs one bit.
    "repaired": (
        (23, 1, 1),
        (19, 9, 9),
        (17, 10, 10),
        (16, 7, 7),
        (13, 8, 8),
        (15, 9, 9),
        (7, 7, 7),
        (11, 10, 10),
    ),
}
#: Cycles from the first level to each level, by the tree's architecture.
STAGES: dict[str, tuple[int, ...]] = {
    "published": (0,) * BITS,
    # The sign is applied last; the last three levels depend on the same four bits.
    "compact": (4, 0, 1, 2, 3, 4, 4, 4),
}


@dataclass(frozen=True, kw_only=True)
class TreeLevel:
    """One level of the tree: its LFSR, how many bits are compared, and the thresholds.

    ``thresholds`` has a value per node, addressed by the first bits of the magnitude, the most
    significant first: ``upper half = word >= thresholds[node]``, where the word is the top
    ``bits`` of the LFSR's state. ``stage`` counts cycles from the first level on.
    """

    lfsr: LfsrConfig
    bits: int
    stage: int
    thresholds: tuple[int, ...]

    @property
    def chain(self) -> tuple[int, ...]:
        """The state's bits in the order of the serial seed bits.

        During a load, a register is ``leap`` shift chains in series, so that load and data are
        inputs of the feedback alone, and the other bits need no logic.
        """
        leap, width = self.lfsr.leap, self.lfsr.width
        return tuple(k for start in range(leap) for k in range(start, width, leap))


@dataclass(frozen=True, kw_only=True)
class TreeGrngConfig:
    """``instances`` Gaussian generators of 8 bits, sigma 32, each a binary tree over 8 LFSRs.

    Parameters
    ----------
    instances
        Generators, and numbers per beat, 1..4096.
    lfsrs
        ``published``: lengths 8, 9, 10, 7, 8, 9, 7, 10, one step per number: 68 bits. The signs
        repeat every 255 numbers, and successive magnitudes correlate by 0.32.
        ``repaired``: lengths 23, 19, 17, 16, 13, 15, 7, 11, pairwise coprime, and as many steps per
        number as bits are compared: 121 bits.
    tree
        ``published``: a comparator per node, and multiplexers; the LFSRs are the only registers.
        ``compact``: a comparator per level, whose threshold is looked up, and 10 pipeline
        registers. The same function of the words with less than half of the logic.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: TreeGRNG (DATE 2024), the baseline of PeZO's Table 6.
    """

    instances: int = 1
    lfsrs: str = "published"
    tree: str = "published"

    def __post_init__(self) -> None:
        require_int("instances", self.instances, 1, 4096)
        require_choice("lfsrs", self.lfsrs, tuple(LFSRS))
        require_choice("tree", self.tree, tuple(STAGES))

    @cached_property
    def levels(self) -> tuple[TreeLevel, ...]:
        """The sign's level, and those of the magnitude's seven bits, most significant first."""
        rows = zip(LFSRS[self.lfsrs], STAGES[self.tree], strict=True)
        return tuple(
            TreeLevel(
                lfsr=LfsrConfig(width=width, leap=leap),
                bits=bits,
                stage=stage,
                thresholds=thresholds(level, bits),
            )
            for level, ((width, leap, bits), stage) in enumerate(rows)
        )

    @property
    def latency(self) -> int:
        """Cycles from the last beat of the seeds, or from reset, to the first number."""
        return 1 + max(level.stage for level in self.levels)

    @property
    def period(self) -> int:
        """Beats after which the numbers repeat."""
        return lcm(*(level.lfsr.period for level in self.levels))

    @property
    def spacing(self) -> int:
        """Beats from one instance to the next along the common sequence of numbers.

        The largest number that fits ``instances`` times into the period and is coprime to it, so
        that each level too uses all of its phases.
        """
        spacing = self.period // self.instances
        while gcd(spacing, self.period) != 1:
            spacing -= 1
        return spacing

    @cached_property
    def seeds(self) -> tuple[tuple[int, ...], ...]:
        """Default seeds, a row of eight per instance.

        The first instance's level l is l elevenths of its m-sequence after state 1, so that
        registers of one length have different phases; instance i is ``i * spacing`` beats ahead.
        """
        row = [
            gf2.apply(level.lfsr.jump(k * level.lfsr.order // 11), 1)
            for k, level in enumerate(self.levels)
        ]
        matrices = [level.lfsr.jump(level.lfsr.leap * self.spacing) for level in self.levels]
        rows = [tuple(row)]
        while len(rows) < self.instances:
            row = [gf2.apply(matrix, state) for matrix, state in zip(matrices, row, strict=True)]
            rows.append(tuple(row))
        return tuple(rows)

    @property
    def seed_beats(self) -> int:
        """Beats of a whole set of seeds: the bits of all registers."""
        return self.instances * sum(level.lfsr.width for level in self.levels)


def thresholds(level: int, bits: int) -> tuple[int, ...]:
    """Return ``P(lower half | prefix) * 2**bits`` for every node of a level, to the nearest.

    The distribution is a half Gaussian, truncated at 4 sigma: the magnitude m represents the
    interval m .. m + 1. The negative half is symmetric.
    """
    if level == 0:
        return (1 << (bits - 1),)
    # Probability mass of the two halves of each interval that this level splits.
    half = (1 << (BITS - 1)) >> level
    edges = [erf(k * half / (SIGMA * sqrt(2))) for k in range(2**level + 1)]
    masses = [high - low for low, high in pairwise(edges)]
    # A node that uses fewer bits than are decided merges their intervals.
    share = len(masses) >> DEPTHS[level]
    groups = [masses[k : k + share] for k in range(0, len(masses), share)]
    return tuple(round(sum(group[::2]) / sum(group) * 2**bits) for group in groups)
