"""Configuration of the matrix-vector product."""

from dataclasses import dataclass, field
from math import gcd
from typing import ClassVar

from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.lut_dequantize import LEVELS, LutDequantizeConfig
from seedbed.spec.mac_array import MacArrayConfig
from seedbed.spec.seedlm import SeedlmConfig
from seedbed.spec.seedlm_decompress import SeedlmDecompressConfig
from seedbed.spec.sparse_mac import (
    SPARSE_MAC_SOURCES,
    SPARSE_MAC_STATUS,
    SparseMacConfig,
    require_vectors,
)
from seedbed.spec.trellis import Code, TrellisConfig
from seedbed.spec.trellis_decompress import TrellisDecompressConfig

__all__ = [
    "DECODES",
    "GEMV_STATUS",
    "AheadGemvConfig",
    "AheadGroupGemvConfig",
    "GemvConfig",
    "GroupGemvConfig",
]

#: What weights are decoded from: blocks of seeds, 4-bit codes with a table per row, a path through
#: a trellis per row, or integers.
DECODES = ("seedlm", "lut4", "trellis", "plain")
#: How a job ended, by code. The codes after "cleared" are of the side path's entries.
GEMV_STATUS = SPARSE_MAC_STATUS
#: Bits of the exponent of a row of codes or symbols.
EXPONENT_BITS = 4
#: Bits of the mantissa of a row of symbols, unsigned.
MANTISSA_BITS = 8
#: Bits of the scale of a row of symbols in memory: a byte each for mantissa and exponent.
SCALE_BITS = 16
#: Weights of a group, and bits of a code where a beat has as many as it can.
GROUP, CODE_BITS = 32, 4
#: Bits of the signed mantissa of a group's scale or minimum, and of the shift to the left of it.
FACTOR_BITS, FACTOR_SHIFT = 12, 4


#: Ranges of what only some decoders, or only a side path, have: checked without them, too.
OPTIONAL = {
    "level_width": (2, 32),
    "level_load": (1, 4),
    "value_width": (3, 24),
    "number_width": (2, 16),
    "most_shift": (0, 31),
}


@dataclass(frozen=True, kw_only=True)
class GemvConfig(SeedlmConfig):
    """y = W x with a beat of W per cycle, for one vector x or several at once.

    Parameters
    ----------
    decode
        What a row of W is, one of :data:`DECODES`. ``seedlm``: blocks as in :class:`SeedlmConfig`
        or, by the command, plain weights; ``lut4``: a table of 16 levels, and 4-bit codes;
        ``trellis``: symbols as in :class:`~seedbed.spec.TrellisConfig`, with a scale for each row;
        ``plain``: plain weights.
    beat_bits
        Bits of a beat of weights, a multiple of 8, 16..4096. It holds as many blocks as fit, 1..32,
        or as many codes, symbols or plain weights as fit, the first one lowest.
    plain_width
        Bits of a plain weight, 2..32.
    level_width
        Bits of a level of ``lut4``, 2..32.
    level_load
        Levels of ``lut4`` that are written per cycle, 1, 2 or 4: a row takes 16, 8 or 4 cycles or
        more.
    bits, state_bits, code
        Of ``trellis``, see :class:`~seedbed.spec.TrellisConfig`.
    activation_width
        Bits of an activation, 2..32.
    columns
        The greatest number of columns, 1..65536.
    row_width
        Bits of the number of rows, 1..32.
    vectors
        Vectors that are multiplied at once, 1, 2 or 4.
    entries
        ``None``: no side path. Otherwise a sparse, trainable matrix is added, as in
        :class:`~seedbed.spec.SparseMacConfig`: its entries that are stored in the core, 1..65536,
        or 0, if entries are streamed.
    value_width, number_width, most_shift, source
        Of the side path, see :class:`~seedbed.spec.SparseMacConfig`.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SeedLM (arXiv:2410.10714), section 4.2 and Figure 4; SqueezeLLM (arXiv:2306.07629),
    section 4.1, for tables; QTIP (arXiv:2406.11235), section 3, for the trellis; SensZOQ
    (arXiv:2406.02913) for the side path.
    """

    decode: str = "seedlm"
    beat_bits: int = 512
    plain_width: int = 16
    level_width: int = 14
    level_load: int = 1
    bits: int = TrellisConfig.bits
    state_bits: int = TrellisConfig.state_bits
    code: Code | None = None
    activation_width: int = 16
    columns: int = 8192
    row_width: int = 32
    vectors: int = 1
    entries: int | None = None
    value_width: int = 16
    number_width: int = 8
    most_shift: int = 15
    source: str = SPARSE_MAC_SOURCES[0]
    decompress: SeedlmDecompressConfig | None = field(init=False, repr=False)
    dequantize: LutDequantizeConfig | None = field(init=False, repr=False)
    trellis: TrellisDecompressConfig | None = field(init=False, repr=False)
    mac: MacArrayConfig = field(init=False, repr=False)
    sparse: SparseMacConfig | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("decode", self.decode, self.decodes)
        require_int("beat_bits", self.beat_bits, 16, 4096)
        if self.beat_bits % 8:
            raise ValueError(f"beat_bits must be a multiple of 8, not {self.beat_bits}")
        require_int("plain_width", self.plain_width, 2, 32)
        require_int("activation_width", self.activation_width, 2, 32)
        require_int("columns", self.columns, 1, 65536)
        require_int("row_width", self.row_width, 1, 32)
        for name, (low, high) in OPTIONAL.items():
            require_int(name, getattr(self, name), low, high)
        require_choice("source", self.source, SPARSE_MAC_SOURCES)
        require_vectors(self.vectors)
        for name in ("decompress", "dequantize", "trellis"):
            object.__setattr__(self, name, None)
        TrellisConfig(bits=self.bits, state_bits=self.state_bits, code=self.code)
        make = {
            "seedlm": self._seedlm, "lut4": self._lut4, "trellis": self._trellis,
            "plain": self._plain, "groups": self._groups,
        }  # fmt: skip
        object.__setattr__(self, "mac", make[self.decode]())
        object.__setattr__(self, "sparse", self._sparse())

    def _seedlm(self) -> MacArrayConfig:
        """Configure the decompressor; return the multipliers."""
        blocks = self.beat_bits // self.block_bits
        if blocks > 32:
            raise ValueError(
                f"beat_bits must hold 32 blocks of {self.block_bits} bits at most, not the "
                f"{blocks} of {self.beat_bits} bits"
            )
        lanes = blocks * self.block
        if not 0 < self.plain_lanes <= lanes:
            raise ValueError(
                f"beat_bits must be enough for a block, and for as many packed weights as plain "
                f"ones: {self.beat_bits} hold {lanes} packed and {self.plain_lanes} plain weights"
            )
        names = ("block", "latent", "width", "word_bits", "taps")
        fields = {name: getattr(self, name) for name in names}
        object.__setattr__(self, "decompress", SeedlmDecompressConfig(**fields, blocks=blocks))
        peaks = 8 * self.latent * self.half, 1 << (self.plain_width - 1)
        return self._multipliers(
            lanes=lanes,
            blocks=blocks,
            weight_width=max(self.sum_width, self.plain_width),
            weight_peak=max(peaks),
            # Packed sums are shifted by up to 15, plain ones are not.
            greatest=max(peaks[0] << 15, peaks[1]),
            beats=-(-self.columns // self.plain_lanes),
        )

    def _lut4(self) -> MacArrayConfig:
        """Configure the dequantizer; return the multipliers."""
        lanes = self.beat_bits // 4
        dequantize = LutDequantizeConfig(lanes=lanes, width=self.level_width, load=self.level_load)
        object.__setattr__(self, "dequantize", dequantize)
        if self.table_levels < self.level_load:
            raise ValueError(
                f"beat_bits must hold {self.level_load} levels of {self.level_width} bits and an "
                f"exponent, not {self.beat_bits}"
            )
        peak = 1 << (self.level_width - 1)
        return self._multipliers(
            lanes=lanes, blocks=1, weight_width=self.level_width, weight_peak=peak,
            greatest=peak << 15, beats=-(-self.columns // lanes),
        )  # fmt: skip

    def _trellis(self) -> MacArrayConfig:
        """Configure the decompressor; return the multipliers."""
        lanes = self.beat_bits // self.bits
        trellis = TrellisDecompressConfig(
            bits=self.bits, state_bits=self.state_bits, code=self.code, lanes=lanes
        )
        object.__setattr__(self, "trellis", trellis)
        return self._multipliers(
            lanes=lanes, blocks=1, weight_width=trellis.width, weight_peak=trellis.peak,
            greatest=trellis.peak, beats=-(-self.columns // lanes), exponent_width=0, additions=1,
        )  # fmt: skip

    def _plain(self) -> MacArrayConfig:
        """Return the multipliers of plain weights."""
        if not self.plain_lanes:
            raise ValueError(
                f"beat_bits must hold a plain weight of {self.plain_width} bits, not "
                f"{self.beat_bits}"
            )
        peak, lanes = 1 << (self.plain_width - 1), self.plain_lanes
        return self._multipliers(
            lanes=lanes, blocks=1, weight_width=self.plain_width, weight_peak=peak, greatest=peak,
            beats=-(-self.columns // lanes), exponent_width=0,
        )  # fmt: skip

    def _groups(self) -> MacArrayConfig:
        """Return the multipliers of groups, whose sums are multiplied by scales after them."""
        peak, lanes = 1 << (self.plain_width - 1), self.beat_bits // CODE_BITS
        # Of a code and of a group's sum of activations, which has the minimum as factor.
        factor = 1 << FACTOR_BITS - 1 + (1 << FACTOR_SHIFT) - 1
        return self._multipliers(
            lanes=lanes, blocks=lanes // GROUP, weight_width=self.plain_width, weight_peak=peak,
            greatest=(peak + 1) * factor, beats=-(-self.columns // self.plain_lanes),
            exponent_width=0,
        )  # fmt: skip

    def _multipliers(
        self, *, lanes: int, blocks: int, weight_width: int, weight_peak: int, greatest: int,
        beats: int, exponent_width: int = MacArrayConfig.exponent_width,
        additions: int = MacArrayConfig.additions,
    ) -> MacArrayConfig:  # fmt: skip
        """Return the multipliers; ``greatest`` is the greatest magnitude of a weight."""
        product = greatest << (self.activation_width - 1)
        return MacArrayConfig(
            lanes=lanes,
            blocks=blocks,
            weight_width=weight_width,
            weight_peak=weight_peak,
            exponent_width=exponent_width,
            additions=additions,
            beats=beats,
            activation_width=self.activation_width,
            vectors=self.vectors,
            accumulator_width=min(64, (product * self.columns).bit_length() + 1),
        )

    def _sparse(self) -> SparseMacConfig | None:
        """Return the configuration of the side path; its sums are as wide as those of the rows."""
        if self.entries is None:
            return None
        names = (
            "entries", "value_width", "number_width", "most_shift", "source", "activation_width",
            "columns", "group", "row_width", "vectors",
        )  # fmt: skip
        fields = {name: getattr(self, name) for name in names}
        partial = SparseMacConfig(**fields).partial_width
        return SparseMacConfig(**fields, sum_width=max(partial, self.dense_width))

    @property
    def packing(self) -> SeedlmConfig | TrellisConfig:
        """How packed weights are stored, with the decodes ``seedlm`` and ``trellis``."""
        return self.trellis or self

    @property
    def result_width(self) -> int:
        """Bits of a result."""
        return self.sparse.sum_width if self.sparse else self.dense_width

    @property
    def dense_width(self) -> int:
        """Bits of a row's sum, with the scale of the row."""
        if not self.trellis:
            return self.mac.accumulator_width
        greatest = ((1 << MANTISSA_BITS) - 1) << ((1 << EXPONENT_BITS) - 1)
        return min(64, (greatest << self.mac.accumulator_width - 1).bit_length() + 1)

    @property
    def lanes(self) -> int:
        """Weights per beat: packed ones, if there are any."""
        return self.mac.lanes

    @property
    def plain_lanes(self) -> int:
        """Plain weights per beat."""
        return self.beat_bits // self.plain_width

    #: What weights can be decoded from.
    decodes: ClassVar[tuple[str, ...]] = DECODES
    #: Whether the vectors of a job can be taken while the one before runs.
    ahead = False

    @property
    def mixed(self) -> bool:
        """Whether a beat has ``lanes`` weights or, as a job says, ``plain_lanes``."""
        return self.decode in ("seedlm", "groups")

    @property
    def group(self) -> int:
        """Activations of a vector per beat of vectors: a divisor of the weights per beat."""
        if self.mixed:
            return gcd(self.lanes, self.plain_lanes)
        return gcd(self.lanes, max(1, self.beat_bits // self.activation_width))

    @property
    def table_levels(self) -> int:
        """Levels per beat of a table, a power of two: as many as fit with the exponent."""
        fit = (self.beat_bits - EXPONENT_BITS) // self.level_width
        return min(LEVELS, 1 << (fit.bit_length() - 1)) if fit > 0 else 0

    @property
    def table_beats(self) -> int:
        """Beats of a row's table."""
        return LEVELS // self.table_levels if self.decode == "lut4" else 0

    def row_beats(self, columns: int, rows: int) -> list[int]:
        """Return the beats up to the last one of each row; plain weights have no tables.

        The table of a row comes a row ahead: the first row has its own and the next one's before
        its weights, and the last of several none.
        """
        beats = -(-columns // self.lanes)
        if rows == 1:
            return [self.table_beats + beats]
        return [beats + self.table_beats * (2 if r == 0 else r < rows - 1) for r in range(rows)]


class AheadGemvConfig(GemvConfig):
    """That of multipliers inside a core, which take the vectors of the next job ahead."""

    ahead = True


class GroupGemvConfig(GemvConfig):
    """That of multipliers inside a core for groups of 32 codes with a scale and a minimum each.

    With the decode ``groups``, a beat has codes 0..15 or, by the job, signed codes of
    ``plain_width`` bits. A weight is ``code scale + minimum``; both are a signed mantissa of 12
    bits, shifted to the left by 0..15, and come with each beat.
    """

    decodes = ("groups",)


class AheadGroupGemvConfig(GroupGemvConfig):
    """That of such multipliers that take the vectors of the next job ahead."""

    ahead = True
