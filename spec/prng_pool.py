"""Configuration and default contents of the pool of pre-generated numbers."""

from dataclasses import dataclass, field
from math import gcd, sqrt
from random import Random

from seedbed.spec.checks import require_bool, require_int, require_ints
from seedbed.spec.scale_lut import expected_norm

__all__ = ["PoolConfig", "uniform_contents"]

#: Seed of the permutation of the default contents.
ORDER_SEED = 1


def uniform_contents(size: int, width: int) -> tuple[int, ...]:
    """Return ``size`` uniform numbers, scaled to a Gaussian's modulus, as signed ``width`` bits.

    The numbers are the integers s = 1 .. 2^K - 1 of K = ``size.bit_length()`` bits, as fractions
    u = (s - 2^(K-1)) / 2^(K-1) in (-1, 1), drawn without replacement in a fixed random order. At
    ``size`` = 2^K - 1 each occurs once, so that the pool is symmetric and its variance exact. Then
    all are scaled by E||N(0, I_size)|| / ||u||, about the square root of 3, rounded to multiples of
    2^-(width - 2), and saturated.

    The order matters: an LFSR's order is linear, and training with it loses accuracy.

    Source: PeZO, Eq. 3 to 5, applied to the whole pool.
    """
    bits = size.bit_length()
    random = Random(ORDER_SEED)
    # Python guarantees the same numbers in every version for random() only.
    drawn = sorted(range(1, 2**bits), key=lambda _: random.random())[:size]
    raw = [s - (1 << (bits - 1)) for s in drawn]
    scale = expected_norm(size) / sqrt(sum(u * u for u in raw))
    top = (1 << (width - 1)) - 1
    return tuple(max(-top, min(top, round(u * scale * 2 ** (width - 2)))) for u in raw)


@dataclass(frozen=True, kw_only=True)
class PoolConfig:
    """A circular sequence of ``size`` numbers, read ``lanes`` per beat from any index.

    Parameters
    ----------
    size
        N numbers, 3..65535, but not a power of two (PeZO writes "4096" for 4095), and no fewer
        than ``lanes``.
    width
        Bits of a signed number, 4..24.
    lanes
        Numbers per beat, 1..32.
    banks
        Memories that store the sequence, a power of two, 1..32: number i is in bank i mod
        ``banks``. Each lane has a multiplexer of ``banks`` columns, so that fewer banks take fewer
        LUTs and more memory bits, (banks + lanes - 1) / banks per number.
    register
        Whether the lanes' multiplexers have an output register: one more cycle of latency and
        ``lanes * width`` flip-flops for a shorter path.
    contents
        The initial ``size`` numbers of the pool, already scaled; by default those of
        :func:`uniform_contents`.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: PeZO (ICCAD 2025), sections 3.1 and 4.2.
    """

    size: int = 4095
    width: int = 12
    lanes: int = 8
    banks: int = 8
    register: bool = True
    contents: tuple[int, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_int("size", self.size, 3, 65535)
        if not self.size & (self.size - 1):
            raise ValueError(
                f"size must not be a power of two, so that no layer's size is a multiple of it "
                f"(use {self.size - 1}), not {self.size}"
            )
        require_int("width", self.width, 4, 24)
        require_int("lanes", self.lanes, 1, 32)
        if self.size < self.lanes:
            raise ValueError(
                f"{self.lanes} lanes need a pool of as many numbers: size must be at least "
                f"{self.lanes}, not {self.size}"
            )
        require_int("banks", self.banks, 1, 32)
        if self.banks & (self.banks - 1):
            raise ValueError(f"banks must be a power of two, not {self.banks}")
        require_bool("register", self.register)
        if self.contents is None:
            object.__setattr__(self, "contents", uniform_contents(self.size, self.width))
            return
        half = 1 << (self.width - 1)
        contents = require_ints(
            "contents", self.contents, -half, half - 1, least=self.size, most=self.size
        )
        object.__setattr__(self, "contents", contents)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The initial numbers of the pool: ``contents``, by default or as given."""
        assert self.contents is not None
        return self.contents

    @property
    def period(self) -> int:
        """Beats of ``lanes`` numbers after which the numbers repeat."""
        return self.size // gcd(self.size, self.lanes)

    @property
    def fraction_bits(self) -> int:
        """f of the default contents: a number m represents m 2^-f, one integer bit and a sign."""
        return self.width - 2

    @property
    def columns(self) -> int:
        """Numbers per row: every window that begins in a row also ends in it."""
        return self.banks + self.lanes - 1

    @property
    def rows(self) -> int:
        """Rows of every bank: a power of two, so that no row address is out of range."""
        return 1 << max(1, ((self.size - 1) // self.banks).bit_length())
