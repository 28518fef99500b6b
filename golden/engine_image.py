"""The memory image of a program for the core: records of its passes, and its parameters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import pi
from typing import Any
from zlib import crc32

import numpy as np

from seedbed.golden.engine_parameters import EngineParameters, entries, image_beats
from seedbed.golden.stream_engine import Integers, StreamEngine
from seedbed.golden.vector_unit import VectorUnit
from seedbed.spec.engine_records import (
    ADDENDS,
    CONSTANTS,
    FACTORS,
    HEADER,
    HEADS,
    KEPT_BEATS,
    KINDS,
    LENGTHS,
    MAGIC,
    NUMBERS,
    PACKINGS,
    RECORD,
    RECORD_BITS,
    TARGETS,
    packed,
)
from seedbed.spec.stream_engine import (
    QUERY,
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
    StreamEngineConfig,
)
from seedbed.spec.vector_unit import ACTIVATIONS, VECTOR_OPERATIONS

__all__ = ["EngineImage", "engine_image", "header_and_records"]

_CODES = {
    "kind": KINDS, "operation": VECTOR_OPERATIONS, "activation": tuple(ACTIVATIONS),
    "constant_from": CONSTANTS, "length_from": LENGTHS, "numbers": NUMBERS, "factors": FACTORS,
    "addends": ADDENDS, "target": TARGETS, "of_head": HEADS,
}  # fmt: skip


@dataclass(frozen=True)
class EngineImage:
    """Beats of memory from address 0 on: header, records, parameters.

    ``names`` has, for each record, the kind of the operation that it is a part of. ``saved`` are
    the beats after the image that the program writes keys and values to. The last ``kept_beats`` of
    the image are kept weights that can be tuned: ``kept`` has the first one of each matrix.
    """

    beats: tuple[int, ...]
    names: tuple[str, ...]
    saved: int = 0
    kept_beats: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def limits(self) -> tuple[int, int]:
        """The first beat that is written, and the one after the last."""
        return len(self.beats) - self.kept_beats, len(self.beats) + self.saved

    @property
    def tuned(self) -> tuple[int, int]:
        """The first beat of kept weights that can be tuned, and the one after the last."""
        return len(self.beats) - self.kept_beats, len(self.beats)


def header_and_records(
    config: StreamEngineConfig, header: Mapping[str, int], records: Iterable[Mapping]
) -> list[int]:
    """Return the beats of a program's header and records, with the CRC."""
    bits = [packed(record, RECORD) for record in records]
    fields = {
        "magic": MAGIC, "records": len(bits), "lanes": config.lanes,
        "beat_bytes": config.beat_bits // 8 % 256,
    }  # fmt: skip
    first = packed({**fields, **header}, HEADER)
    words = b"".join(each.to_bytes(RECORD_BITS // 8, "little") for each in (first, *bits))
    size = RECORD_BITS // 8
    crc = crc32(words[: size - 4] + words[size:])
    words = words[: size - 4] + crc.to_bytes(4, "little") + words[size:]
    return image_beats(config, words)


class _Places:
    """Gives places in a token's frame to vectors, from their first write to their last read."""

    def __init__(self, program: Program, lanes: int):
        self.size = 0
        self._free: list[tuple[int, int]] = []
        self._lanes = lanes
        self._last = {program.result: len(program.operations)}
        for k, operation in enumerate(program.operations):
            for name in (*operation.sources, operation.target):
                self._last[name] = max(k, self._last.get(name, 0))
        self._program = program
        self.of: dict[str, int] = {}
        #: Places that are given for good, with their beats.
        self._kept: list[tuple[int, int]] = []

    def beats(self, name: str) -> int:
        return -(-self._program.vectors[name].length // self._lanes)

    def take(self, name: str) -> None:
        """Give a vector a place, unless it has one."""
        if name not in self.of:
            self.of[name] = self._gap(self.beats(name))

    def keep(self, beats: int) -> int:
        """Give away a place for good."""
        place = self._gap(beats)
        self._kept.append((place, beats))
        return place

    def _gap(self, need: int) -> int:
        """Return the first place that is long enough."""
        start, used = 0, [(place, self.beats(other)) for other, place in self.of.items()]
        for place, beats in sorted(used + self._kept):
            if place - start >= need:
                break
            start = max(start, place + beats)
        self.size = max(self.size, start + need)
        return start

    def is_read_after(self, name: str, done: int) -> bool:
        """Return whether an operation after ``done`` has this vector."""
        return self._last[name] > done

    def release(self, done: int) -> None:
        """Free the places of vectors that no operation after ``done`` reads."""
        self.of = {name: at for name, at in self.of.items() if self.is_read_after(name, done)}


class _Writer:
    """Writes the records and the parameters of a program."""

    def __init__(
        self, config: StreamEngineConfig, program: Program, parameters: Mapping[str, Integers],
        block: int, context: int,
    ):  # fmt: skip
        self.config, self.program, self.parameters = config, program, parameters
        self.block, self.context = block, context
        self.unit = VectorUnit(config.unit)
        self.places = _Places(program, config.lanes)
        self.records: list[dict] = []
        self.names: list[str] = []
        self.stored = EngineParameters(config, program, parameters)
        self.scratch = 0
        #: Beats of keys and values that are saved.
        self.saved = 0
        self.row = 0
        self.tokens = 1 << 24
        #: Vectors that the block has one of, not one a token.
        self.pooled: set[str] = set()
        #: Places of the sines and cosines of a token's position, by what they are of.
        self.turns: dict[str, dict] = {}
        #: The activation of the last matrix, which follows the next one.
        self.waits: list[dict] = []

    # Places, parameters.

    def _beats(self, length: int) -> int:
        return -(-length // self.config.lanes)

    def _fraction(self, name: str) -> int:
        return self.program.vectors[name].fraction

    def _place(self, name: str, **more: int) -> dict:
        return {"place": self.places.of[name], **more}

    def _spare(self, length: int, after: int = 0) -> dict:
        """Return a place for numbers of a pass, which no other operation reads.

        ``after`` elements before it are another one.
        """
        place = self._beats(after)
        self.scratch = max(self.scratch, place + self._beats(length))
        return {"place": place, "shared": 1}

    # Records.

    def _record(self, **fields) -> None:
        codes = {}
        for name, names in _CODES.items():
            value = fields.pop(name, names[0])
            codes[name] = names.index(value)
        self.records.append({"last": 1, "by_token": 1, "repeat": 1, **fields, **codes})

    @staticmethod
    def _require_records(what: str, records: list[dict]) -> None:
        try:
            for record in records:
                packed(record, RECORD)
        except ValueError as error:
            raise ValueError(f"{what} is more than a record can say: {error}") from None

    def _shift(self, what: str, shift: int, least: int = 0) -> int:
        if not least <= shift < 1 << self.config.unit.shift_bits:
            most = (1 << self.config.unit.shift_bits) - 1
            raise ValueError(f"{what} must shift by {least}..{most} in the core, not {shift}")
        return shift

    def write(self) -> None:
        """Write all operations, and the result."""
        for k, op in enumerate(self.program.operations):
            what = f"operation {k}, {type(op).__name__},"
            if not (self._is_given(op) or isinstance(op, Choose | Loss)):
                self.places.take(op.target)
            start = len(self.records)
            one = [name in self.pooled for name in op.sources]
            takes = isinstance(op, Matrix | Move | Multiply | Norm | Choose | Loss)
            if any(one) and not (all(one) and takes):
                raise ValueError(f"{what} must not read a mean over the tokens in the core")
            waits, self.waits = self.waits, []
            getattr(self, f"_{type(op).__name__.lower()}")(what, op)
            if self._may_wait(k, op) and not any(one):
                self.waits = [self.records.pop()]
            self.pooled.discard(op.target)
            if any(one) or isinstance(op, Pool):
                self.pooled.add(op.target)
            if any(one):
                for record in self.records[start:]:
                    record["by_token"] = 0
            self._require_records(what, self.records[start:])
            self.records += waits
            self.names += [type(op).__name__] * (len(self.records) - start)
            self.places.release(k)
        last = self.program.operations[-1]
        if self._is_given(last) or isinstance(last, Choose | Loss):
            return
        result = self.program.result
        self._record(
            by_token=result not in self.pooled, operation="scale", constant=1, wide=1,
            length=self.program.vectors[result].length, number_place=self._place(result),
            target="output",
        )  # fmt: skip
        self.names.append("output")

    def _may_wait(self, k: int, op: Operation) -> bool:
        """Return whether the activation of a matrix may follow the next matrix, beside it.

        That one has other vectors, and this one is not read before.
        """
        if op is self.program.operations[-1]:
            return False
        after = self.program.operations[k + 1]
        return (
            isinstance(op, Matrix)
            and op.activation != ""
            and isinstance(after, Matrix)
            and op.target not in (*after.sources, after.target)
            and self.places.is_read_after(op.target, k + 1)
        )

    def _is_given(self, op: Operation) -> bool:
        """Return whether an operation is the matrix of the result, which needs no store."""
        *before, last = self.program.operations
        result = self.program.result
        if isinstance(last, Choose | Loss) and before:
            result, last = last.source, before[-1]
        given = op is last and op.target == result
        return given and isinstance(op, Matrix) and not op.activation and not op.add

    def _input(self, what: str, op: Input) -> None:
        if not self.config.inputs:
            raise ValueError(f"{what} needs inputs = True of the core")
        if self.records:
            raise ValueError(f"{what} must be the first one in the core")
        self._require_narrow(what, op.target)
        self._record(
            operation="scale", constant=1, numbers="input", target="store",
            length=self.program.vectors[op.target].length, target_place=self._place(op.target),
        )  # fmt: skip

    def _embed(self, what: str, op: Embed) -> None:
        vector = self.program.vectors[op.target]
        terms = self._terms(what, op)
        for k, term in enumerate(terms):
            last = k == len(terms) - 1
            self._record(
                last=last, operation="scale", length=vector.length,
                # Only the sum of all saturates.
                wide=vector.wide if last else 1, add=k > 0, addends="store" if k else "none",
                addend_place=self._place(op.target), target="store",
                target_place=self._place(op.target), **term,
            )  # fmt: skip

    def _terms(self, what: str, op: Embed) -> list[dict[str, Any]]:
        """Return what is added up for a token: rows of tables, each times its multiplier.

        Or the digits of a row of groups, which is stored as rounded to the vector's format.
        """
        fraction = self.program.vectors[op.target].fraction
        rows = [len(self.parameters[name].weights) for name in op.parameters]
        self.tokens = min(self.tokens, rows[0])
        if any(self.parameters[name].groups for name in op.parameters):
            if op.positions:
                raise ValueError(
                    f"{what} must not have a table of positions beside groups in the core"
                )
            planes = self.stored.planes(op.table, fraction)
            return [
                {"numbers": "token", "address": address, "constant": 1 << 8 * digit}
                for digit, address in zip(reversed(range(len(planes))), planes, strict=True)
            ]
        if op.positions and self.context > rows[1]:
            raise ValueError(
                f"the context must be at most the {rows[1]} rows of {op.positions}, not "
                f"{self.context}"
            )
        return [
            {
                "numbers": of, "constant_from": "row", "address": self.stored.matrix(name),
                "shift": self._shift(what, self.stored.scale(name)[1] - fraction),
            }
            for of, name in zip(("token", "position"), op.parameters, strict=False)
        ]  # fmt: skip

    def _matrix(self, what: str, op: Matrix) -> None:
        source, target = (self.program.vectors[name] for name in (op.source, op.target))
        if source.length > self.config.columns:
            raise ValueError(
                f"{what} must have at most {self.config.columns} columns, not {source.length}"
            )
        shift = source.fraction + self.stored.scale(op.weights)[1] - target.fraction
        # A wide vector is shifted itself, by up to eight.
        least = self.config.unit.residual_width - self.config.unit.width if source.wide else 0
        rows = target.length
        self._record(
            kind=self.stored.packing(op.weights) or "matrix",
            length=source.length, rows=rows, narrow=source.wide,
            shift=self._shift(what, shift, least), add=op.add,
            wide=target.wide and not op.activation, number_place=self._place(op.source),
            address=self.stored.matrix(op.weights),
            constant=self.stored.kept.get(op.weights, 0) or self.stored.whole(op.weights),
            **self._matrix_target(op),
        )  # fmt: skip
        if op.activation:
            self._record(
                operation="activate", activation=op.activation, shift=target.fraction, length=rows,
                number_place=self._place(op.target), target="store",
                target_place=self._place(op.target),
            )  # fmt: skip

    def _matrix_target(self, op: Matrix) -> dict:
        if self._is_given(op):
            return {"target": "output" if op is self.program.operations[-1] else "choose"}
        return {"target": "store", "target_place": self._place(op.target)}

    def _norm(self, what: str, op: Norm) -> None:
        of, size = self.parameters[op.gains], self.program.vectors[op.source].length
        unit = self.config.unit
        epsilon = round(size * op.epsilon * 4.0 ** self._fraction(op.source))
        shift = unit.normal_fraction + of.fraction - self._fraction(op.target)
        bits = unit.residual_width - 1
        if of.biases is not None and np.abs(of.biases).max() >= 1 << bits:
            raise ValueError(f"{what} must have biases below {1 << bits}")
        bits = unit.factor_width - 1
        if np.abs(of.weights).max() >= 1 << bits:
            raise ValueError(f"{what} must have gains below {1 << bits}")
        source = {"length": size, "number_place": self._place(op.source)}
        if op.centred:
            r, p = self.unit.reciprocal(np.array(size))
            self._record(
                last=0, operation="sum", constant=int(r), shift=int(unit.table_fraction + p),
                **source,
            )  # fmt: skip
        common = {"centred": op.centred, **source}
        epsilon = max(unit.least_epsilon, epsilon)
        self._record(last=0, operation="square", constant=epsilon, **common)
        # Only the gains, a body of their own, wait until a matrix has its rows from memory.
        target = self._place(op.target)
        self._record(operation="normalise", target="store", target_place=target, **common)
        gains = entries(np.ravel(of.weights), of.biases)
        biased = of.biases is not None
        self._record(
            operation="multiply", shift=self._shift(what, shift), add=biased, length=size,
            number_place=target, factors="words", addends="words" if biased else "none",
            target="store", target_place=target, address=self.stored.put(gains),
        )  # fmt: skip

    def _rotate(self, what: str, op: Rotate) -> None:
        size = self.program.vectors[op.target].length
        self._require_narrow(what, op.target)
        head, n = self._head(what, size // op.heads, self.config.lanes), size // op.heads // 2
        unit = self.config.unit
        turns = op.base ** (-np.arange(n) / n) / (2 * pi)
        steps = np.repeat(np.rint(np.ldexp(turns, unit.angle_bits)).astype(np.int64), 2)
        name = f"steps {op.base} {n}"
        if name not in self.turns:
            # All layers turn by the same angles.
            self.turns[name] = place = {"place": self.places.keep(self._beats(2 * n))}
            self._record(
                last=0, operation="angle", constant_from="position", length=2 * n, numbers="words",
                address=self.stored.put(entries(np.zeros(2 * n), steps), name), target="store",
                target_place=place,
            )  # fmt: skip
            self._record(
                last=0, operation="sine", length=2 * n, number_place=place, target="store",
                target_place=place,
            )  # fmt: skip
        self._record(
            operation="rotate", length=size, number_place=self._place(op.target), factors="store",
            factor_place=self.turns[name], head=head, target="store",
            target_place=self._place(op.target),
        )  # fmt: skip

    def _head(self, what: str, length: int, unit: int) -> int:
        """Return the beats of a head, which has a multiple of ``unit`` elements."""
        if length % unit:
            raise ValueError(
                f"{what} must have heads of a multiple of {unit} elements in the core, not {length}"
            )
        return length // self.config.lanes

    def _require_narrow(self, what: str, *names: str) -> None:
        for name in names:
            if self.program.vectors[name].wide:
                raise ValueError(f"{what} must not have the wide vector {name} in the core")

    def _attend(self, what: str, op: Attend) -> None:
        self._require_narrow(what, op.query, op.key, op.value, op.target)
        length = self.program.vectors[op.query].length // op.heads
        head = self._head(what, length, self.config.products)
        if length > QUERY * self.config.products:
            most = QUERY * self.config.products
            raise ValueError(f"{what} must have heads of at most {most} elements, not {length}")
        row = 2 * op.shared * head
        cache = 0 if self.config.external else self.row
        self.row = max(self.row, cache + row)
        values = cache + op.shared * head
        if self.config.external:
            self._exchange(what, "restore", row)
        for k, (name, place) in enumerate(((op.key, cache), (op.value, values))):
            self._record(
                kind="keep", last=k, rows=op.shared, length=length, head=head,
                number_place=self._place(name), cache=place,
            )  # fmt: skip
        if self.config.external:
            self._exchange(what, "save", row)
        fraction = self._fraction(op.query) + self._fraction(op.key)
        multiplier, shift = self.config.unit.score_scale(length, fraction)
        scores, shares = self._spare(self.context), self._spare(self.context, self.context)
        common = {
            "last": 0,
            "repeat": op.heads,
            "head": head,
            "group": op.heads // op.shared,
            "all": not op.causal,
        }
        score = {
            "operation": "score", "numbers": "scores", "factors": "shifts", "length_from": "seen",
            "number_place": self._place(op.query, by_head=1), "cache": cache,
            "constant": multiplier, "shift": self._shift(what, shift, self.config.unit.cache_width),
            "target": "store", "target_place": scores,
        }  # fmt: skip
        # The next head's scores are computed while the shares of this one, and their sum, are on
        # their way.
        self._record(of_head="first", **score, **common)
        self._record(
            operation="power", length_from="seen", number_place=scores, target="store",
            target_place=shares, **common,
        )  # fmt: skip
        self._record(of_head="next", **score, **common)
        self._record(
            operation="mix", numbers="mix", length=length, number_place=shares, cache=values,
            target="store", target_place=self._place(op.target, by_head=1), **common | {"last": 1},
        )  # fmt: skip

    def _exchange(self, what: str, kind: str, row: int) -> None:
        """Save the rows of the block's tokens, or restore those of the tokens before it."""
        config, length = self.config, row * self.config.lanes
        most = config.products * config.weights
        if length > most:
            raise ValueError(
                f"{what} must have at most {most} keys and values of a token in the core, not "
                f"{length}"
            )
        beats = self.context * config.saved_beats(length)
        # From the end of the image on.
        self._record(kind=kind, by_token=0, length=length, rows=beats, address=self.saved)
        if kind == "save":
            self.saved += beats

    def _multiply(self, what: str, op: Multiply) -> None:
        left, right = op.left, op.right
        if self.program.vectors[right].wide:
            left, right = right, left
        self._require_narrow(what, right)
        target = self.program.vectors[op.target]
        shift = self._fraction(left) + self._fraction(right) - target.fraction
        self._record(
            operation="multiply", shift=self._shift(what, shift), wide=target.wide,
            length=target.length, number_place=self._place(left), factors="store",
            factor_place=self._place(right), head=self._beats(target.length), target="store",
            target_place=self._place(op.target),
        )  # fmt: skip

    def _move(self, what: str, op: Move) -> None:
        shift = self._fraction(op.source) - self._fraction(op.target)
        target = self.program.vectors[op.target]
        self._record(
            operation="scale", shift=max(shift, 0), constant=1 << max(-shift, 0), wide=target.wide,
            length=target.length, number_place=self._place(op.source), target="store",
            target_place=self._place(op.target),
        )  # fmt: skip

    def _loss(self, what: str, op: Loss) -> None:
        classes = self.program.vectors[op.source].length
        if classes > self.config.classes:
            raise ValueError(
                f"{what} needs classes = {max(2, classes)} of the core, which has "
                f"{self.config.classes}"
            )
        self._chosen(what, op)

    def _choose(self, what: str, op: Choose) -> None:
        if not self.config.choose:
            raise ValueError(f"{what} needs choose = True of the core")
        self._chosen(what, op)

    def _chosen(self, what: str, op: Choose | Loss) -> None:
        last = self.program.operations[-1]
        if op is not last or op.target != self.program.result:
            raise ValueError(f"{what} must be the last one, and its target the result, in the core")
        # A matrix that is given out has the target itself.
        if op.source in self.places.of:
            self._record(
                operation="scale", constant=1, wide=1, target="choose",
                length=self.program.vectors[op.source].length, number_place=self._place(op.source),
            )  # fmt: skip

    def _pool(self, what: str, op: Pool) -> None:
        """Add the tokens up; a softmax of powers 2^-(15 - shift) gives the reciprocal."""
        self._require_narrow(what, op.source)
        unit, size = self.config.unit, self.program.vectors[op.source].length
        shift = self._fraction(op.source) - self._fraction(op.target)
        room = unit.residual_width - unit.width - (self.block - 1).bit_length()
        if not -room <= shift <= unit.table_fraction:
            raise ValueError(
                f"{what} must shift by {-room}..{unit.table_fraction} in the core, not {shift}"
            )
        spare = self._spare(size)
        total = {"length": size, "target": "store", "target_place": spare, "wide": 1}
        self._record(by_token=0, operation="scale", numbers="zeros", **total)
        self._record(
            operation="scale", constant=1 << max(-shift, 0), number_place=self._place(op.source),
            add=1, addends="store", addend_place=spare, **total,
        )  # fmt: skip
        greatest = unit.table_fraction - max(shift, 0) << unit.score_fraction
        self._record(
            by_token=0, operation="score", numbers="words", length=1, constant=1,
            address=self.stored.put(entries(np.zeros(1), np.array([greatest]))), factors="words",
        )  # fmt: skip
        self._record(by_token=0, operation="power", numbers="zeros", length_from="tokens")
        self._record(
            by_token=0, operation="mix", length=size, number_place=spare, target="store",
            target_place=self._place(op.target),
        )  # fmt: skip


def engine_image(
    config: StreamEngineConfig, program: Program, parameters: Mapping[str, Integers], *,
    block: int, context: int,
) -> EngineImage:  # fmt: skip
    """Return the memory image of a program.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`: the core.
    program, parameters
        As :class:`~seedbed.golden.stream_engine.StreamEngine` takes them. Matrices have int8
        weights and a multiplier a row. Those with a trellis code are symbols in memory where the
        core has this code, and int8 elsewhere. Those of SeedLM or of groups need a core that has
        these.
    block
        The most tokens of a block.
    context
        The most tokens in all.

    Raises ``ValueError`` with a sentence for a program that the core does not run, or that does not
    fit it.
    """
    # It checks that no sum has more than 32 bits.
    StreamEngine(program, parameters)
    if program.unit.width != config.unit.width:
        raise ValueError(
            f"the program must have vectors of {config.unit.width} bits, not {program.unit.width}"
        )
    for name, value, most in (("block", block, config.block), ("context", context, config.context)):
        if not 1 <= value <= most:
            raise ValueError(f"the {name} must be in 1..{most}, not {value}")
    if not isinstance(program.operations[0], Embed | Input):
        raise ValueError("the program must begin with the row or the vector of each token")
    writer = _Writer(config, program, parameters, block, context)
    writer.write()
    if config.ahead:
        _join(writer.records)
    fraction = _kept_fraction(config, parameters)
    frames = block * writer.places.size
    sizes = {
        "records": len(writer.records), "store": frames + writer.scratch,
        "cache": config.cache_beats(context, writer.row),
    }  # fmt: skip
    for name, size in sizes.items():
        if size > getattr(config, name):
            raise ValueError(
                f"the program needs {name} = {size} of the core, which has {getattr(config, name)}"
            )
    header = {
        "frame": writer.places.size, "store": sizes["store"], "row": writer.row,
        "cache": sizes["cache"], "block": block, "context": context,
        "tokens": min(writer.tokens, (1 << 24) - 1),
        "trellis": config.code_field
        * any(KINDS[record["kind"]] == config.packed for record in writer.records)
        + bool(fraction),
        "fraction": fraction,
        "choose": any(record["target"] == TARGETS.index("choose") for record in writer.records),
        "loss": isinstance(program.operations[-1], Loss),
    }  # fmt: skip
    size = -(-(1 + len(writer.records)) * RECORD_BITS // config.beat_bits)
    rows = size + len(writer.stored.beats)
    image = rows + len(writer.stored.trainable)
    exchanges = KINDS.index("save"), KINDS.index("restore")
    for record in writer.records:
        record["address"] = record.get("address", 0)
        record["address"] += image if record["kind"] in exchanges else size
        if fraction and record["kind"] == KINDS.index("trellis"):
            record["constant"] += rows << KEPT_BEATS
        for name in ("number_place", "factor_place", "addend_place", "target_place"):
            place = record.get(name, {})
            if place.get("shared"):
                record[name] = {**place, "place": place["place"] + frames}
    beats = header_and_records(config, header, writer.records) + writer.stored.beats
    beats += writer.stored.trainable
    if image + writer.saved > 1 << config.address_bits:
        raise ValueError(
            f"the image has {image + writer.saved} beats, more than the core can address"
        )
    return EngineImage(
        tuple(beats), tuple(writer.names), writer.saved, image - rows, writer.stored.trainable_at
    )


def _join(records: list[dict]) -> None:
    """Let passes of tokens run while a matrix that takes their results runs for others.

    Passes that read no memory, and then matrices, follow for a group of tokens after another.
    """
    before, body = "", []
    for k, record in enumerate(records):
        body.append(record)
        if not record["last"]:
            continue
        kind = _joining(body)
        if (before, kind) in (("pass", "pass"), ("pass", "matrix"), ("matrix", "matrix")):
            records[k - len(body)]["joined"] = 1
        before, body = kind, []


def _joining(body: list[dict]) -> str:
    """Return whether a body is of passes that read no memory, ``pass``, or a ``matrix``, or ""."""
    if not all(each["by_token"] and each["target"] == TARGETS.index("store") for each in body):
        return ""
    kinds = {each["kind"] for each in body}
    if kinds <= {KINDS.index(name) for name in ("matrix", *PACKINGS)}:
        return "matrix"
    memory = {NUMBERS.index(name) for name in ("words", "token", "position")}
    reads = any(
        each["numbers"] in memory
        or each["factors"] == FACTORS.index("words")
        or each["addends"] == ADDENDS.index("words")
        for each in body
    )
    return "pass" if kinds == {KINDS.index("pass")} and not reads else ""


def _kept_fraction(config: StreamEngineConfig, parameters: Mapping[str, Integers]) -> int:
    """Return the fraction bits of kept weights, 0 where none of them can be tuned."""
    fractions = {of.kept.fraction for of in parameters.values() if of.kept}
    if not fractions:
        return 0
    folded = any(
        of.trellis and not of.kept and (of.weights != of.trellis.weights()).any()
        for of in parameters.values()
    )
    if fractions != {config.tune} or folded:
        raise ValueError(
            f"all kept weights must have {config.tune} fraction bits, as the core's have"
            if config.tune
            else "kept weights with fraction bits need tune of the core"
        )
    return config.tune
