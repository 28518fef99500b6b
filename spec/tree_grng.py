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
#: Standard deviation in steps of the output: the range is +-4 sigma, and cut off there.
SIGMA = 32
#: How many of the magnitude's decided bits choose a level's node. The last two levels look at
#: fewer than they could: their nodes share thresholds.
#: Source: the example published with TreeGRNG, which has 1, 1, 2, 4, 8, 16, 16 and 8 nodes.
DEPTHS = (0, 0, 1, 2, 3, 4, 4, 3)
#: Width and leap of each level's LFSR, and how many of its top bits are compared.
LFSRS: dict[str, tuple[tuple[int, int, int], ...]] = {
    # Lengths of the published example, one step a number.
    "published": tuple((width, 1, width) for width in (8, 9, 10, 7, 8, 9, 7, 10)),
    # Widths without common factors, so that the periods have none either; successive words of a
    # level share no bit. The longest registers where they weigh most. The sign needs one bit.
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
#: Cycles from the first level to each one, by the way that the tree is built.
STAGES: dict[str, tuple[int, ...]] = {
    "published": (0,) * BITS,
    # The sign enters last; the last three levels depend on the same four bits.
    "compact": (4, 0, 1, 2, 3, 4, 4, 4),
}


@dataclass(frozen=True, kw_only=True)
class TreeLevel:
    """One level of the tree: its register, how much of it is compared, and with what.

    ``thresholds`` has a value for every node, addressed by the first bits of the magnitude, the
    most significant first: ``upper half = word >= thresholds[node]``, where the word is the top
    ``bits`` of the LFSR's state. ``stage`` counts cycles from the first level on.
    """

    lfsr: LfsrConfig
    bits: int
    stage: int
    thresholds: tuple[int, ...]

    @property
    def chain(self) -> tuple[int, ...]:
        """The state's bits in the order in which the seed's bits come, the first one first.

        While it is loaded, a register is ``leap`` shift chains that follow one another, so that
        load and data are inputs of the feedback alone, and the other bits cost no logic.
        """
        leap, width = self.lfsr.leap, self.lfsr.width
        return tuple(k for start in range(leap) for k in range(start, width, leap))


@dataclass(frozen=True, kw_only=True)
class TreeGrngConfig:
    """``instances`` Gaussian generators of 8 bits, sigma 32, each a binary tree over 8 LFSRs.

    Parameters
    ----------
    instances
        Generators, and numbers a beat, 1..4096.
    lfsrs
        ``published``: lengths 8, 9, 10, 7, 8, 9, 7, 10, one step a number: 68 bits. The signs
        repeat every 255 numbers, and successive magnitudes correlate by 0.32.
        ``repaired``: lengths 23, 19, 17, 16, 13, 15, 7, 11, without common factors, and as many
        steps a number as bits are compared: 121 bits.
    tree
        ``published``: a comparator for every node, and multiplexers; no registers but the LFSRs.
        ``compact``: a comparator for every level whose threshold is looked up, and 10 pipeline
        registers. The same function of the words at less than half of the logic.

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
        """Beats from one instance to the next along the one sequence of numbers.

        The largest that fits ``instances`` times into the period and has no common factor with it,
        so that each level walks through all of its phases too.
        """
        spacing = self.period // self.instances
        while gcd(spacing, self.period) != 1:
            spacing -= 1
        return spacing

    @cached_property
    def seeds(self) -> tuple[tuple[int, ...], ...]:
        """Default seeds, a row of eight an instance.

        The first instance's level l is l elevenths of its own m-sequence from state 1, so that
        registers of one length are apart; instance i runs ``i * spacing`` beats ahead of it.
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

    The Gaussian is that of one half, cut off at 4 sigma: the magnitude m stands for the interval
    m .. m + 1. The other half is its mirror image.
    """
    if level == 0:
        return (1 << (bits - 1),)
    # Mass of each interval that this level halves, split in two.
    half = (1 << (BITS - 1)) >> level
    edges = [erf(k * half / (SIGMA * sqrt(2))) for k in range(2**level + 1)]
    masses = [high - low for low, high in pairwise(edges)]
    # A node that looks at fewer bits than are decided takes their intervals together.
    share = len(masses) >> DEPTHS[level]
    groups = [masses[k : k + share] for k in range(0, len(masses), share)]
    return tuple(round(sum(group[::2]) / sum(group) * 2**bits) for group in groups)
