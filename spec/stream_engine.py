"""Programs of the streamed engine: what it does with a block of tokens, and the formats of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from seedbed.spec.checks import require_bool, require_choice, require_int, require_power
from seedbed.spec.engine_records import KEPT_BITS
from seedbed.spec.gemv import (
    GROUP,
    AheadGemvConfig,
    AheadGroupGemvConfig,
    GemvConfig,
    GroupGemvConfig,
)
from seedbed.spec.lfsr import LfsrConfig
from seedbed.spec.seedlm import SEEDLM
from seedbed.spec.softmax_loss import SoftmaxLossConfig
from seedbed.spec.trellis import TrellisConfig
from seedbed.spec.vector_unit import ACTIVATIONS, VectorUnitConfig

__all__ = [
    "SEEDLM_BLOCKS",
    "STREAM_ENGINE_KINDS",
    "STREAM_ENGINE_STATUS",
    "TRELLIS_BITS",
    "Attend",
    "Choose",
    "Embed",
    "Input",
    "Loss",
    "Matrix",
    "Move",
    "Multiply",
    "Norm",
    "Operation",
    "Pool",
    "Program",
    "Rotate",
    "StreamEngineConfig",
    "Vector",
]

#: What a command asks for: a program is loaded, or it is run for a block of tokens; or, where kept
#: weights can be tuned, their values are changed.
STREAM_ENGINE_KINDS = ("load", "run", "tune")
#: How a command ended, by code: well; with an error of the memory; with a program that is damaged,
#: that the core is too small for, or that was not loaded; with a block that is too long, a token
#: that the program does not know, or another number of vectors than tokens.
STREAM_ENGINE_STATUS = ("ok", "memory", "damaged", "size", "missing", "tokens")
#: Bytes of an AXI4 boundary, which a burst never crosses.
BOUNDARY = 4096
#: Bits of a weight of a trellis code, 0 for no code.
TRELLIS_BITS = (0, 2, 4)
#: Blocks of SeedLM that a matrix can have, and what the header of its program then says.
SEEDLM_BLOCKS, SEEDLM_FIELD = SEEDLM[4], 6
#: Bits of the scale and the minimum of a group of weights in memory, and what the header then says.
GROUP_BITS, GROUPS_FIELD = 32, 7
#: Bits of the seed of signs, and beats of kept weights that are read and then written together.
SIGN_BITS, TUNED_BEATS = 24, 16
#: The most words of the cache that a head has.
QUERY = 64


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A vector of each token: an integer n of it is n / 2^fraction.

    A wide one has the residual's width. As the input of a matrix it is shifted to a vector's width,
    by the least shift that its token needs.
    """

    length: int
    fraction: int = 0
    wide: bool = False

    def __post_init__(self) -> None:
        require_int("length", self.length, 1, 1 << 20)
        require_int("fraction", self.fraction, -16, 24)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Reads some vectors of each token, and writes the one called ``target``."""

    target: str

    @property
    def sources(self) -> tuple[str, ...]:
        """The vectors that are read."""
        return ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Embed(Operation):
    """The row of a token's number, plus that of its position where there is a table of these."""

    table: str
    positions: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.table, *filter(None, [self.positions]))


@dataclass(frozen=True, kw_only=True)
class Input(Operation):
    """The vector that comes with a token, in the target's format, as the first operation."""


@dataclass(frozen=True, kw_only=True)
class Matrix(Operation):
    """y = activation(W x + b), or added to the target: a residual, where there is no activation."""

    weights: str
    source: str
    activation: str = ""
    add: bool = False

    def __post_init__(self) -> None:
        if self.activation:
            require_choice("activation", self.activation, tuple(ACTIVATIONS))
        if self.activation and self.add:
            raise ValueError(f"{self.weights} must have an activation or be added, not both")

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source, *([self.target] if self.add else []))

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.weights,)


@dataclass(frozen=True, kw_only=True)
class Norm(Operation):
    """x / root of its mean square, times gains; ``centred``: less its mean, and plus biases."""

    source: str
    gains: str
    epsilon: float
    centred: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < inf:
            raise ValueError(f"epsilon must be a number of 0 or more, not {self.epsilon}")

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (self.gains,)


@dataclass(frozen=True, kw_only=True)
class Rotate(Operation):
    """Rotates pairs of neighbours of each head by angles in proportion to the position.

    Pair i of n turns by base^(-i / n) for each position.
    """

    heads: int
    base: float

    def __post_init__(self) -> None:
        require_int("heads", self.heads, 1, 1 << 16)
        if not 0 < self.base < inf:
            raise ValueError(f"base must be a number above 0, not {self.base}")

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.target,)


@dataclass(frozen=True, kw_only=True)
class Attend(Operation):
    """Softmax of query times keys, mixes the values: head by head.

    Neighbouring heads of the query share a head of keys and values where these have fewer. Keys and
    values are kept for the tokens that follow. ``causal``: a token attends to itself and those
    before it, not to all of its block.
    """

    query: str
    key: str
    value: str
    heads: int
    shared: int
    causal: bool = True

    def __post_init__(self) -> None:
        require_int("heads", self.heads, 1, 1 << 16)
        require_int("shared", self.shared, 1, self.heads)

    @property
    def sources(self) -> tuple[str, ...]:
        return self.query, self.key, self.value


@dataclass(frozen=True, kw_only=True)
class Multiply(Operation):
    """The products of the elements of two vectors."""

    left: str
    right: str

    @property
    def sources(self) -> tuple[str, ...]:
        return self.left, self.right


@dataclass(frozen=True, kw_only=True)
class Move(Operation):
    """The source in the target's format."""

    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)


@dataclass(frozen=True, kw_only=True)
class Pool(Operation):
    """The mean over the block's tokens, as the vector of its first token."""

    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)


@dataclass(frozen=True, kw_only=True)
class Choose(Operation):
    """The number of the source's greatest element, the lowest one of several that are equal."""

    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)


@dataclass(frozen=True, kw_only=True)
class Loss(Operation):
    """Cross-entropy of the softmax of the source, with the class that comes with a token.

    The target has two elements: the loss, and the number of the source's greatest element, an
    integer whatever the target's fraction. A vector that the block has one of has the class of the
    first token.
    """

    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)


@dataclass(frozen=True, kw_only=True)
class Program:
    """Operations in order, the vectors that they read and write, and the results.

    Parameters
    ----------
    vectors
        By name.
    operations
        In order. A vector is written before it is read.
    result
        The name of the vector that is the result.
    unit
        The vector unit, with the widths of vectors.

    Raises ``ValueError`` for a program that reads what is not written, or shapes that differ.
    """

    vectors: Mapping[str, Vector]
    operations: Sequence[Operation]
    result: str
    unit: VectorUnitConfig = field(default_factory=VectorUnitConfig)

    def __post_init__(self) -> None:
        written: set[str] = set()
        for k, operation in enumerate(self.operations):
            what = f"operation {k}, {type(operation).__name__}"
            for name in (*operation.sources, operation.target):
                if name not in self.vectors:
                    raise ValueError(f"{what}, names {name}, which is no vector of the program")
            for name in operation.sources:
                if name not in written:
                    raise ValueError(f"{what}, reads {name} before it is written")
            self._require_shape(what, operation)
            written.add(operation.target)
        if self.result not in written:
            raise ValueError(f"the result {self.result} must be a vector that is written")

    @property
    def causal(self) -> bool:
        """Whether no token attends to later ones, so that a block can be cut into several."""
        return all(op.causal for op in self.operations if isinstance(op, Attend))

    def _require_shape(self, what: str, operation: Operation) -> None:
        lengths = {name: self.vectors[name].length for name in operation.sources}
        target = self.vectors[operation.target]
        if isinstance(operation, Attend):
            head, rest = divmod(lengths[operation.query], operation.heads)
            shared = operation.shared * head
            if rest or {lengths[operation.key], lengths[operation.value]} != {shared}:
                raise ValueError(f"{what}, has heads of different lengths")
            if operation.heads % operation.shared or target.length != lengths[operation.query]:
                raise ValueError(f"{what}, has heads that no key or no target belongs to")
        elif isinstance(operation, Rotate):
            if target.length % (2 * operation.heads):
                raise ValueError(f"{what}, has heads of an odd number of elements")
        elif isinstance(operation, Choose):
            if (target.length, target.fraction, target.wide) != (1, 0, True):
                raise ValueError(f"{what}, must write a wide vector of one element and no fraction")
        elif isinstance(operation, Loss):
            source, bits = self.vectors[operation.source], SoftmaxLossConfig.logits.fraction
            if (source.fraction, source.wide) != (bits, True):
                raise ValueError(f"{what}, must read a wide vector with {bits} fraction bits")
            if (target.length, target.fraction, target.wide) != (2, bits, True):
                raise ValueError(
                    f"{what}, must write a wide vector of two elements with {bits} fraction bits"
                )
        elif not isinstance(operation, Matrix) and {*lengths.values()} - {target.length}:
            raise ValueError(f"{what}, writes {target.length} elements, and reads another number")


@dataclass(frozen=True, kw_only=True)
class StreamEngineConfig:
    """A core that runs the programs of :mod:`~seedbed.spec.engine_records`.

    Parameters
    ----------
    lanes
        Elements of a vector that are read, computed and written in a cycle: 2, 4 or 8.
    products
        Elements of a head that are multiplied in a cycle, a power of two, ``lanes``..64.
    keys
        Tokens whose keys or values are multiplied in a cycle, ``products`` elements of each: a
        power of two, at most ``lanes``. The cache has as many banks.
    vectors
        Tokens that share a pass over the weights of a matrix: 1, 2 or 4.
    beat_bits
        Bits of a beat of memory, a power of two, 64 ``lanes``..1024. A beat has a weight for each
        8 bits.
    store
        Beats of ``lanes`` elements that the vectors of a block have room for, 16..16384.
    cache
        Beats of ``lanes`` keys or values, 16..262144: those of all layers, or of one layer with
        ``external``.
    records
        The most records of a program, 4..4096.
    block
        The most tokens of a block, 1..256.
    context
        The most tokens so far, ``block``..512.
    columns
        The most columns of a matrix, 1..16383.
    address_bits
        Bits of the address of a beat in memory, 8..32.
    burst
        Beats of the longest burst, a power of two; no burst crosses a multiple of it, and none is
        longer than 4,096 bytes.
    trellis
        Bits of a weight of matrices with a trellis code, 2 or 4; 0: all matrices are int8. A beat
        then has weights of 8 / ``trellis`` rows, each with separate multipliers, and is of 64 bits
        for each of them at least.
    seedlm
        Whether matrices can have rows of SeedLM's blocks, :data:`SEEDLM_BLOCKS`, of 4 bits a
        weight; not with a trellis code. A beat has all blocks of one row.
    groups
        Whether matrices can have rows of groups of 32 codes of 4 or 8 bits with a scale and a
        minimum each, such as those of GGUF; not with a trellis code or SeedLM's blocks, and with
        beats of at least 512 bits.
    kept
        With a trellis code, the most weights of a matrix that are kept beside it, 0..16384.
    tune
        With kept weights, their fraction bits in programs whose kept weights can be changed in
        memory by random signs, 1..12; 0: no command does that. Beats then have 512 bits at most.
    external
        Keys and values of each layer are saved to memory, and restored when the layer is next run.
    choose
        Whether the core can give the number of a result's greatest element instead of the result.
    classes
        The most elements of a vector whose cross-entropy is a result, with the class that comes
        with a token, 2..256; 0: no result is a loss.
    inputs
        Whether vectors come with the tokens of a block.
    timeout_cycles, drain_cycles
        Cycles without a beat, or with a command that is not taken, after which the memory does not
        answer, 16..65535, and after which an earlier answer does not come, 8..65535.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    lanes: int = 8
    products: int = 32
    keys: int = 1
    vectors: int = 1
    beat_bits: int = 512
    store: int = 4096
    cache: int = 16384
    records: int = 1024
    block: int = 32
    context: int = 128
    columns: int = 2048
    address_bits: int = 26
    burst: int = 64
    trellis: int = 0
    seedlm: bool = False
    groups: bool = False
    kept: int = 0
    tune: int = 0
    external: bool = False
    choose: bool = False
    classes: int = 0
    inputs: bool = False
    timeout_cycles: int = 4096
    drain_cycles: int = 256

    #: Bits of a weight in memory.
    weight_width = 8

    def __post_init__(self) -> None:
        VectorUnitConfig(lanes=self.lanes)
        require_power("products", self.products, self.lanes, 64)
        require_power("keys", self.keys, 1, self.lanes)
        if self.vectors not in (1, 2, 4):
            raise ValueError(f"vectors must be 1, 2 or 4, not {self.vectors!r}")
        require_power("beat_bits", self.beat_bits, 64 * self.lanes, 1024)
        require_int("store", self.store, 16, 1 << 14)
        require_int("cache", self.cache, 16, 1 << 18)
        require_int("records", self.records, 4, 4096)
        require_int("block", self.block, 1, 256)
        require_int("context", self.context, self.block, 512)
        require_int("columns", self.columns, 1, (1 << VectorUnitConfig.length_bits) - 1)
        require_int("address_bits", self.address_bits, 8, 32)
        require_power("burst", self.burst, 1, min(256, 8 * BOUNDARY // self.beat_bits))
        if self.trellis not in TRELLIS_BITS:
            raise ValueError(f"trellis must be 0, 2 or 4, not {self.trellis!r}")
        require_bool("seedlm", self.seedlm)
        if self.seedlm and self.trellis:
            raise ValueError(f"trellis must be 0 with seedlm = True, not {self.trellis}")
        require_bool("groups", self.groups)
        if self.groups and self.packed != "groups":
            raise ValueError(f"groups must be False in a core with {self.packed}")
        if self.groups and self.beat_bits < 512:
            raise ValueError(f"beat_bits must be at least 512 with groups, not {self.beat_bits}")
        if self.ways > self.entries:
            raise ValueError(
                f"beat_bits must be at least {64 * self.ways} with trellis = {self.trellis}, not "
                f"{self.beat_bits}"
            )
        require_int("kept", self.kept, 0, 1 << 14 if self.trellis else 0)
        require_int("tune", self.tune, 0, 12 if self.kept else 0)
        if self.tune and self.beat_bits > 512:
            raise ValueError(f"beat_bits must be at most 512 with tune, not {self.beat_bits}")
        require_bool("external", self.external)
        if self.external and self.products > self.weights:
            raise ValueError(
                f"products must be at most the {self.weights} bytes of a beat with external = True"
            )
        require_bool("choose", self.choose)
        require_int("classes", self.classes, 0, 256)
        if self.classes == 1:
            raise ValueError("classes must be 0 or in 2..256, not 1")
        require_bool("inputs", self.inputs)
        require_int("timeout_cycles", self.timeout_cycles, 16, 65535)
        require_int("drain_cycles", self.drain_cycles, 8, 65535)

    @property
    def unit(self) -> VectorUnitConfig:
        """The vector unit."""
        return VectorUnitConfig(lanes=self.lanes)

    @property
    def loss(self) -> SoftmaxLossConfig:
        """The cross-entropy of a result."""
        return SoftmaxLossConfig(classes=self.classes)

    @property
    def gemv(self) -> GemvConfig:
        """The multipliers of matrices."""
        of = AheadGemvConfig if self.ahead else GemvConfig
        if self.groups:
            of = AheadGroupGemvConfig if self.ahead else GroupGemvConfig
        return of(
            # A trellis code is decoded before the multipliers.
            decode=self.packed if self.wide_sums else "plain", beat_bits=self.beat_bits,
            plain_width=self.weight_width, activation_width=self.unit.width, columns=self.columns,
            row_width=20, vectors=self.vectors,
        )  # fmt: skip

    @property
    def ahead(self) -> bool:
        """Whether vectors are given to the multipliers while a matrix runs for those before.

        Kept weights that can be tuned are read of memory apart, before the rows of their matrix.
        """
        return not self.tune

    @property
    def chains(self) -> bool:
        """Whether a matrix's results are read as they come: those of one token have an order."""
        return self.ahead and self.vectors == 1

    @property
    def ways(self) -> int:
        """Rows of a trellis code that are multiplied at once."""
        return self.weight_width // self.trellis if self.trellis else 1

    @property
    def kept_beats(self) -> int:
        """Beats of the most weights that are kept."""
        return -(-self.kept * KEPT_BITS // self.beat_bits)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What a command can ask for."""
        return STREAM_ENGINE_KINDS if self.tune else STREAM_ENGINE_KINDS[:-1]

    @property
    def writes(self) -> bool:
        """Whether memory is written."""
        return self.external or self.tune > 0

    @property
    def signs(self) -> LfsrConfig:
        """The generator of signs: the lowest bits of a word are those of a beat of kept weights."""
        return LfsrConfig(width=SIGN_BITS, leap=self.beat_bits // KEPT_BITS)

    @property
    def code(self) -> TrellisConfig | None:
        """The trellis code, if there is one."""
        return TrellisConfig(bits=self.trellis) if self.trellis else None

    @property
    def packed(self) -> str:
        """The kind of records of matrices whose weights are packed, "" if there is none."""
        packings = {"seedlm": self.seedlm, "trellis": self.trellis, "groups": self.groups}
        return next((name for name, there in packings.items() if there), "")

    @property
    def code_field(self) -> int:
        """What the header of a program has as ``trellis`` if weights of a matrix are packed."""
        return {"seedlm": SEEDLM_FIELD, "groups": GROUPS_FIELD}.get(self.packed, self.trellis)

    @property
    def wide_sums(self) -> bool:
        """Whether sums of packed weights have all of their bits, and no multiplier."""
        return self.packed in ("seedlm", "groups")

    @property
    def weights(self) -> int:
        """Weights of a row in a beat, int8 or of a trellis code."""
        return self.beat_bits // self.weight_width

    def row_beats(self, kind: str, columns: int, *, whole: bool = False) -> int:
        """Return the beats of a row by the kind of its record; ``whole``: its codes have 8 bits."""
        packs = kind in ("seedlm", "groups") and not whole
        return -(-columns // (self.gemv.lanes if packs else self.weights))

    def group_beats(self, row_beats: int, *, whole: bool) -> int:
        """Return the beats of the groups of as many rows as there are constants in a beat."""
        weights = self.weights if whole else self.gemv.lanes
        return self.entries * row_beats * weights // GROUP * GROUP_BITS // self.beat_bits

    @property
    def entries(self) -> int:
        """Entries of 64 bits of a beat, such as the constants of a row of a matrix."""
        return self.beat_bits // 64

    def cache_beats(self, context: int, row: int) -> int:
        """Return the beats of the cache that tokens need, ``row`` each: all banks alike."""
        return -(-context // self.keys) * self.keys * row

    def saved_beats(self, row: int) -> int:
        """Return the beats in memory of keys and values of a token: shifts, then ``row`` bytes."""
        return 1 + -(-row // self.weights)
