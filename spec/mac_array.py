"""Configuration of the array of multipliers and accumulators."""

from dataclasses import dataclass

from seedbed.spec.checks import is_zero, require_bool, require_int

__all__ = ["MacArrayConfig"]


@dataclass(frozen=True, kw_only=True)
class MacArrayConfig:
    """A dot product of ``lanes`` weights and as many activations per beat, summed over a frame.

    A beat's lanes form ``blocks`` of equal size, each with its own exponent, from
    ``e_min`` = -2^(exponent_width - 1) up. With block sums s_b, a frame gives the integer::

        sum over its beats and their blocks of s_b 2^(e_b - e_min)

    Parameters
    ----------
    lanes
        Multipliers per way, 1..1024.
    ways
        Dot products of the same activations, each with separate weights and a separate sum, 1..16.
        With more than one there are no exponents.
    vectors
        Dot products of the same weights, each with separate activations and a separate sum, 1..16.
        1 if there are several ways.
    blocks
        Blocks per beat, a divisor of ``lanes``; 1 is an exponent for the whole beat.
    weight_width, activation_width
        Bits of the signed factors, 2..32 each.
    weight_peak
        The greatest magnitude of a weight, 1..2^(weight_width - 1). A smaller one than the width
        allows makes the sums narrower. 0 means 2^(weight_width - 1).
    exponent_width
        Bits of a block's signed exponent, 1..5, or 0 for none.
    beats
        Beats of the longest frame, 1..65536.
    accumulator_width
        Bits of the signed result, 2..64: sums are modulo 2^accumulator_width. 0 means as many as
        the longest frame needs, so that no sum overflows.
    results
        How many frames may be in flight, 2..1024; the next one is not accepted. 0 means as many as
        frames of one beat need for a beat every cycle.
    products
        Whether there is a port of the individual products too, for outer products.
    additions
        Successive additions per stage of an adder tree, 1 or 2. Two take half the registers, and a
        LUT with six inputs adds three numbers at once. One is faster, and smaller with LUTs of
        four inputs.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    lanes: int = 32
    blocks: int = 4
    weight_width: int = 21
    weight_peak: int = 0
    activation_width: int = 16
    exponent_width: int = 4
    beats: int = 64
    accumulator_width: int = 0
    results: int = 0
    ways: int = 1
    vectors: int = 1
    products: bool = False
    additions: int = 2

    def __post_init__(self) -> None:
        require_int("lanes", self.lanes, 1, 1024)
        require_int("blocks", self.blocks, 1, self.lanes)
        if self.lanes % self.blocks:
            raise ValueError(f"blocks must divide the {self.lanes} lanes, not {self.blocks}")
        require_int("weight_width", self.weight_width, 2, 32)
        if is_zero(self.weight_peak):
            object.__setattr__(self, "weight_peak", 1 << (self.weight_width - 1))
        require_int("weight_peak", self.weight_peak, 1, 1 << (self.weight_width - 1))
        require_int("activation_width", self.activation_width, 2, 32)
        require_int("exponent_width", self.exponent_width, 0, 5)
        require_int("ways", self.ways, 1, 16)
        if self.ways > 1 and self.exponent_width:
            raise ValueError(
                f"{self.ways} ways share a beat, which has exponents for one: exponent_width must "
                f"be 0, not {self.exponent_width}"
            )
        require_int("vectors", self.vectors, 1, 16)
        if self.ways > 1 and self.vectors > 1:
            raise ValueError(f"vectors must be 1 with {self.ways} ways, not {self.vectors}")
        require_bool("products", self.products)
        require_int("additions", self.additions, 1, 2)
        require_int("beats", self.beats, 1, 65536)
        if is_zero(self.accumulator_width):
            if self.needed_width > 64:
                raise ValueError(
                    f"frames of {self.beats} beats need {self.needed_width} bits: give fewer beats "
                    "or bits, or an accumulator_width in 2..64, modulo which sums are taken"
                )
            object.__setattr__(self, "accumulator_width", self.needed_width)
        require_int("accumulator_width", self.accumulator_width, 2, 64)
        if not is_zero(self.results):
            require_int("results", self.results, 2, 1024)

    @property
    def block(self) -> int:
        """Lanes of a block."""
        return self.lanes // self.blocks

    @property
    def sums(self) -> int:
        """Sums of a frame: of each way, or of each vector."""
        return self.ways * self.vectors

    @property
    def shifts(self) -> int:
        """Greatest e - e_min, by which a block's sum is shifted to the left."""
        return (1 << self.exponent_width) - 1

    @property
    def product_peak(self) -> int:
        """Greatest magnitude of a product."""
        return self.weight_peak << (self.activation_width - 1)

    @property
    def needed_width(self) -> int:
        """Bits of a signed result of the longest frame, at its factors' extremes."""
        return ((self.product_peak * self.lanes * self.beats) << self.shifts).bit_length() + 1
