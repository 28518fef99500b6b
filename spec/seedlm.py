"""Configuration of SeedLM's blocks of weights, each a seed and a few coefficients."""

from dataclasses import dataclass, field
from typing import ClassVar

from seedbed.spec.checks import is_zero, require_int
from seedbed.spec.lfsr import LfsrConfig

__all__ = ["RULES", "SCALES", "SEEDLM", "SeedlmConfig"]

#: Bits of a coefficient and of the shared exponent, both two's complement.
NIBBLE = 4
#: How an encoder finds the shared exponent: ``fit`` is the least one without an overflow of a
#: coefficient, ``paper`` is floor(log2 max|t|) as printed, which uses only 5 of 16 codes.
RULES = ("fit", "paper")
#: Whether an encoder stores a power-of-two scale with each tensor; ``none`` as in the paper.
SCALES = ("auto", "none")


@dataclass(frozen=True, kw_only=True)
class SeedlmConfig:
    """A block of C weights is a seed of K bits, an exponent and P coefficients of 4 bits.

    The seed's LFSR gives C P words, without the seed itself, which fill V(s) row by row. With B
    bits of each word, the integer that a decompressor gives, and the weight, are::

        S_c = sum over p of q_p (floor(V_cp / 2^(K - B)) - 2^(B - 1))
        w_c = S_c 2^e / (2^(B - 1) - 1), times the tensor's power-of-two scale

    A packed block is the seed in the low K bits, then e, then q_0 .. q_(P - 1), 4 bits each.

    Parameters
    ----------
    block
        C, weights per block, 1..32.
    latent
        P, coefficients per block, 1..8.
    width
        K, bits of the seed, 3..20.
    word_bits
        B, the top bits of each word that are used, 2..K. 0 means K, as in the paper. Fewer bits
        need less hardware, at a small error if the encoder has the same setting.
    taps
        See :class:`LfsrConfig`.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SeedLM (arXiv:2410.10714), sections 3.2 and 3.3; the order of bits is this project's.
    """

    block: int = 8
    latent: int = 3
    width: int = 16
    word_bits: int = 0
    taps: tuple[int, ...] | None = None
    lfsr: LfsrConfig = field(init=False, repr=False)
    #: Bytes of a packed row before its blocks.
    header: ClassVar[int] = 0

    def __post_init__(self) -> None:
        require_int("block", self.block, 1, 32)
        require_int("latent", self.latent, 1, 8)
        require_int("width", self.width, 3, 20)
        if is_zero(self.word_bits):
            object.__setattr__(self, "word_bits", self.width)
        require_int("word_bits", self.word_bits, 2, self.width)
        lfsr = LfsrConfig(width=self.width, taps=self.taps)
        object.__setattr__(self, "taps", lfsr.taps)
        object.__setattr__(self, "lfsr", lfsr)

    @property
    def block_bits(self) -> int:
        """Bits of a packed block, K + 4 + 4 P."""
        return self.width + NIBBLE + NIBBLE * self.latent

    @property
    def bits_per_weight(self) -> float:
        """M of the paper, block_bits / C."""
        return self.block_bits / self.block

    @property
    def half(self) -> int:
        """2^(B - 1), which is subtracted from a word."""
        return 1 << (self.word_bits - 1)

    @property
    def sum_width(self) -> int:
        """Bits of S_c, signed. Its greatest magnitude has every q_p at -8 and every word at 0."""
        return (8 * self.latent * self.half).bit_length() + 1


#: The paper's configurations by bits per weight. Source: SeedLM, Table 1.
SEEDLM: dict[int, SeedlmConfig] = {
    3: SeedlmConfig(block=12, latent=4, width=16),
    4: SeedlmConfig(block=8, latent=3, width=16),
}
