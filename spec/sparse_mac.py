"""Configuration of the multiplier for a matrix's sparse, trainable part."""

from dataclasses import dataclass
from functools import cached_property

from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.lutopt import LutoptConfig
from seedbed.spec.perturbation import PerturbationConfig

__all__ = [
    "GAIN_FRACTION",
    "SPARSE_MAC_KINDS",
    "SPARSE_MAC_SOURCES",
    "SPARSE_MAC_STATUS",
    "SparseMacConfig",
    "require_vectors",
]

#: What a command asks for.
SPARSE_MAC_KINDS = ("product", "update", "load")
#: What perturbations are drawn from: a linear generator, or PeZO's array or pool.
SPARSE_MAC_SOURCES = ("lutopt", "urng", "pool")
#: The fewest bits of a number of each.
_LEAST_WIDTH = {"lutopt": 2, "urng": 4, "pool": 3}
#: How a command ended, by code: without an error, with an error of its shape, of the vector's or a
#: row's length, aborted, or with an entry that is before the entry before it, at the same place as
#: that, or outside the matrix.
SPARSE_MAC_STATUS = ("ok", "shape", "vector", "row", "cleared", "order", "repeated", "range")
#: Fraction bits of the product of gain and number in an update, before its shift.
GAIN_FRACTION = 16
#: Greatest exponent of the scale of a perturbation.
MOST_SCALE = 7


def require_vectors(vectors: object) -> None:
    """Refuse a number of vectors that is not 1, 2 or 4."""
    require_int("vectors", vectors, 1, 4)
    if vectors == 3:
        raise ValueError("vectors must be 1, 2 or 4, not 3")


@dataclass(frozen=True, kw_only=True)
class SparseMacConfig:
    """Entries (row, column, value) of a sparse matrix that is added to a dense one.

    Entries are sorted by row, then by column, and each place occurs once. With the number z_n of
    entry n, integers of ``number_width`` + 1 bits from a generator that a seed starts::

        v_n' = clamp(v_n + k z_n 2^scale),  k one of -1, 0, 1
        y_r  = dense_r + 2^shift sum of v_n' x_column over the entries of row r
        v_n  = clamp(v_n - floor(gain z_n 2^(shift - 16) + 1/2))     (update)

    ``clamp`` saturates at the ends of ``value_width`` bits.

    Parameters
    ----------
    entries
        Entries that are stored in the core, 1..65536. 0: entries are streamed in each pass.
    value_width
        Bits of a value, 3..24.
    activation_width
        Bits of an activation and of the gain, 2..24.
    columns
        The greatest number of columns, 1..65536.
    group
        Activations per beat of the vector, 1, 2, 4, .. 64.
    row_width
        Bits of the number of rows, 1..32.
    most_shift
        The greatest shift, 0..31.
    sum_width
        Bits of a sum, 8..64: enough for the sparse part of every row.
    number_width
        Bits of the generator per number, less than ``value_width``: 2..16 with ``lutopt``, 4..16
        with ``urng``, 3..16 with ``pool``.
    source
        Of the numbers of a seed s. ``lutopt``: 2 w + 1 of words w of a linear generator that s
        starts. ``urng``: those of an array of LFSRs, lane after lane, times the power of two of
        their beat, with s modulo 2^b as the first word, or 2^b - 1 where that is 0. ``pool``: 4095
        numbers in a circle, from the index on that the lowest 12 bits of s have, reversed; 4095 is
        0. See :class:`~seedbed.spec.PerturbationConfig`.
    vectors
        Vectors x that are multiplied at once, 1, 2 or 4, each with a sign k and sums of its own.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SensZOQ (arXiv:2406.02913), sections 3 and 4; PeZO (ICCAD 2025), section 3.
    """

    entries: int = 4096
    value_width: int = 16
    activation_width: int = 16
    columns: int = 8192
    group: int = 32
    row_width: int = 16
    most_shift: int = 15
    sum_width: int = 64
    number_width: int = 8
    source: str = SPARSE_MAC_SOURCES[0]
    vectors: int = 1

    def __post_init__(self) -> None:
        require_int("entries", self.entries, 0, 65536)
        require_int("value_width", self.value_width, 3, 24)
        require_int("activation_width", self.activation_width, 2, 24)
        require_int("columns", self.columns, 1, 65536)
        require_int("group", self.group, 1, 64)
        if self.group & (self.group - 1):
            raise ValueError(f"group must be a power of two, not {self.group}")
        require_int("row_width", self.row_width, 1, 32)
        require_int("most_shift", self.most_shift, 0, 31)
        require_int("sum_width", self.sum_width, 8, 64)
        require_choice("source", self.source, SPARSE_MAC_SOURCES)
        require_int("number_width", self.number_width, _LEAST_WIDTH[self.source], 16)
        require_vectors(self.vectors)
        if self.number_width >= self.value_width:
            raise ValueError(
                f"number_width must be less than the value_width of {self.value_width} bits, not "
                f"{self.number_width}"
            )
        if self.partial_width > self.sum_width:
            raise ValueError(
                f"sum_width must be at least {self.partial_width} bits, those of the sparse part "
                f"of a row of {self.columns} columns shifted by {self.most_shift}, not "
                f"{self.sum_width}"
            )

    @property
    def product_width(self) -> int:
        """Bits of a value by an activation, and of a number by a gain."""
        return self.value_width + self.activation_width

    @property
    def partial_width(self) -> int:
        """Bits of the sparse part of a row."""
        peak = self.columns << (self.product_width - 2 + self.most_shift)
        return peak.bit_length() + 1

    @property
    def count_width(self) -> int:
        """Bits of a count of entries: 32 if they are streamed."""
        return self.entries.bit_length() or 32

    @property
    def generator(self) -> LutoptConfig:
        """The generator of ``lutopt``, of 64 bits per beat."""
        return LutoptConfig(lanes=16, width=4, seeding="word")

    @cached_property
    def perturbation(self) -> PerturbationConfig:
        """The numbers of ``urng`` and of ``pool``."""
        if self.source == "urng":
            width = self.number_width
            lanes = min(31, (1 << width) - 1)
            return PerturbationConfig(source="urng", lanes=lanes, width=width, count_width=32)
        return PerturbationConfig(
            source="pool", lanes=1, width=self.number_width + 1, banks=1, count_width=32
        )
