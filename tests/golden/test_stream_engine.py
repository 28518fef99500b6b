"""Programs in integers against the same programs in float64, on small random transformers."""

from dataclasses import fields, replace

import numpy as np
import pytest
from transformer_tensors import (
    LAYERS,
    SIZE,
    WORDS,
    decoder_tensors,
    encoder_tensors,
    rounded_weights,
)

from seedbed.flow.importer.program_formats import calibrated, integers
from seedbed.flow.importer.transformers import Decoder, Encoder, decoder, encoder
from seedbed.golden.stream_engine import FloatEngine, Integers, Reals, StreamEngine
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
    Program,
    Rotate,
    Vector,
)


def small(kind, rng):
    if kind == "encoder":
        return encoder(encoder_tensors(rng), Encoder(heads=4))
    shared = {"decoder": 4, "decoder, shared heads": 2}[kind]
    return decoder(decoder_tensors(rng, shared), Decoder(heads=4, shared=shared))


KINDS = ("encoder", "decoder", "decoder, shared heads")


def both(kind, seed=3):
    """Return a program in integers, and in float64 with the same weights."""
    rng = np.random.default_rng(seed)
    program, parameters = small(kind, rng)
    weights, reals = rounded_weights(parameters)
    engine = FloatEngine(program, reals)
    for _ in range(8):
        engine.start()
        engine.run(rng.integers(0, WORDS, 20))
    program = calibrated(program, engine.peaks)
    return StreamEngine(program, integers(program, parameters, weights)), engine


class Steps:
    """The results of operations in integers, as real numbers."""

    def __init__(self, engine):
        self.engine, self.found = engine, []
        engine.written = self.written

    def written(self, operation):
        name = operation.target
        fraction = self.engine.program.vectors[name].fraction
        self.found.append(np.ldexp(self.engine.vectors[name].astype(float), -fraction))


@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_is_near_float64_with_the_same_weights_and_sources(kind):
    engine, floating = both(kind)
    steps = Steps(engine)
    tokens = np.random.default_rng(11).integers(0, WORDS, 17)
    engine.start()
    engine.run(tokens)
    errors = {}

    def compare(operation):
        found, wanted = steps.found.pop(0), floating.vectors[operation.target]
        error = np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean())
        sort = type(operation).__name__
        errors[sort] = max(errors.get(sort, 0), error)
        floating.vectors[operation.target] = found

    floating.written = compare
    floating.start()
    floating.run(tokens)
    # Keys and values have 8 bits.
    assert errors.pop("Attend") < 0.01
    assert max(errors.values()) < 0.001


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("sort", [0, 1])
def test_a_block_is_the_same_as_its_tokens_one_after_another(kind, sort):
    engine = both(kind)[sort]
    tokens = np.random.default_rng(5).integers(0, WORDS, 12)
    engine.start()
    whole = engine.run(tokens)
    for cuts in ([4, 5], range(1, 12)):
        engine.start()
        parts = np.concatenate([engine.run(part) for part in np.split(tokens, list(cuts))])
        if sort == 0:
            assert (parts == whole).all()
        else:
            assert np.allclose(parts, whole, rtol=1e-12)
    assert engine.position == 12


def test_layers_whose_vectors_have_the_same_names_keep_their_own_keys_and_values():
    program, parameters = small("decoder", np.random.default_rng(3))

    def plain_name(name):
        return name.split(".")[0]

    def renamed(operation):
        of = operation.sources if isinstance(operation, Attend) else ()
        names = {f.name: getattr(operation, f.name) for f in fields(operation)}
        kept = {"weights", "gains", "table", "positions"}
        return replace(operation, **{
            name: plain_name(value) for name, value in names.items()
            if isinstance(value, str) and name not in kept and (of or value in program.vectors)
        })  # fmt: skip

    vectors = {plain_name(name): vector for name, vector in program.vectors.items()}
    other = replace(program, vectors=vectors, operations=tuple(map(renamed, program.operations)))
    assert len({*other.operations}) < len({*program.operations})
    tokens = np.random.default_rng(5).integers(0, WORDS, 6)
    found, wanted = (FloatEngine(each, parameters) for each in (other, program))
    for part in np.split(tokens, 3):
        assert (found.run(part) == wanted.run(part)).all()


def test_a_later_token_changes_nothing_of_an_earlier_one():
    engine, _ = both("decoder")
    tokens = np.random.default_rng(5).integers(0, WORDS, 12)
    engine.start()
    whole = engine.run(tokens)
    tokens[7] = (tokens[7] + 1) % WORDS
    engine.start()
    other = engine.run(tokens)
    assert (other[:7] == whole[:7]).all()
    assert (other[7:] != whole[7:]).any(axis=1).all()


def test_pairs_half_a_head_apart_are_the_same_model_as_neighbours():
    rng = np.random.default_rng(9)
    tensors = decoder_tensors(rng, 2)
    tokens = rng.integers(0, WORDS, 9)
    wanted = FloatEngine(*decoder(tensors, Decoder(heads=4, shared=2))).run(tokens)
    for name, heads in (("q", 4), ("k", 2)):
        for layer in range(LAYERS):
            key = f"model.layers.{layer}.self_attn.{name}_proj.weight"
            halves = tensors[key].reshape(heads, 2, -1, SIZE)
            tensors[key] = np.stack([halves[:, 0], halves[:, 1]], axis=2).reshape(-1, SIZE)
    found = FloatEngine(*decoder(tensors, Decoder(heads=4, shared=2, neighbours=True))).run(tokens)
    assert (found == wanted).all()
    other = FloatEngine(*decoder(tensors, Decoder(heads=4, shared=2))).run(tokens)
    assert not np.allclose(other, wanted)


def plain(*rows):
    """Return integers as they are."""
    weights = np.array(rows)
    return Integers(weights=weights, multipliers=np.ones(len(weights), np.int64), fraction=0)


def test_a_wide_vector_is_shifted_for_each_token_at_a_matrix():
    """Of two tokens, one is 90,000 times the other: it is shifted, the other is exact."""
    vectors = {
        "e": Vector(length=4), "h": Vector(length=4, wide=True),
        "y": Vector(length=1, fraction=-4, wide=True),
    }  # fmt: skip
    operations = (
        Embed(table="t", target="e"),
        Multiply(left="e", right="e", target="h"),
        Matrix(weights="w", source="h", target="y"),
    )
    program = Program(vectors=vectors, operations=operations, result="y")
    rows = [3, 5, 7, 9], [900, 1500, 2100, 2700]
    engine = StreamEngine(program, {"t": plain(*rows), "w": plain([1, 1, 1, 1])})
    small, large = engine.run(np.array([0, 1]))[:, 0]
    assert small == round((9 + 25 + 49 + 81) / 16)
    assert large == sum((each * each + 128) // 256 for each in rows[1]) * 256 // 16


def test_a_row_whose_sums_may_overflow_is_refused():
    vectors = {"r": Vector(length=2), "y": Vector(length=2)}
    operations = (Embed(table="t", target="r"), Matrix(weights="w", source="r", target="y"))
    program = Program(vectors=vectors, operations=operations, result="y")
    StreamEngine(program, {"t": plain([1, 1]), "w": plain([1, 1], [1, -65534])})
    with pytest.raises(ValueError, match="row 1 of w must have magnitudes of at most 65535"):
        StreamEngine(program, {"t": plain([1, 1]), "w": plain([1, 1], [1, -65535])})
    with pytest.raises(ValueError, match="there are no parameters called w"):
        StreamEngine(program, {"t": plain([1, 1])})


@pytest.mark.parametrize(
    ("operation", "fractions", "problem"),
    [
        (Move(source="a", target="b"), (24, -16), None),
        (Move(source="a", target="b"), (-8, 9), "1, Move, must shift by -16..62, not -17"),
        (Multiply(left="a", right="a", target="b"), (24, -15), "Multiply, must shift .* not 63"),
        (Matrix(weights="t", source="a", target="b"), (0, 17), "Matrix, must shift .* not -17"),
        (Norm(source="a", gains="g", epsilon=1.0, target="b"), (0, 24), None),
        (
            Matrix(weights="t", source="a", target="b", activation="silu"), (0, 4),
            "Matrix, must have a result of 5..17 fraction bits, not 4",
        ),
    ],
)  # fmt: skip
def test_formats_between_which_no_shift_is_are_refused(operation, fractions, problem):
    a, b = (Vector(length=2, fraction=fraction) for fraction in fractions)
    operations = (Embed(table="e", target="a"), operation)
    program = Program(vectors={"a": a, "b": b}, operations=operations, result="b")
    table = Integers(
        weights=np.ones((2, 2), int), multipliers=np.ones(2, int), fraction=fractions[0]
    )
    gains = Integers(weights=np.ones(2, int), multipliers=np.ones(1, int), fraction=0)
    parameters = {"e": table, "t": plain([1, 1], [1, 1]), "g": gains}
    if problem is None:
        StreamEngine(program, parameters)
    else:
        with pytest.raises(ValueError, match=problem):
            StreamEngine(program, parameters)


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ((), "the result a must be a vector that is written"),
        ((Embed(table="t", target="d"),), "operation 0, Embed, names d, which is no vector"),
        ((Move(source="b", target="a"),), "operation 0, Move, reads b before it is written"),
        (
            (Embed(table="t", target="c"), Move(source="c", target="a")),
            "operation 1, Move, writes 4 elements, and reads another number",
        ),
        (
            (Embed(table="t", target="a"), Rotate(heads=4, base=10.0, target="a")),
            "operation 1, Rotate, has heads of an odd number of elements",
        ),
        (
            (
                Embed(table="t", target="a"),
                Embed(table="t", target="c"),
                Attend(query="a", key="c", value="c", heads=2, shared=2, target="b"),
            ),
            "operation 2, Attend, has heads of different lengths",
        ),
        *(
            (
                (Embed(table="t", target="a"), Choose(source="a", target=target)),
                "operation 1, Choose, must write a wide vector of one element and no fraction",
            )
            for target in ("b", "narrow", "fraction")
        ),
        (
            (Embed(table="t", target="a"), Loss(source="a", target="b")),
            "operation 1, Loss, must read a wide vector with 12 fraction bits",
        ),
        (
            (Embed(table="t", target="logits"), Loss(source="logits", target="b")),
            "operation 1, Loss, must write a wide vector of two elements with 12 fraction bits",
        ),
    ],
)
def test_a_wrong_program_is_refused(operations, problem):
    vectors = {
        "a": Vector(length=4), "b": Vector(length=4, wide=True), "c": Vector(length=6),
        "narrow": Vector(length=1), "fraction": Vector(length=1, fraction=1, wide=True),
        "logits": Vector(length=4, fraction=12, wide=True),
    }  # fmt: skip
    with pytest.raises(ValueError, match=problem):
        Program(vectors=vectors, operations=operations, result="a")


def test_the_first_one_of_equal_elements_is_chosen():
    rows = np.array([[-3, -1, -1, -2], [5, 5, 5, 5], [0, -7, 6, 6], [-9, -8, -7, -6]])
    vectors = {"a": Vector(length=4), "n": Vector(length=1, wide=True)}
    operations = (Embed(table="t", target="a"), Choose(source="a", target="n"))
    program = Program(vectors=vectors, operations=operations, result="n")
    one = np.ones(len(rows), np.int64)
    table = Integers(weights=rows, multipliers=one, fraction=0)
    for engine in (
        StreamEngine(program, {"t": table}),
        FloatEngine(program, {"t": Reals(weights=rows)}),
    ):
        assert engine.run(np.arange(4)).tolist() == [[1], [0], [2], [3]]


LOSSES = Program(
    vectors={
        "x": Vector(length=6, fraction=8), "z": Vector(length=5, fraction=12, wide=True),
        "loss": Vector(length=2, fraction=12, wide=True),
    },
    operations=(
        Input(target="x"), Matrix(weights="w", source="x", target="z"),
        Loss(source="z", target="loss"),
    ),
    result="loss",
)  # fmt: skip


def test_losses_of_vectors_are_near_float64():
    """The tables of softmax_loss have an error of a few thousandths."""
    rng = np.random.default_rng(2)
    weights = rng.integers(-128, 128, (5, 6))
    of = Integers(weights=weights, multipliers=np.full(5, 1 << 14), fraction=21)
    x, labels = rng.integers(-500, 500, (200, 6)), rng.integers(0, 5, 200)
    none = np.zeros(200, np.int64)
    found = StreamEngine(LOSSES, {"w": of}).run(none, inputs=x, labels=labels)
    real = FloatEngine(LOSSES, {"w": Reals(weights=weights / 2**7)})
    wanted = real.run(none, inputs=x / 2**8, labels=labels)
    assert np.abs(found[:, 0] / 2**12 - wanted[:, 0]).max() < 0.01
    assert wanted[:, 0].max() > 3
    assert np.array_equal(found[:, 1], wanted[:, 1])
    # A label that is no class; logits that saturate, whose first one is chosen.
    worst = StreamEngine(LOSSES, {"w": of}).run(none[:2], inputs=x[:2], labels=np.array([5, 255]))
    assert worst[:, 0].tolist() == [131071, 131071]
    same = Integers(weights=weights * 0 + 127, multipliers=np.full(5, 60000), fraction=14)
    equal = StreamEngine(LOSSES, {"w": same}).run(none[:1], inputs=x[:1] * 0 + 500, labels=none[:1])
    assert equal[0, 1] == 0
    assert abs(equal[0, 0] / 2**12 - np.log(5)) < 0.01


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "the program needs a vector for each token"),
        ({"inputs": np.zeros((2, 6))}, "the program needs a vector for each token"),
        ({"inputs": np.zeros((3, 5))}, r"the vectors of the tokens must be \(3, 6\), not \(3, 5\)"),
        ({"inputs": np.full((3, 6), 40000)}, r"inputs must be a whole number in -32768\.\.32767"),
        ({"inputs": np.zeros((3, 6))}, "the program needs a class for each token"),
    ],
)
def test_what_does_not_come_with_the_tokens_is_named(given, problem):
    of = Integers(weights=np.ones((5, 6), np.int64), multipliers=np.ones(5, np.int64), fraction=0)
    with pytest.raises(ValueError, match=problem):
        StreamEngine(LOSSES, {"w": of}).run(np.zeros(3, np.int64), **given)


def test_a_tensor_that_is_missing_is_named():
    tensors = encoder_tensors(np.random.default_rng(1))
    del tensors["encoder.layer.1.output.LayerNorm.bias"]
    problem = "there is no tensor called encoder.layer.1.output.LayerNorm.bias"
    with pytest.raises(ValueError, match=problem):
        encoder(tensors, Encoder(heads=4))
