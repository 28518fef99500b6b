"""Programs of the streamed engine: what it does with a block of tokens, and the formats of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.vector_unit import ACTIVATIONS, VectorUnitConfig

__all__ = [
    "Attend",
    "Embed",
    "Matrix",
    "Move",
    "Multiply",
    "Norm",
    "Operation",
    "Pool",
    "Program",
    "Rotate",
    "Vector",
]


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
        elif not isinstance(operation, Matrix) and {*lengths.values()} - {target.length}:
            raise ValueError(f"{what}, writes {target.length} elements, and reads another number")
