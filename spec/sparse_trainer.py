"""Configuration of the core that tunes a compressed network's kept weights by forward passes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from seedbed.spec.checks import require_bool, require_choice, require_int, require_power
from seedbed.spec.fixed import Q6_12, Fixed, require_format
from seedbed.spec.gemv import SCALE_BITS, GemvConfig
from seedbed.spec.seedlm import SeedlmConfig
from seedbed.spec.softmax_loss import SoftmaxLossConfig
from seedbed.spec.sparse_mac import MOST_SCALE, SPARSE_MAC_SOURCES, SparseMacConfig
from seedbed.spec.trellis import Code, TrellisConfig

__all__ = [
    "SPARSE_TRAINER_DECODES",
    "SPARSE_TRAINER_KINDS",
    "SPARSE_TRAINER_STATUS",
    "DenseLayer",
    "SparseTrainerConfig",
    "require_layers",
]

#: What the weights of a layer are decoded from: blocks of seeds, or a path through a trellis a row.
SPARSE_TRAINER_DECODES = ("seedlm", "trellis")
#: What a command asks for.
SPARSE_TRAINER_KINDS = ("train", "infer", "load", "read", "abort")
#: How a command ended, by code: well; with a command that cannot be run; with a table of layers
#: that does not fit; with a sample of another length; with an error of the memory; with an entry
#: that is before the entry before it, at the same place, or outside its layer; without entries in
#: the core; or aborted.
SPARSE_TRAINER_STATUS = (
    "ok", "command", "layers", "sample", "memory", "order", "repeated", "range", "entries",
    "aborted",
)  # fmt: skip

#: Bits of a bias in memory, and the greatest left shift of a bias.
BIAS_BITS, MOST_BIAS_SHIFT = 32, 15
#: The greatest right shift of a sum.
MOST_SHIFT = 47
#: Bits of the rate, of its right shift, and of a batch's size.
RATE_BITS, RATE_SHIFT_BITS, BATCH_BITS = 16, 5, 13
#: The most bytes and beats that an AXI4 burst may span.
BOUNDARY, BURST = 4096, 256
#: The most bits of a dense or of a sparse sum: with a bias, it fits 64 bits.
MOST_SUM = 62


@dataclass(frozen=True, kw_only=True)
class DenseLayer:
    """A row of the table of layers, which the core walks.

    With the sum of a row, its bias b, and the shifts of the layer::

        y_r = clamp(floor((sum_r + b_r 2^bias_shift) / 2^shift + 1/2)),  with ``relu`` max(y_r, 0)

    Parameters
    ----------
    columns, rows
        Inputs and outputs.
    address
        Where the layer begins in memory, in beats: its biases, 32 bits each, with a trellis code
        the scales of its rows, 16 bits each, then its rows, each of which begins in a new beat.
    plain
        Plain weights instead of packed ones. Not with a trellis code.
    relu
        Negative outputs become 0.
    bias_shift, shift
        See above: 0..15 and 0..47.
    entries
        How many entries of the sparse part are the layer's.
    sparse_shift
        Left shift of the products of entries, see :class:`~seedbed.spec.SparseMacConfig`.
    update_shift
        Left shift of an update, in place of ``sparse_shift``.
    scale
        Exponent of the scale of the perturbation, 0..7.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    columns: int
    rows: int
    address: int = 0
    plain: bool = False
    relu: bool = False
    bias_shift: int = 0
    shift: int = 0
    entries: int = 0
    sparse_shift: int = 0
    update_shift: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        require_int("columns", self.columns, 1, 65536)
        require_int("rows", self.rows, 1, 65536)
        require_int("address", self.address, 0, (1 << 32) - 1)
        require_bool("plain", self.plain)
        require_bool("relu", self.relu)
        require_int("bias_shift", self.bias_shift, 0, MOST_BIAS_SHIFT)
        require_int("shift", self.shift, 0, MOST_SHIFT)
        require_int("entries", self.entries, 0, 65536)
        require_int("sparse_shift", self.sparse_shift, 0, 31)
        require_int("update_shift", self.update_shift, 0, 31)
        require_int("scale", self.scale, 0, MOST_SCALE)


@dataclass(frozen=True, kw_only=True)
class SparseTrainerConfig(SeedlmConfig):
    """A dense network in external memory whose few kept weights are trained by forward passes.

    The network is a table of :class:`DenseLayer`. Layer l of step t has the perturbation z of seed
    ``seed + t layers + l``. With L+ and L- the sums of the batch's losses with +z and -z::

        gain = clamp(floor((L+ - L-) rate / 2^shift + 1/2))

    The rate falls by ``decay`` with each epoch, to 0 at the least.

    Parameters
    ----------
    decode
        What packed rows are, one of :data:`SPARSE_TRAINER_DECODES`: see
        :class:`~seedbed.spec.GemvConfig`.
    bits, state_bits, code
        Of ``trellis``, see :class:`~seedbed.spec.TrellisConfig`.
    layers
        The most layers, 1..16.
    columns
        The most inputs and outputs of a layer, 2..65536.
    classes
        Outputs of the last layer, 2..256.
    entries
        Entries that the core holds, of all layers, 1..65536.
    batch
        The most samples of a batch, 1..4096.
    beat_bits
        Bits of a beat of memory, a power of two, 32..1024.
    plain_width, activation_width, value_width, number_width, most_shift, source
        See :class:`~seedbed.spec.GemvConfig` and :class:`~seedbed.spec.SparseMacConfig`.
        An activation has at most 24 bits.
    logits
        Format of the last layer's outputs and of the loss.
    address_bits
        Bits of an address of memory, in beats, 4..32.
    burst
        The most beats of a burst, a power of two, 2..256.
    drain_cycles
        After an error or a reset, the memory's beats are discarded until none has come for so many
        cycles, 1..65536.
    timeout_cycles
        Cycles without a beat, or with a command that is not taken, after which the memory does not
        answer, at least ``drain_cycles``, up to 2^24.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: SensZOQ (arXiv:2406.02913), sections 3 and 4; SeedLM, PeZO, QTIP.
    """

    decode: str = SPARSE_TRAINER_DECODES[0]
    bits: int = TrellisConfig.bits
    state_bits: int = TrellisConfig.state_bits
    code: Code | None = None
    layers: int = 4
    columns: int = 1024
    classes: int = 10
    entries: int = 256
    batch: int = 256
    beat_bits: int = 64
    plain_width: int = 8
    activation_width: int = 16
    value_width: int = 16
    number_width: int = 8
    most_shift: int = 15
    source: str = SPARSE_MAC_SOURCES[0]
    logits: Fixed = Q6_12
    address_bits: int = 24
    burst: int = BURST
    drain_cycles: int = 256
    timeout_cycles: int = 65536
    gemv: GemvConfig = field(init=False, repr=False)
    loss: SoftmaxLossConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("decode", self.decode, SPARSE_TRAINER_DECODES)
        require_int("layers", self.layers, 1, 16)
        require_int("columns", self.columns, 2, 65536)
        require_int("classes", self.classes, 2, min(256, self.columns))
        require_int("entries", self.entries, 1, 65536)
        require_int("batch", self.batch, 1, (1 << (BATCH_BITS - 1)))
        require_power("beat_bits", self.beat_bits, 32, 1024)
        require_int("activation_width", self.activation_width, 2, 24)
        require_format("logits", self.logits)
        require_int("address_bits", self.address_bits, 4, 32)
        require_power("burst", self.burst, 2, BURST)
        require_int("drain_cycles", self.drain_cycles, 1, 65536)
        require_int("timeout_cycles", self.timeout_cycles, self.drain_cycles, 1 << 24)
        blocks = {name: getattr(self, name) for name in ("block", "latent", "width", "word_bits")}
        side = ("entries", "value_width", "number_width", "most_shift", "source")
        ports = ("beat_bits", "plain_width", "activation_width", "columns", "row_width")
        own = (*ports, *side, "decode", "bits", "state_bits", "code")
        gemv = GemvConfig(**blocks, taps=self.taps, **{name: getattr(self, name) for name in own})
        if gemv.result_width > MOST_SUM:
            raise ValueError(
                f"a sum must have {MOST_SUM} bits at most, not the {gemv.result_width} bits of "
                f"{self.columns} columns and activations of {self.activation_width} bits"
            )
        object.__setattr__(self, "gemv", gemv)
        object.__setattr__(
            self, "loss", SoftmaxLossConfig(classes=self.classes, logits=self.logits)
        )

    @property
    def sparse(self) -> SparseMacConfig:
        """The side path of the entries."""
        assert self.gemv.sparse
        return self.gemv.sparse

    @property
    def row_width(self) -> int:
        """Bits of a number of rows."""
        return self.columns.bit_length()

    @property
    def output(self) -> Fixed:
        """The wider of the formats of an activation and of a logit."""
        return Fixed(max(self.activation_width, self.logits.width), 0)

    @property
    def gain_width(self) -> int:
        """Bits of a gain."""
        return self.activation_width

    @property
    def beat_biases(self) -> int:
        """Biases that a beat holds."""
        return self.beat_bits // BIAS_BITS

    @property
    def beat_scales(self) -> int:
        """Scales of rows that a beat holds."""
        return self.beat_bits // SCALE_BITS

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.beat_bits // 8

    @property
    def page(self) -> int:
        """Beats between two places where a burst ends, a power of two."""
        return min(self.burst, BOUNDARY // self.beat_bytes)

    def row_beats(self, layer: DenseLayer) -> int:
        """Beats of a row of a layer."""
        lanes = self.gemv.plain_lanes if layer.plain else self.gemv.lanes
        return -(-layer.columns // lanes)

    def bias_beats(self, layer: DenseLayer) -> int:
        """Beats of a layer's biases."""
        return -(-layer.rows // self.beat_biases)

    def scale_beats(self, layer: DenseLayer) -> int:
        """Beats of the scales of a layer's rows; none without a trellis code."""
        return -(-layer.rows // self.beat_scales) if self.gemv.trellis else 0

    def layer_beats(self, layer: DenseLayer) -> int:
        """Beats of a layer in memory."""
        head = self.bias_beats(layer) + self.scale_beats(layer)
        return head + layer.rows * self.row_beats(layer)


def require_layers(config: SparseTrainerConfig, layers: Sequence[DenseLayer]) -> None:
    """Refuse a network that does not fit a configuration.

    Raises ``ValueError`` with a sentence that names what is allowed.
    """
    if not 1 <= len(layers) <= config.layers:
        raise ValueError(f"a network must have 1..{config.layers} layers, not {len(layers)}")
    for k, layer in enumerate(layers):
        for name in ("columns", "rows"):
            require_int(f"{name} of layer {k}", getattr(layer, name), 1, config.columns)
        for name in ("sparse_shift", "update_shift"):
            require_int(f"{name} of layer {k}", getattr(layer, name), 0, config.most_shift)
        last = (1 << config.address_bits) - config.layer_beats(layer)
        require_int(f"the address of layer {k}", layer.address, 0, last)
        if layer.plain and config.gemv.trellis:
            raise ValueError(f"layer {k} must not be plain, with the decode trellis")
        if k and layer.columns != layers[k - 1].rows:
            raise ValueError(
                f"layer {k} must have as many columns as the layer before has rows: "
                f"{layers[k - 1].rows}, not {layer.columns}"
            )
    if layers[-1].rows > config.classes:
        raise ValueError(
            f"the last layer must have {config.classes} rows at most, not {layers[-1].rows}"
        )
    entries = sum(layer.entries for layer in layers)
    if entries > config.entries:
        raise ValueError(
            f"the layers must have {config.entries} entries at most, not {entries} of them"
        )
