"""Configuration of the matrix-vector product."""

from dataclasses import dataclass, field
from math import gcd

from seedbed.spec.checks import require_int
from seedbed.spec.mac_array import MacArrayConfig
from seedbed.spec.seedlm import SeedlmConfig
from seedbed.spec.seedlm_decompress import SeedlmDecompressConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_STATUS, SparseMacConfig

__all__ = ["GEMV_STATUS", "GemvConfig"]

#: How a job ended, by code. The codes after "cleared" are of the side path's entries.
GEMV_STATUS = SPARSE_MAC_STATUS


@dataclass(frozen=True, kw_only=True)
class GemvConfig(SeedlmConfig):
    """y = W x with a beat of W per cycle: blocks as in :class:`SeedlmConfig`, or plain weights.

    Parameters
    ----------
    beat_bits
        Bits of a beat of weights, a multiple of 8, 16..4096. It holds as many blocks as fit, 1..32,
        or as many plain weights as fit, the first one lowest.
    plain_width
        Bits of a plain weight, 2..32.
    activation_width
        Bits of an activation, 2..32.
    columns
        The greatest number of columns, 1..65536.
    row_width
        Bits of the number of rows, 1..32.
    entries
        ``None``: no side path. Otherwise a sparse, trainable matrix is added, as in
        :class:`~seedbed.spec.SparseMacConfig`: its entries that are stored in the core, 1..65536,
        or 0, if entries are streamed.
    value_width, number_width, most_shift
        Of the side path, see :class:`~seedbed.spec.SparseMacConfig`.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SeedLM (arXiv:2410.10714), section 4.2 and Figure 4.
    """

    beat_bits: int = 512
    plain_width: int = 16
    activation_width: int = 16
    columns: int = 8192
    row_width: int = 32
    entries: int | None = None
    value_width: int = 16
    number_width: int = 8
    most_shift: int = 15
    decompress: SeedlmDecompressConfig = field(init=False, repr=False)
    mac: MacArrayConfig = field(init=False, repr=False)
    sparse: SparseMacConfig | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("beat_bits", self.beat_bits, 16, 4096)
        if self.beat_bits % 8:
            raise ValueError(f"beat_bits must be a multiple of 8, not {self.beat_bits}")
        require_int("plain_width", self.plain_width, 2, 32)
        require_int("activation_width", self.activation_width, 2, 32)
        require_int("columns", self.columns, 1, 65536)
        require_int("row_width", self.row_width, 1, 32)
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
        decompress = SeedlmDecompressConfig(**fields, blocks=blocks)
        peaks = 8 * self.latent * self.half, 1 << (self.plain_width - 1)
        # Packed sums are shifted by up to 15, plain ones are not.
        product = max(peaks[0] << 15, peaks[1]) << (self.activation_width - 1)
        mac = MacArrayConfig(
            lanes=lanes,
            blocks=blocks,
            weight_width=max(self.sum_width, self.plain_width),
            weight_peak=max(peaks),
            activation_width=self.activation_width,
            beats=-(-self.columns // self.plain_lanes),
            accumulator_width=min(64, (product * self.columns).bit_length() + 1),
        )
        object.__setattr__(self, "decompress", decompress)
        object.__setattr__(self, "mac", mac)
        object.__setattr__(self, "sparse", self._sparse())

    def _sparse(self) -> SparseMacConfig | None:
        """Return the configuration of the side path; its sums are as wide as those of the rows."""
        if self.entries is None:
            return None
        names = ("entries", "value_width", "number_width", "most_shift", "activation_width")
        fields = {name: getattr(self, name) for name in (*names, "columns", "group", "row_width")}
        partial = SparseMacConfig(**fields).partial_width
        return SparseMacConfig(**fields, sum_width=max(partial, self.mac.accumulator_width))

    @property
    def result_width(self) -> int:
        """Bits of a result."""
        return self.sparse.sum_width if self.sparse else self.mac.accumulator_width

    @property
    def lanes(self) -> int:
        """Packed weights per beat."""
        return self.decompress.lanes

    @property
    def plain_lanes(self) -> int:
        """Plain weights per beat."""
        return self.beat_bits // self.plain_width

    @property
    def group(self) -> int:
        """Activations per beat of the vector: a divisor of ``lanes`` and of ``plain_lanes``."""
        return gcd(self.lanes, self.plain_lanes)
