"""Small random programs of the streamed engine: networks of three kinds, and any operations."""

from collections.abc import Callable

import numpy as np

from seedbed.golden.seedlm import LEAST, MOST, pack
from seedbed.golden.stream_engine import (
    GroupRows,
    Integers,
    KeptWeights,
    SeedlmRows,
    StreamEngine,
    TrellisRows,
)
from seedbed.spec import TrellisConfig
from seedbed.spec.gemv import GROUP
from seedbed.spec.stream_engine import (
    SEEDLM_BLOCKS,
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
    Vector,
)

__all__ = ["PROGRAMS", "WORDS", "drawn_program"]

#: Rows of the table of tokens.
WORDS = 50
#: The most that the magnitudes of a row's weights are together.
SUM_PEAK = (1 << 16) - 1


class _Drawn:
    """Collects operations with random parameters, whose results have magnitudes of about one."""

    def __init__(
        self, rng: np.random.Generator, *, trellis: int, seedlm: bool, groups: bool, keeps: bool,
        tune: int, inputs: bool,
    ):  # fmt: skip
        self.rng, self.trellis, self.seedlm, self.groups = rng, trellis, seedlm, groups
        self.keeps, self.inputs = keeps, inputs
        #: What a kept weight differs by at most.
        self.most = min(1000, KeptWeights.peak - 1 >> tune)
        self.vectors: dict[str, Vector] = {}
        self.operations: list[Operation] = []
        self.parameters: dict[str, Integers] = {}

    def vector(self, name: str, length: int, fraction: int = 10, *, wide: bool = False) -> str:
        self.vectors[name] = Vector(length=length, fraction=fraction, wide=wide)
        return name

    def begin(self, target: str) -> None:
        """Begin with the vector that comes with a token, or with the row of a random table."""
        if self.inputs:
            self.operations.append(Input(target=target))
        else:
            table = self.rows("words", WORDS, self.vectors[target].length)
            self.operations.append(Embed(table=table, target=target))

    def rows(
        self, name: str, rows: int, columns: int, *, target: str = "", scale=0, trellis=0,
        seedlm=False, tables=True,
    ) -> str:  # fmt: skip
        """Draw a matrix or a table, with biases where there is a target; return its name."""
        rng, biases, path = self.rng, None, None
        if target:
            one = 1 << self.vectors[target].fraction
            biases = rng.integers(-one, one, rows, endpoint=True)
        if seedlm:
            blocks = self._blocks(rows, -(-columns // SEEDLM_BLOCKS.block))
            of = SeedlmRows(code=SEEDLM_BLOCKS, blocks=blocks, fraction=19 + scale)
            self.parameters[name] = of.integers(columns, biases)
            return name
        if self.groups and tables:
            self.parameters[name] = self._groups(rows, columns, 19 + scale).integers(biases)
            return name
        if trellis:
            symbols = rng.integers(0, 1 << trellis, (rows, columns)).astype(np.uint8)
            path = TrellisRows(code=TrellisConfig(bits=trellis), symbols=symbols)
            weights = path.weights()
            if self.keeps and rng.random() < 0.8:
                # Rows without a kept weight, with some, and one with many.
                some = rng.random((rows, columns)) < 0.02
                some[rng.integers(rows), : self._many(columns, path.code.peak)] = 1
                weights = weights + some * rng.integers(-self.most, self.most, (rows, columns))
        else:
            weights = rng.integers(-128, 128, (rows, columns)).astype(np.int8)
        multipliers = rng.integers(1 << 14, 1 << 16, rows)
        fraction = 21 + scale
        self.parameters[name] = Integers(
            weights=weights, multipliers=multipliers, fraction=fraction, biases=biases, trellis=path
        )
        return name

    def _many(self, columns: int, peak: int) -> int:
        """Return how many weights of a row are kept at most, whose sum fits when all are tuned."""
        room = (SUM_PEAK - columns * peak) // (self.most + 1) - columns // 32
        return min(columns // 2, room)

    def _blocks(self, rows: int, count: int) -> np.ndarray:
        """Draw blocks of SeedLM, most of them with small exponents."""
        rng = self.rng
        seeds = rng.integers(1 << SEEDLM_BLOCKS.width, size=(rows, count))
        exponents = rng.integers(LEAST, LEAST + 4, (rows, count))
        exponents[rng.random((rows, count)) < 0.02] = MOST
        coefficients = rng.integers(LEAST, MOST, (rows, count, SEEDLM_BLOCKS.latent), endpoint=True)
        return pack(SEEDLM_BLOCKS, seeds, exponents, coefficients)

    def _groups(self, rows: int, columns: int, fraction: int) -> GroupRows:
        """Draw groups of either width, most of them with scales of about one size."""
        rng, bits = self.rng, int(self.rng.choice((4, 8)))
        codes = rng.integers(*((0, 16) if bits == 4 else (-128, 128)), (rows, columns))
        sizes = rows, -(-columns // GROUP)
        scales, minima = (
            rng.integers(-2047, 2048, sizes) << rng.integers(0, 3, sizes) for _ in range(2)
        )
        # A few are those of the least and the greatest shift.
        scales = np.where(rng.random(sizes) < 0.05, rng.integers(0, 2, sizes), scales)
        minima = np.where(rng.random(sizes) < 0.02, 1 << 25, minima << 3)
        return GroupRows(
            bits=bits, codes=codes, scales=scales, minima=minima, fraction=fraction + 4
        )  # fmt: skip

    def matrix(self, source: str, target: str, rows: int, *, biased=True, **options) -> None:
        """Add the products of a random matrix."""
        name, columns = f"w{len(self.operations)}", self.vectors[source].length
        scale = (columns.bit_length() + 1) // 2
        self.rows(
            name, rows, columns, target=target if biased else "", scale=scale, trellis=self.trellis,
            seedlm=self.seedlm,
        )  # fmt: skip
        self.operations.append(Matrix(weights=name, source=source, target=target, **options))

    def norm(self, source: str, target: str, *, centred: bool) -> None:
        """Add a norm with random gains and, if it is centred, biases."""
        name, length = f"g{len(self.operations)}", self.vectors[source].length
        rng, biases = self.rng, None
        if centred:
            one = 1 << self.vectors[target].fraction
            biases = rng.integers(-one, one, length, endpoint=True)
        top = (1 << 15) - 1
        # Gains have the root of their number.
        fraction = 15 - (length.bit_length() + 1) // 2
        self.parameters[name] = Integers(
            weights=rng.integers(-top, top, length), multipliers=np.ones(1, np.int64),
            fraction=fraction,
            biases=biases,
        )  # fmt: skip
        self.operations.append(
            Norm(source=source, gains=name, epsilon=1e-5, centred=centred, target=target)
        )

    def engine(self, result: str, *, chooses: bool = False, judges: bool = False) -> StreamEngine:
        if judges:
            logits = self.vector("classes", self.vectors[result].length, 12, wide=True)
            last = self.operations[-1]
            if isinstance(last, Matrix) and last.activation:
                # This matrix gives its results out itself.
                self.matrix(result, logits, self.vectors[result].length)
            else:
                self.operations.append(Move(source=result, target=logits))
            result = self.vector("loss", 2, 12, wide=True)
            self.operations.append(Loss(source=logits, target=result))
        if chooses:
            target = self.vector("number", 1, 0, wide=True)
            self.operations.append(Choose(source=result, target=target))
            result = target
        program = Program(vectors=self.vectors, operations=tuple(self.operations), result=result)
        return StreamEngine(program, self.parameters)


def _dense(made: _Drawn, size: int, layers: int) -> str:
    """A dense network: activations of every kind, a wide input, a residual, a product."""
    made.begin(made.vector("e", size, 12))
    made.vector("h", size + 3, 12, wide=True)
    made.matrix("e", "h", size + 3, biased=False)
    made.vector("big", size + 3, 16, wide=True)
    made.operations.append(Move(source="h", target="big"))
    source = "big"
    for k in range(layers):
        target = made.vector(f"a{k}", size - 1 + k, 11)
        made.matrix(source, target, size - 1 + k, activation=("relu", "silu", "gelu")[k % 3])
        source = target
    made.vector("r", size, 9, wide=True)
    made.operations.append(Move(source="e", target="r"))
    made.matrix(source, "r", size, add=True)
    made.vector("x", size, 10)
    made.operations.append(Multiply(left="r", right="e", target="x"))
    made.vector("y", 5, 9)
    made.matrix("x", "y", 5, activation="silu")
    return "y"


def _encoder(made: _Drawn, size: int, layers: int) -> str:
    """A BERT-like encoder with two heads; the result is made of the mean of its tokens."""
    made.vector("r", size, 12, wide=True)
    made.operations.append(
        Embed(
            table=made.rows("words", WORDS, size, tables=False),
            positions=made.rows("positions", 64, size, tables=False),
            target="r",
        )
    )
    x = made.vector("x", size)
    made.norm("r", x, centred=True)
    for k in range(layers):
        for part in ("q", "k", "v"):
            made.matrix(x, made.vector(f"{part}{k}", size), size)
        made.operations += [
            Attend(
                query=f"q{k}", key=f"k{k}", value=f"v{k}", heads=2, shared=2, causal=False,
                target=made.vector(f"mix{k}", size),
            ),
            Move(source=x, target="r"),
        ]  # fmt: skip
        made.matrix(f"mix{k}", "r", size, add=True)
        x = made.vector(f"y{k}", size)
        made.norm("r", x, centred=True)
        made.matrix(x, made.vector(f"m{k}", 2 * size), 2 * size, activation="gelu")
        made.operations.append(Move(source=x, target="r"))
        made.matrix(f"m{k}", "r", size, add=True)
        x = made.vector(f"x{k}", size)
        made.norm("r", x, centred=True)
    made.operations.append(Pool(source=x, target=made.vector("mean", size, 9)))
    made.vector("z", 6)
    made.matrix("mean", "z", 6)
    made.operations.append(Move(source="z", target=made.vector("end", 6, 7, wide=True)))
    return "end"


def _decoder(made: _Drawn, size: int, layers: int) -> str:
    """A LLaMA-like decoder with four heads of the query, and two of keys and values."""
    made.vector("r", size, 12, wide=True)
    made.operations.append(Embed(table=made.rows("words", WORDS, size), target="r"))
    for k in range(layers):
        n = made.vector(f"n{k}", size)
        made.norm("r", n, centred=False)
        turn: list[Operation] = []
        for part, heads in (("q", 4), ("k", 2), ("v", 0)):
            name = made.vector(f"{part}{k}", size if part == "q" else size // 2)
            made.matrix(n, name, made.vectors[name].length, biased=False)
            made.operations += turn
            turn = [Rotate(heads=heads, base=1e4, target=name)] if heads else []
        made.operations.append(
            Attend(
                query=f"q{k}", key=f"k{k}", value=f"v{k}", heads=4, shared=2,
                target=made.vector(f"mix{k}", size),
            )
        )  # fmt: skip
        made.matrix(f"mix{k}", "r", size, add=True, biased=False)
        n = made.vector(f"o{k}", size)
        made.norm("r", n, centred=False)
        middle = size + size // 2
        made.matrix(n, made.vector(f"gate{k}", middle), middle, activation="silu", biased=False)
        made.matrix(n, made.vector(f"up{k}", middle), middle, biased=False)
        made.operations.append(
            Multiply(
                left=f"gate{k}", right=f"up{k}", target=made.vector(f"m{k}", middle, 16, wide=True)
            )
        )
        made.matrix(f"m{k}", "r", size, add=True, biased=False)
    n = made.vector("n", size)
    made.norm("r", n, centred=False)
    made.vector("logits", WORDS)
    # The matrix of the logits is the table of tokens.
    made.operations.append(Matrix(weights="words", source=n, target="logits"))
    return "logits"


def _mixed(made: _Drawn, size: int, layers: int) -> str:
    """Random operations on a few vectors, which are read and written in any order, and in place."""
    rng = made.rng
    # The last one: more rows than the queues of sums have room for, and columns for small cores.
    lengths = size, size // 2, min(5 * size, 56)
    names = {length: [f"{length}{end}" for end in ("a", "b", "wide")] for length in lengths}
    for length, of_length in names.items():
        for name in of_length:
            made.vector(name, length, int(rng.integers(9, 13)), wide=name.endswith("wide"))
    written = [f"{size}a"]
    made.begin(written[0])

    def narrow(length: int) -> list[str]:
        of = made.vectors
        return [name for name in written if of[name].length == length and not of[name].wide]

    def drawn(among: list[str]) -> str:
        """Return one of some vectors, more often the one that was written last."""
        return among[-1] if rng.random() < 0.5 else str(rng.choice(among))

    def matrix(source: str, target: str) -> None:
        adds = target in written and rng.random() < 0.4
        activation = "" if adds else str(rng.choice(["", "", "relu", "silu", "gelu"]))
        made.matrix(
            source, target, made.vectors[target].length, add=bool(adds), activation=activation
        )

    attends = 0
    for _ in range(4 * layers + int(rng.integers(8))):
        source = drawn(written)
        length = made.vectors[source].length
        kind = str(rng.choice(["matrix", "matrix", "matrix", "norm", "move", "product", "attend"]))
        target = str(rng.choice(names[length]))
        if kind == "matrix":
            target = str(rng.choice(names[int(rng.choice(lengths))]))
            matrix(source, target)
        elif kind == "norm":
            target = names[length][int(rng.integers(2))]
            made.norm(source, target, centred=bool(rng.random() < 0.5))
        elif kind == "move":
            made.operations.append(Move(source=source, target=target))
        elif kind == "product" and (same := narrow(length)):
            made.operations.append(Multiply(left=source, right=drawn(same), target=target))
        elif kind == "attend" and attends < 2:
            attends += 1
            query, key, value = (drawn(narrow(size)) for _ in range(3))
            made.operations.append(Rotate(heads=2, base=1e4, target=query))
            target = names[size][int(rng.integers(2))]
            made.operations.append(
                Attend(
                    query=query, key=key, value=value, heads=2, shared=2,
                    causal=bool(rng.random() < 0.5), target=target,
                )
            )  # fmt: skip
        else:
            continue
        if target in written:
            written.remove(target)
        written.append(target)
    made.vector("y", 5, 9)
    made.matrix(written[-1], "y", 5)
    return "y"


PROGRAMS: dict[str, Callable[[_Drawn, int, int], str]] = {
    "mixed": _mixed, "dense": _dense, "encoder": _encoder, "decoder": _decoder,
}  # fmt: skip


def drawn_program(
    kind: str, rng: np.random.Generator, *, size: int, layers: int = 2, trellis: int = 0,
    seedlm: bool = False, groups: bool = False, keeps: bool = False, tune: int = 0,
    chooses: bool = False, judges: bool = False, inputs: bool = False,
) -> StreamEngine:  # fmt: skip
    """Return the model of a random program: one of :data:`PROGRAMS`, of vectors of ``size``.

    Matrices have a trellis code of ``trellis`` bits a weight, if that is not 0, and with ``keeps``
    some weights that are kept, and fit ``tune`` fraction bits; with ``seedlm``, they have SeedLM's
    blocks, and with ``groups`` groups, as have tables without one of positions. Other tables are
    int8. With ``chooses``, the result is the number of the greatest element; with ``judges``, a
    loss and this number. With ``inputs``, the dense network begins with a vector.
    """
    made = _Drawn(
        rng, trellis=trellis, seedlm=seedlm, groups=groups, keeps=keeps, tune=tune, inputs=inputs
    )
    return made.engine(PROGRAMS[kind](made, size, layers), chooses=chooses, judges=judges)
