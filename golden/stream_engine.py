"""Golden model of the streamed engine: programs in integers, and the same programs in float64.

Both walk the same program with the same methods for each operation, so that what one computes is
compared with the other vector by vector.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import pi, sqrt
from typing import Any

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.exact import whole_product
from seedbed.golden.fixed import rounded, saturate, shifted
from seedbed.golden.gemv import base_weights
from seedbed.golden.softmax_loss import SoftmaxLoss
from seedbed.golden.trellis import states, table
from seedbed.golden.vector_unit import VectorUnit, token_shifts
from seedbed.spec import SeedlmConfig, SoftmaxLossConfig, TrellisConfig
from seedbed.spec.engine_records import KEPT
from seedbed.spec.gemv import GROUP
from seedbed.spec.stream_engine import (
    Attend,
    Choose,
    Embed,
    Input,
    Loss,
    Matrix,
    Move,
    Multiply,
    Norm,
    Operation,
    Pool,
    Program,
    Rotate,
)
from seedbed.spec.vector_unit import ACTIVATIONS

__all__ = [
    "WIDE_SUM", "FloatEngine", "GroupRows", "Integers", "KeptWeights", "Reals", "SeedlmRows",
    "StreamEngine",
    "TrellisRows", "label_losses", "smallest",
]  # fmt: skip


#: Bits of a sum of products of weights that are no small integers.
WIDE_SUM = 56


def smallest(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers in the smallest type that holds them."""
    most = int(np.abs(numbers).max(initial=0))
    kinds = {np.int8: 7, np.int16: 15, np.int32: 31, np.int64: 63}
    return numbers.astype(next(kind for kind, bits in kinds.items() if most < 1 << bits))


@dataclass(frozen=True, kw_only=True)
class Reals:
    """Parameters of an operation in float64.

    ``weights``: a matrix (rows, columns), a table (numbers, elements), or gains (elements,);
    ``biases``: (rows,), (elements,) or ``None``.
    """

    weights: np.ndarray
    biases: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class TrellisRows:
    """Symbols (rows, columns) of a trellis code."""

    code: TrellisConfig
    symbols: np.ndarray

    def weights(self) -> np.ndarray:
        """Return the values of the symbols' states, int8 or int16."""
        peak = self.code.peak
        return table(self.code).astype(np.min_scalar_type(-peak - 1))[
            states(self.code, self.symbols)
        ]


@dataclass(frozen=True, kw_only=True)
class SeedlmRows:
    """Blocks (rows, blocks of a row) of SeedLM; a weight is an integer / 2^fraction."""

    code: SeedlmConfig
    blocks: np.ndarray
    fraction: int

    def integers(self, columns: int, biases: np.ndarray | None = None) -> "Integers":
        """Return the rows as parameters of a matrix."""
        weights = base_weights(self.code, self.blocks, columns)
        found = Integers.wide(weights, self.fraction)
        return replace(found, biases=biases, seedlm=self)


@dataclass(frozen=True, kw_only=True)
class GroupRows:
    """Groups of codes: a weight is ``(code scale + minimum) / 2^fraction``.

    ``codes``: integers (rows, columns), -128..127 or 0..15, of ``bits`` bits; ``scales`` and
    ``minima``: integers (rows, groups of :data:`~seedbed.spec.gemv.GROUP` columns), float16 numbers
    times a power of two.
    """

    bits: int
    codes: np.ndarray
    scales: np.ndarray
    minima: np.ndarray
    fraction: int

    def integers(self, biases: np.ndarray | None = None) -> "Integers":
        """Return the rows as parameters of a matrix."""
        scales, minima = (
            np.repeat(part, GROUP, axis=1)[:, : self.codes.shape[1]]
            for part in (self.scales, self.minima)
        )
        found = Integers.wide(self.codes.astype(np.int64) * scales + minima, self.fraction)
        return replace(found, biases=biases, groups=self)


@dataclass(frozen=True, kw_only=True)
class KeptWeights:
    """Weights beside a trellis code that can be tuned: ``values`` / 2^fraction, sorted by row.

    Values are changed in place, in the format of :data:`~seedbed.spec.engine_records.KEPT`.
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    fraction: int

    #: The greatest magnitude of a value.
    peak = 1 << KEPT["difference"] - 1

    def sums(self, x: np.ndarray, rows: int) -> np.ndarray:
        """Return round(sum of values x / 2^fraction) of each row, for vectors x: (n, rows)."""
        found = np.zeros((rows, len(x)), np.int64)
        np.add.at(found, self.rows, (x[:, self.columns] * self.values).T)
        return rounded(found.T, self.fraction)


@dataclass(frozen=True, kw_only=True)
class Integers:
    """Parameters of an operation in integers: a row of weights is w multiplier / 2^fraction.

    ``multipliers`` are (rows,); gains have one, 1. ``biases`` are of the target's format.
    ``sum_width``: bits of a sum of products of a row, which with multipliers of 1 may be wide.
    ``trellis``: the symbols that the weights are the values of, where they have a trellis code; the
    weights that are kept differ from these values, or are in ``kept`` where they can be tuned.
    ``seedlm``, ``groups``: the blocks or the groups that the weights are those of.
    """

    weights: np.ndarray
    multipliers: np.ndarray
    fraction: int
    biases: np.ndarray | None = None
    sum_width: int = 32
    trellis: TrellisRows | None = None
    kept: KeptWeights | None = None
    seedlm: SeedlmRows | None = None
    groups: GroupRows | None = None

    @classmethod
    def wide(cls, weights: np.ndarray, fraction: int) -> "Integers":
        """Return weights with a multiplier of 1, without low bits that all of them have as 0."""
        bits = int(np.bitwise_or.reduce(weights, axis=None))
        low = (bits & -bits).bit_length() - 1 if bits else 0
        return cls(
            weights=smallest(weights >> low), multipliers=np.ones(len(weights), np.int64),
            fraction=fraction - low, sum_width=WIDE_SUM,
        )  # fmt: skip

    def row(self, numbers: np.ndarray) -> np.ndarray:
        """Return some rows as integers with ``fraction`` fraction bits, int64."""
        return self.weights[numbers].astype(np.int64) * self.multipliers[numbers][:, None]


class _Engine:
    """Walks a program. A subclass has a method for each sort of operation."""

    def __init__(self, program: Program, parameters: Mapping[str, Any]):
        self.program = program
        missing = {n for o in program.operations for n in o.parameters} - set(parameters)
        if missing:
            raise ValueError(f"there are no parameters called {', '.join(sorted(missing))}")
        self.parameters = parameters
        self.start()

    def start(self) -> None:
        """Forget the tokens so far."""
        self.position = 0
        self.vectors: dict[str, np.ndarray] = {}
        self._kept: dict[int, tuple[np.ndarray, ...]] = {}

    def run(
        self, tokens: np.ndarray, *, inputs: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return the result for a block of tokens: (tokens, elements), or (1, elements) pooled.

        ``inputs``: the vectors that come with the tokens, (tokens, elements), of an
        :class:`~seedbed.spec.stream_engine.Input`; ``labels``: their classes (tokens,), of a
        :class:`~seedbed.spec.stream_engine.Loss`.
        """
        self._tokens = np.asarray(tokens)
        #: What comes with the tokens.
        self._come = {"vector": inputs, "class": labels}
        for place, operation in enumerate(self.program.operations):
            # Operations of several layers may be equal: keys and values are by place.
            self._place = place
            does = getattr(self, f"_{type(operation).__name__.lower()}")
            self.vectors[operation.target] = does(operation)
            self.written(operation)
        self.position += len(tokens)
        return self.vectors[self.program.result]

    def written(self, operation: Operation) -> None:
        """Called after each operation."""

    def _positions(self, count: int) -> np.ndarray:
        return np.arange(self.position, self.position + count)

    def _all(self, *block: np.ndarray) -> tuple[np.ndarray, ...]:
        """Keep a block of keys and values; return those of all tokens so far."""
        before = self._kept.get(self._place, tuple(part[:0] for part in block))
        found = tuple(np.concatenate(parts) for parts in zip(before, block, strict=True))
        self._kept[self._place] = found
        return found

    def _heads(self, operation: Attend, name: str, count: int) -> np.ndarray:
        """Return a vector of each token by heads, (tokens, heads, elements)."""
        length = self.program.vectors[operation.query].length // operation.heads
        return self.vectors[name].reshape(-1, count, length)

    def _given(self, what: str) -> np.ndarray:
        """Return what comes with the tokens, of each of them."""
        given = self._come[what]
        if given is None or len(given) != len(self._tokens):
            raise ValueError(f"the program needs a {what} for each token")
        return np.asarray(given)

    def _input(self, op: Input) -> np.ndarray:
        found = self._given("vector")
        shape = len(found), self.program.vectors[op.target].length
        if found.shape != shape:
            raise ValueError(f"the vectors of the tokens must be {shape}, not {found.shape}")
        return found

    def _choose(self, op: Choose) -> np.ndarray:
        return self.vectors[op.source].argmax(axis=1)[:, None]

    def _seen(self, operation: Attend, tokens: int, all_: int) -> np.ndarray:
        """Return which of all tokens (tokens, all) those of the block attend to."""
        if not operation.causal:
            return np.ones((tokens, all_), bool)
        return np.arange(all_) <= self._positions(tokens)[:, None]


class FloatEngine(_Engine):
    """A program in float64, with the greatest magnitude of every vector so far in ``peaks``."""

    def __init__(self, program: Program, parameters: Mapping[str, Reals]):
        super().__init__(program, parameters)
        self.peaks: dict[str, float] = {}

    def written(self, operation: Operation) -> None:
        self._peak(operation.target, self.vectors[operation.target])

    def mixing(self, operation: Attend, shares: np.ndarray) -> None:
        """Called for each head with its shares (tokens, all) of the values of all tokens so far."""

    def _peak(self, name: str, found: np.ndarray) -> None:
        self.peaks[name] = max(self.peaks.get(name, 0.0), float(np.abs(found).max(initial=0)))

    def _embed(self, op: Embed) -> np.ndarray:
        tokens = self._tokens
        found = self.parameters[op.table].weights[tokens]
        if op.positions:
            found = found + self.parameters[op.positions].weights[self._positions(len(tokens))]
        return found.astype(np.float64)

    def _matrix(self, op: Matrix) -> np.ndarray:
        of = self.parameters[op.weights]
        y = self.vectors[op.source] @ of.weights.T + (0 if of.biases is None else of.biases)
        if op.activation:
            # The activation's input has its result's format, up to where the table ends.
            end = self.program.unit.activation_end
            self._peak(op.target, np.clip(y, -end, end))
            y = np.vectorize(ACTIVATIONS[op.activation], otypes=[float])(np.maximum(y, -500))
        return y + self.vectors[op.target] if op.add else y

    def _norm(self, op: Norm) -> np.ndarray:
        of, x = self.parameters[op.gains], self.vectors[op.source]
        if op.centred:
            x = x - x.mean(axis=-1, keepdims=True)
        root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + op.epsilon)
        return x / root * of.weights + (0 if of.biases is None else of.biases)

    def _rotate(self, op: Rotate) -> np.ndarray:
        x = self.vectors[op.target]
        pairs = x.reshape(len(x), op.heads, -1, 2)
        n = pairs.shape[2]
        angles = self._positions(len(x))[:, None] * op.base ** (-np.arange(n) / n)
        turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles)[:, None]
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)

    def _attend(self, op: Attend) -> np.ndarray:
        query = self._heads(op, op.query, op.heads)
        block = (self._heads(op, name, op.shared) for name in (op.key, op.value))
        keys, values = self._all(*block)
        seen = self._seen(op, len(query), len(keys))
        found = np.empty_like(query)
        for head in range(op.heads):
            of = head // (op.heads // op.shared)
            scores = query[:, head] @ keys[:, of].T / sqrt(query.shape[-1])
            scores = np.where(seen, scores, -np.inf)
            shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
            shares /= shares.sum(axis=-1, keepdims=True)
            self.mixing(op, shares)
            found[:, head] = shares @ values[:, of]
        return found.reshape(len(query), -1)

    def _loss(self, op: Loss) -> np.ndarray:
        x = self.vectors[op.source]
        labels = self._given("class")[: len(x)]
        below = x - x.max(axis=1, keepdims=True)
        losses = np.log(np.exp(below).sum(axis=1)) - below[np.arange(len(x)), labels]
        return np.stack([losses, x.argmax(axis=1)], axis=1)

    def _multiply(self, op: Multiply) -> np.ndarray:
        return self.vectors[op.left] * self.vectors[op.right]

    def _move(self, op: Move) -> np.ndarray:
        return self.vectors[op.source]

    def _pool(self, op: Pool) -> np.ndarray:
        return self.vectors[op.source].mean(axis=0, keepdims=True)


class StreamEngine(_Engine):
    """A program in integers, bit for bit what the core computes.

    Raises ``ValueError`` for parameters of another shape than their operation's, for a matrix with
    a row whose sums may need more bits than they have, and for formats between which the core
    cannot shift.
    """

    #: Shifts to the right of a result.
    SHIFTS = -16, 62

    def __init__(self, program: Program, parameters: Mapping[str, Integers]):
        self.unit = VectorUnit(program.unit)
        super().__init__(program, parameters)
        for place, operation in enumerate(program.operations):
            what = f"operation {place}, {type(operation).__name__},"
            self._require_shapes(what, operation)
            self._require_shifts(what, operation)
            if isinstance(operation, Matrix):
                of = parameters[operation.weights]
                most = (1 << of.sum_width - 1) - 1 >> program.unit.width - 1
                norms = np.abs(of.weights.astype(np.int64)).sum(axis=1)
                if of.kept:
                    # Whatever they are tuned to.
                    counts = np.bincount(of.kept.rows, minlength=len(norms))
                    norms += counts * (of.kept.peak >> of.kept.fraction)
                if (norms > most).any():
                    raise ValueError(
                        f"row {norms.argmax()} of {operation.weights} must have magnitudes of at "
                        f"most {most} together, not {norms.max()}"
                    )

    def _require_shapes(self, what: str, op: Operation) -> None:
        """Raise ``ValueError`` for parameters of another shape, or biases of more than 32 bits."""
        length = self.program.vectors[op.target].length
        for name in op.parameters:
            of = self.parameters[name]
            rows = len(of.multipliers)
            wanted: tuple[int, ...] = rows, length
            if isinstance(op, Matrix):
                wanted = length, self.program.vectors[op.source].length
            elif isinstance(op, Norm):
                wanted = (length,)
            shapes = {"weights": (of.weights, wanted), "biases": (of.biases, wanted[:1])}
            if isinstance(op, Matrix):
                shapes["multipliers"] = of.multipliers, wanted[:1]
            for part, (numbers, shape) in shapes.items():
                if numbers is not None and numbers.shape != shape:
                    raise ValueError(
                        f"{what} must have {part} of {name} with the shape {shape}, not "
                        f"{numbers.shape}"
                    )
            if of.biases is not None:
                require_integers(f"biases of {name}", of.biases, -1 << 31, (1 << 31) - 1)

    def _require_shifts(self, what: str, op: Operation) -> None:
        """Raise ``ValueError`` for a shift that is none of :attr:`SHIFTS`."""
        if isinstance(op, Rotate | Attend):
            return
        names = (op.left, op.right) if isinstance(op, Multiply) else op.sources[:1]
        to = self._fraction(op.target)
        fraction = sum(map(self._fraction, names)) - to
        if isinstance(op, Norm):
            fraction = self.program.unit.normal_fraction - to
        least, most = self.SHIFTS
        for name in op.parameters or [""]:
            shift = fraction + (self.parameters[name].fraction if name else 0)
            if not least <= shift <= most:
                raise ValueError(f"{what} must shift by {least}..{most}, not {shift}")
        if isinstance(op, Matrix) and op.activation:
            unit = self.program.unit
            if not unit.activation_bits <= to <= unit.activation_fraction:
                raise ValueError(
                    f"{what} must have a result of {unit.activation_bits}.."
                    f"{unit.activation_fraction} fraction bits, not {to}"
                )

    def _fraction(self, name: str) -> int:
        return self.program.vectors[name].fraction

    def _saturated(self, numbers: np.ndarray, target: str) -> np.ndarray:
        unit = self.program.unit
        wide = self.program.vectors[target].wide
        return saturate(numbers, unit.residual if wide else unit.vector)

    def _embed(self, op: Embed) -> np.ndarray:
        tokens = self._tokens
        total = np.zeros((len(tokens), self.program.vectors[op.target].length), np.int64)
        rows = tokens, self._positions(len(tokens))
        for name, at in zip(op.parameters, rows, strict=False):
            of = self.parameters[name]
            total += shifted(of.row(at), of.fraction - self._fraction(op.target))
        return self._saturated(total, op.target)

    def _input(self, op: Input) -> np.ndarray:
        unit = self.program.unit
        return require_integers("inputs", super()._input(op), unit.vector.low, unit.vector.high)

    def _matrix(self, op: Matrix) -> np.ndarray:
        of, x = self.parameters[op.weights], self.vectors[op.source]
        unit = self.program.unit
        shifts = token_shifts(x, unit.width)[:, None]
        x = saturate(shifted(x, shifts), unit.vector)
        sums = whole_product(x, of.weights.T).astype(np.int64)
        if of.kept:
            sums += of.kept.sums(x, len(of.weights))
        shift = self._fraction(op.source) + of.fraction - self._fraction(op.target)
        y = shifted(sums * of.multipliers, shift - shifts)
        y = y + (0 if of.biases is None else of.biases)
        if op.activation:
            y = saturate(y, unit.vector)
            return self.unit.activate(y, name=op.activation, fraction=self._fraction(op.target))
        return self._saturated(y + self.vectors[op.target] if op.add else y, op.target)

    def _norm(self, op: Norm) -> np.ndarray:
        of, x = self.parameters[op.gains], self.vectors[op.source]
        epsilon = x.shape[-1] * op.epsilon * 4.0 ** self._fraction(op.source)
        shift = self.program.unit.normal_fraction + of.fraction - self._fraction(op.target)
        return self.unit.norm(
            x, gains=of.weights, biases=of.biases, shift=shift,
            epsilon=max(self.program.unit.least_epsilon, round(epsilon)),
            centred=op.centred,
        )  # fmt: skip

    def _rotate(self, op: Rotate) -> np.ndarray:
        x = self.vectors[op.target]
        heads = x.reshape(len(x), op.heads, -1)
        n = heads.shape[-1] // 2
        turns = op.base ** (-np.arange(n) / n) / (2 * pi)
        steps = np.rint(np.ldexp(turns, self.program.unit.angle_bits)).astype(np.int64)
        return self.unit.rotate(heads, position=self._positions(len(x)), steps=steps).reshape(
            x.shape
        )

    def _attend(self, op: Attend) -> np.ndarray:
        query = self._heads(op, op.query, op.heads)
        block: list[np.ndarray] = []
        for name in (op.key, op.value):
            block += self.unit.cached(self._heads(op, name, op.shared))
        keys, key_shifts, values, value_shifts = self._all(*block)
        fraction = self._fraction(op.query) + self._fraction(op.key)
        scale = self.program.unit.score_scale(query.shape[-1], fraction)
        seen = self._seen(op, len(query), len(keys))
        found = np.empty_like(query)
        for each in range(op.heads):
            of = each // (op.heads // op.shared)
            found[:, each] = self.unit.attend(
                query[:, each], keys[:, of], key_shifts[:, of], values[:, of],
                value_shifts[:, of], seen=seen, scale=scale,
            )  # fmt: skip
        return found.reshape(len(query), -1)

    def _multiply(self, op: Multiply) -> np.ndarray:
        shift = self._fraction(op.left) + self._fraction(op.right) - self._fraction(op.target)
        wide = self.program.vectors[op.target].wide
        return self.unit.multiply(
            self.vectors[op.left], self.vectors[op.right], shift=shift, wide=wide
        )

    def _loss(self, op: Loss) -> np.ndarray:
        x = self.vectors[op.source]
        return label_losses(x, self._given("class")[: len(x)])

    def _move(self, op: Move) -> np.ndarray:
        shift = self._fraction(op.source) - self._fraction(op.target)
        return self._saturated(shifted(self.vectors[op.source], shift), op.target)

    def _pool(self, op: Pool) -> np.ndarray:
        shift = self._fraction(op.source) - self._fraction(op.target)
        return self.unit.mean(self.vectors[op.source], shift=shift)[None]


def label_losses(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return loss and greatest class of logits (samples, classes), int64 (samples, 2).

    Logits saturate to the format of :class:`~seedbed.spec.SoftmaxLossConfig`. A label that is no
    class has the greatest loss.
    """
    count = x.shape[1]
    config = SoftmaxLossConfig(classes=max(2, count))
    logits = np.zeros((len(x), config.classes), np.int64)
    logits[:, :count] = saturate(x, config.logits)
    present = np.broadcast_to(np.arange(config.classes) < count, logits.shape)
    valid = labels < count
    found = SoftmaxLoss(config).run(logits, np.where(valid, labels, 0), present)
    return np.stack([np.where(valid, found.losses, config.logits.high), found.classes], axis=1)
