"""Memory images of programs, run pass by pass, against the programs themselves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformer_tensors import decoder_tensors, encoder_tensors, rounded_weights

from seedbed.flow.importer.program_formats import calibrated, integers
from seedbed.flow.importer.transformers import Decoder, Encoder, decoder, encoder
from seedbed.golden.engine_image import engine_image, header_and_records
from seedbed.golden.engine_passes import PassEngine
from seedbed.golden.fixed import shifted
from seedbed.golden.stream_engine import FloatEngine, GroupRows, Integers, StreamEngine
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import HEADER, KINDS, RECORD, packed, unpacked
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
    Pool,
    Program,
    Rotate,
    Vector,
)
from seedbed.spec.vector_unit import VECTOR_OPERATIONS

CONFIG = StreamEngineConfig(lanes=2, products=2, beat_bits=128, context=64)


def compare(config, engine, image, sizes=(9, 1, 4)):
    """Run blocks one after another, twice from the first token. What was in the memories is left.

    A vector that is read before it is written would show.
    """
    passes = PassEngine(config, image.beats)
    assert passes.load() == "ok"
    rng = np.random.default_rng(4)
    passes.store[:] = rng.integers(-(1 << 23), 1 << 23, passes.store.shape)
    passes.cache[:] = rng.integers(-128, 128, passes.cache.shape)
    for _ in range(2):
        engine.start()
        for k, size in enumerate(sizes):
            tokens = rng.integers(0, WORDS, size)
            status, found = passes.run(tokens, start=not k)
            assert status == "ok"
            assert (np.array(found) == engine.run(tokens)).all()
    assert passes.run(rng.integers(0, WORDS, 11)) == ("tokens", [])
    assert passes.run(np.array([WORDS]), start=True) == ("tokens", [])


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        StreamEngineConfig(lanes=4, products=4, vectors=2),
        replace(CONFIG, trellis=4),
        StreamEngineConfig(lanes=4, products=4, vectors=2, trellis=2),
        replace(CONFIG, trellis=4, kept=200),
        replace(CONFIG, seedlm=True),
        replace(CONFIG, groups=True, beat_bits=512),
        replace(CONFIG, groups=True, beat_bits=1024, burst=32, vectors=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_passes_of_an_image_are_its_program(kind, config):
    engine = drawn_program(
        kind, np.random.default_rng(3), size=16, trellis=config.trellis, seedlm=config.seedlm,
        groups=config.groups, keeps=config.kept > 0,
    )  # fmt: skip
    image = engine_image(config, engine.program, engine.parameters, block=9, context=24)
    assert len(image.names) > len(engine.program.operations)
    compare(config, engine, image)


def test_a_trellis_code_is_int8_in_a_core_without_it():
    """The header says which code the program is for: the core's own one, or none."""
    engine = drawn_program("dense", np.random.default_rng(3), size=16, trellis=4)
    sizes = []
    for bits in (0, 2, 4):
        config = StreamEngineConfig(trellis=bits)
        image = engine_image(config, engine.program, engine.parameters, block=9, context=24)
        sizes.append(len(image.beats))
        compare(config, engine, image)
        for other in {0, 2, 4} - {bits}:
            passes = PassEngine(StreamEngineConfig(trellis=other), image.beats)
            assert passes.load() == ("damaged" if bits == 4 else "ok")
    assert sizes[0] == sizes[1] > sizes[2]


def test_blocks_of_seedlm_need_a_core_that_has_them():
    """A program of int8 runs in such a core, too, but not the other way round."""
    engine = drawn_program("dense", np.random.default_rng(3), size=16, seedlm=True)
    with pytest.raises(ValueError, match=r"w1 has blocks of SeedLM, which need seedlm = True"):
        engine_image(CONFIG, engine.program, engine.parameters, block=9, context=24)
    config = replace(CONFIG, seedlm=True)
    image = engine_image(config, engine.program, engine.parameters, block=9, context=24)
    for other in (CONFIG, replace(CONFIG, trellis=4)):
        assert PassEngine(other, image.beats).load() == "damaged"
    engine = drawn_program("dense", np.random.default_rng(3), size=16)
    image = engine_image(config, engine.program, engine.parameters, block=9, context=24)
    compare(config, engine, image)
    assert PassEngine(CONFIG, image.beats).load() == "ok"


GROUPED = replace(CONFIG, groups=True, beat_bits=512)


def test_groups_need_a_core_that_has_them():
    """A program of int8 runs in such a core, too, but not the other way round."""
    engine = drawn_program("dense", np.random.default_rng(3), size=16, groups=True)
    words = replace(engine.parameters["words"], groups=None, weights=np.zeros((WORDS, 16), np.int8))
    parameters = {**engine.parameters, "words": replace(words, sum_width=32)}
    with pytest.raises(ValueError, match=r"w1 has groups of codes, which need groups = True"):
        engine_image(CONFIG, engine.program, parameters, block=9, context=24)
    image = engine_image(GROUPED, engine.program, engine.parameters, block=9, context=24)
    for other in ({"groups": False}, {"groups": False, "trellis": 4}):
        assert PassEngine(replace(GROUPED, **other), image.beats).load() == "damaged"
    engine = drawn_program("dense", np.random.default_rng(3), size=16)
    image = engine_image(GROUPED, engine.program, engine.parameters, block=9, context=24)
    compare(GROUPED, engine, image)
    assert PassEngine(replace(GROUPED, groups=False), image.beats).load() == "ok"


@pytest.mark.parametrize("bits", [4, 8])
def test_groups_have_all_numbers_of_a_mantissa_and_a_shift(bits):
    """A scale has 11 bits, and is at most 2^15 times the unit of another one."""
    rng = np.random.default_rng(5)
    codes = rng.integers(*((0, 16) if bits == 4 else (-128, 128)), (7, 70))

    def image(scales):
        rows = GroupRows(bits=bits, codes=codes, scales=scales, minima=-8 * scales, fraction=40)
        program = Program(
            vectors={"e": Vector(length=70, fraction=8), "y": Vector(length=7, fraction=4)},
            operations=[
                Embed(table="words", target="e"), Matrix(weights="w", source="e", target="y")
            ],
            result="y",
        )  # fmt: skip
        words = drawn_program("dense", rng, size=70).parameters["words"]
        engine = StreamEngine(program, {"words": words, "w": rows.integers()})
        return engine, engine_image(GROUPED, program, engine.parameters, block=9, context=24)

    scales = rng.integers(-2047, 2048, (7, 3)) << rng.integers(0, 13, (7, 3))
    scales[0] = 1, -1, 2047 << 12
    compare(GROUPED, *image(scales))
    # Bits that all have as 0 do not count.
    compare(GROUPED, *image(scales << 3))
    for wrong in (2047 << 13, 4097):
        scales[1, 1] = wrong
        with pytest.raises(ValueError, match="scales and minima of w must have 11 bits, and"):
            image(scales)


def test_a_table_of_groups_is_stored_in_digits():
    """It has as many as its greatest element needs; with positions beside it, it is refused."""
    engine = drawn_program("decoder", np.random.default_rng(3), size=16, groups=True)
    table, fraction = engine.parameters["words"], engine.program.vectors["r"].fraction
    beats = []
    for shift in (0, 12):
        groups = table.groups
        words = replace(groups, fraction=groups.fraction + shift).integers(table.biases)
        parameters = {**engine.parameters, "words": words}
        rows = shifted(words.row(np.arange(WORDS)), words.fraction - fraction)
        image = engine_image(GROUPED, engine.program, parameters, block=9, context=24)
        beats.append(image.names.count("Embed"))
        assert beats[-1] == -(-int(np.abs(2 * rows).max() + 1).bit_length() // 8)
        compare(GROUPED, StreamEngine(engine.program, parameters), image)
    assert beats[0] > beats[1]
    engine = drawn_program("encoder", np.random.default_rng(3), size=16, groups=True)
    parameters = {**engine.parameters, "words": table}
    with pytest.raises(ValueError, match="must not have a table of positions beside groups"):
        engine_image(GROUPED, engine.program, parameters, block=9, context=24)


def test_the_low_bits_that_all_multipliers_have_as_0_are_left_out():
    """Multipliers of a trellis code are mantissas that are shifted; results are the same."""
    engine = drawn_program("dense", np.random.default_rng(3), size=16)
    parameters = dict(engine.parameters)
    for name, of in parameters.items():
        if of.multipliers.size > 1:
            parameters[name] = replace(
                of, multipliers=of.multipliers << 7, fraction=of.fraction + 7
            )
    image = engine_image(CONFIG, engine.program, parameters, block=9, context=24)
    compare(CONFIG, StreamEngine(engine.program, parameters), image)
    parameters["w1"] = replace(parameters["w1"], multipliers=parameters["w1"].multipliers | 1)
    with pytest.raises(ValueError, match=r"the multipliers of w1 must be in 0\.\.131071"):
        engine_image(CONFIG, engine.program, parameters, block=9, context=24)


def test_weights_that_are_kept_and_do_not_fit_are_refused():
    engine = drawn_program("dense", np.random.default_rng(3), size=16, trellis=4)
    of = engine.parameters["w1"]
    for kept, added, problem in (
        (0, 1, "w1 must keep at most 0 weights beside its trellis code, and 255 of a row, not 1"),
        (1, 1 << 15, r"kept weights of w1 must differ by -32768\.\.32767 at most"),
    ):
        weights = of.weights.astype(int)
        weights[2, 3] += added
        other = {**engine.parameters, "w1": replace(of, weights=weights)}
        config = replace(CONFIG, trellis=4, kept=kept)
        with pytest.raises(ValueError, match=problem):
            engine_image(config, engine.program, other, block=9, context=24)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_programs_of_the_importer_fit_the_core(kind):
    """Matrices have 8 bits. A head has six elements, so two lanes are enough."""
    rng = np.random.default_rng(6)
    if kind == "encoder":
        program, parameters = encoder(encoder_tensors(rng), Encoder(heads=4))
    else:
        program, parameters = decoder(decoder_tensors(rng, 2), Decoder(heads=4, shared=2))
    weights, reals = rounded_weights(parameters)
    floating = FloatEngine(program, reals)
    for _ in range(4):
        floating.start()
        floating.run(rng.integers(0, WORDS, 14))
    program = calibrated(program, floating.peaks)
    engine = StreamEngine(program, integers(program, parameters, weights))
    image = engine_image(CONFIG, engine.program, engine.parameters, block=9, context=24)
    compare(CONFIG, engine, image)


def test_records_are_unpacked_as_they_were_packed():
    rng = np.random.default_rng(1)
    for layout in (HEADER, RECORD):
        given = {
            name: {part: int(rng.integers(1 << bits)) for part, bits in form.items()}
            if isinstance(form, dict)
            else int(rng.integers(1 << form, dtype=np.uint64))
            for name, form in layout.items()
        }
        assert unpacked(packed(given, layout), layout) == given
        assert packed({}, layout) == 0
    with pytest.raises(ValueError, match=r"the field repeat must be in 0\.\.255, not 256"):
        packed({"repeat": 256}, RECORD)
    with pytest.raises(ValueError, match="a record has no field length2"):
        packed({"length2": 1}, RECORD)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "damaged"),
        ({"magic": 1}, "damaged"),
        ({"lanes": 4}, "damaged"),
        ({"store": CONFIG.store + 1}, "size"),
        ({"cache": CONFIG.cache + 1}, "size"),
        ({"context": CONFIG.context + 1}, "size"),
        ({"block": CONFIG.block + 1}, "size"),
    ],
)
def test_headers_of_other_cores_are_refused(changes, status):
    """A program without records is damaged."""
    passes = PassEngine(CONFIG, tuple(header_and_records(CONFIG, changes, [])))
    assert passes.load() == "damaged"
    passes = PassEngine(CONFIG, tuple(header_and_records(CONFIG, changes, [{}])))
    assert passes.load() == (status if changes else "ok")
    assert passes.loaded == (not changes)


def identity(rows, columns, *, fraction=0, **fields):
    weights = np.ones((rows, columns), np.int64)
    return Integers(
        weights=weights, multipliers=np.ones(rows, np.int64), fraction=fraction, **fields
    )


GAINS = Integers(weights=np.ones(4, np.int64), multipliers=np.ones(1, np.int64), fraction=0)
WIDE = Vector(length=4, wide=True)


@pytest.mark.parametrize(
    ("operation", "vectors", "parameters", "problem"),
    [
        (Move(source="a", target="b"), {}, {"t": identity(9, 4, fraction=-1)},
         r"operation 0, Embed, must shift by 0\.\.63 in the core, not -1"),
        (Matrix(weights="w", source="a", target="b"), {"b": Vector(length=4, fraction=9)}, {},
         r"operation 1, Matrix, must shift by 0\.\.63 in the core, not -9"),
        (Matrix(weights="w", source="a", target="b"), {"a": WIDE}, {},
         r"operation 1, Matrix, must shift by 8\.\.63 in the core, not 0"),
        (Matrix(weights="w", source="a", target="b"), {},
         {"w": replace(identity(4, 4), weights=np.full((4, 4), 128))},
         r"the weights of w must be integers in -128\.\.127"),
        (Matrix(weights="w", source="a", target="b"), {}, {"w": identity(4, 4, sum_width=56)},
         r"the weights of w must be integers in -128\.\.127"),
        (Matrix(weights="w", source="a", target="b"), {},
         {"w": replace(identity(4, 4), multipliers=np.full(4, 1 << 17 | 1))},
         r"the multipliers of w must be in 0\.\.131071"),
        (Matrix(weights="w", source="a", target="b"), {"a": Vector(length=70)},
         {"t": identity(9, 70), "w": identity(4, 70)},
         r"operation 1, Matrix, must have at most 64 columns, not 70"),
        (Multiply(left="a", right="a", target="b"), {"a": WIDE}, {},
         "operation 1, Multiply, must not have the wide vector a in the core"),
        (Norm(source="a", gains="g", epsilon=1.0, target="b"), {},
         {"g": replace(GAINS, biases=np.full(4, 1 << 23))},
         "operation 1, Norm, must have biases below 8388608"),
        (Norm(source="a", gains="g", epsilon=1.0, target="b"), {},
         {"g": replace(GAINS, weights=np.full(4, 1 << 15))},
         "operation 1, Norm, must have gains below 32768"),
        (Rotate(heads=2, base=10.0, target="a"), {"a": WIDE}, {},
         "operation 1, Rotate, must not have the wide vector a in the core"),
        (Rotate(heads=3, base=10.0, target="a"), {"a": Vector(length=18)}, {"t": identity(9, 18)},
         "operation 1, Rotate, must have heads of a multiple of 4 elements in the core, not 6"),
        (Attend(query="a", key="a", value="a", heads=1, shared=1, target="b"),
         {"a": replace(WIDE, fraction=5)}, {"t": identity(9, 4, fraction=5)},
         "operation 1, Attend, must not have the wide vector a in the core"),
        (Attend(query="a", key="a", value="a", heads=1, shared=1, target="b"),
         {"a": Vector(length=4, fraction=-9)}, {},
         r"operation 1, Attend, must shift by 8\.\.63 in the core, not "),
        (Choose(source="a", target="n"), {"n": Vector(length=1, wide=True)}, {},
         "operation 1, Choose, needs choose = True of the core"),
        (Loss(source="a", target="l"),
         {"a": replace(WIDE, fraction=12), "l": Vector(length=2, fraction=12, wide=True)},
         {"t": identity(9, 4, fraction=12)},
         "operation 1, Loss, needs classes = 4 of the core, which has 0"),
        (Input(target="a"), {}, {}, "operation 1, Input, needs inputs = True of the core"),
        (Pool(source="a", target="b"), {"b": Vector(length=4, fraction=9)}, {},
         r"operation 1, Pool, must shift by -6\.\.15 in the core, not -9"),
        (Pool(source="a", target="a"), {}, {},
         "operation 2, Move, must not read a mean over the tokens and a vector of each"),
    ],
)  # fmt: skip
def test_what_the_core_does_not_run_is_refused(operation, vectors, parameters, problem):
    config = StreamEngineConfig(lanes=4, products=4, beat_bits=256, columns=64)
    found = {"a": Vector(length=4), "b": Vector(length=4), **vectors}
    operations = [Embed(table="t", target="a"), operation]
    if isinstance(operation, Pool) and operation.target == "a":
        operations = [operations[0], Move(source="a", target="b"), operation]
        operations += [Multiply(left="a", right="b", target="b")]
        problem = "operation 3, Multiply, must not read a mean over the tokens"
    program = Program(vectors=found, operations=tuple(operations), result=operation.target)
    given = {"t": identity(9, 4), "w": identity(4, 4), "g": GAINS} | parameters
    with pytest.raises(ValueError, match=problem):
        engine_image(config, program, given, block=4, context=8)


def test_a_choice_that_is_not_the_result_is_refused():
    program = Program(
        vectors={"a": Vector(length=4), "n": Vector(length=1, wide=True), "m": Vector(length=1)},
        operations=(
            Embed(table="t", target="a"),
            Choose(source="a", target="n"),
            Move(source="n", target="m"),
        ),
        result="m",
    )
    problem = "operation 1, Choose, must be the last one, and its target the result, in the core"
    config = replace(CONFIG, choose=True)
    with pytest.raises(ValueError, match=problem):
        engine_image(config, program, {"t": identity(9, 4)}, block=4, context=8)


@pytest.mark.parametrize(
    ("config", "block", "context", "problem"),
    [
        ({}, 5, 3, r"the block must be in 1\.\.4, not 5"),
        ({}, 2, 17, r"the context must be in 1\.\.16, not 17"),
        ({"records": 8}, 2, 9, "the program needs records = .* of the core, which has 8"),
        ({"store": 16}, 4, 9, "the program needs store = .* of the core, which has 16"),
        ({"cache": 16}, 4, 9, "the program needs cache = .* of the core, which has 16"),
        ({"address_bits": 8}, 4, 9, "the image has .* beats, more than the core can address"),
    ],
)
def test_what_does_not_fit_the_core_is_refused(config, block, context, problem):
    engine = drawn_program("decoder", np.random.default_rng(3), size=8)
    config = StreamEngineConfig(
        **{"lanes": 2, "products": 2, "beat_bits": 128, "block": 4, "context": 16, **config}
    )
    with pytest.raises(ValueError, match=problem):
        engine_image(config, engine.program, engine.parameters, block=block, context=context)


def drawn_passes(layers):
    """Return what the records of a decoder are: kinds of matrices, and commands of passes."""
    engine = drawn_program("decoder", np.random.default_rng(3), size=8, layers=layers)
    image = engine_image(CONFIG, engine.program, engine.parameters, block=4, context=16)
    raw = b"".join(beat.to_bytes(CONFIG.beat_bits // 8, "little") for beat in image.beats)
    found = []
    for k in range(1, len(image.names) + 1):
        record = unpacked(int.from_bytes(raw[32 * k : 32 * (k + 1)], "little"), RECORD)
        kind = KINDS[record["kind"]]
        found.append(VECTOR_OPERATIONS[record["operation"]] if kind == "pass" else kind)
    return found


def test_all_layers_turn_by_the_sines_of_one_pass():
    found = drawn_passes(3)
    assert found.count("sine") == found.count("angle") == 1
    assert found.count("rotate") == 6


def test_an_activation_follows_the_next_matrix_and_a_rotation_too():
    """Which has the same source. The product of both follows the activation."""
    found = drawn_passes(1)
    at = found.index("activate")
    assert found[at - 2 : at + 2] == ["matrix", "matrix", "activate", "multiply"]
    at = found.index("angle")
    assert found[at - 2 : at + 5] == [
        "matrix",
        "matrix",
        "angle",
        "sine",
        "rotate",
        "matrix",
        "rotate",
    ]


def test_a_mean_whose_name_is_written_again_is_a_vector_of_each_token():
    config = StreamEngineConfig(lanes=4, products=4, beat_bits=256, columns=64)
    operations = (
        Embed(table="t", target="a"),
        Pool(source="a", target="b"),
        Move(source="a", target="b"),
        Multiply(left="b", right="a", target="a"),
    )
    vectors = {"a": Vector(length=4), "b": Vector(length=4)}
    program = Program(vectors=vectors, operations=operations, result="a")
    parameters = {"t": identity(9, 4)}
    image = engine_image(config, program, parameters, block=4, context=8)
    passes, tokens = PassEngine(config, image.beats), np.array([3, 1, 8])
    assert passes.load() == "ok"
    status, found = passes.run(tokens, start=True)
    assert status == "ok"
    assert np.array_equal(found, StreamEngine(program, parameters).run(tokens))


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"w": identity(3, 4)}, r"operation 1, Matrix, .* w with the shape \(4, 4\), not \(3, 4\)"),
        ({"w": identity(4, 5)}, r"operation 1, Matrix, .* w with the shape \(4, 4\), not \(4, 5\)"),
        ({"w": replace(identity(4, 4), multipliers=np.ones(5, np.int64))},
         r"multipliers of w with the shape \(4,\), not \(5,\)"),
        ({"w": replace(identity(4, 4), biases=np.zeros(1, np.int64))},
         r"biases of w with the shape \(4,\), not \(1,\)"),
        ({"w": replace(identity(4, 4), biases=np.full(4, 1 << 31))}, "biases of w must be"),
        ({"t": identity(9, 5)}, r"operation 0, Embed, .* t with the shape \(9, 4\), not \(9, 5\)"),
        ({"g": replace(GAINS, weights=np.ones(3, np.int64))},
         r"operation 2, Norm, .* g with the shape \(4,\), not \(3,\)"),
    ],
)  # fmt: skip
def test_parameters_of_another_shape_are_refused(parameters, problem):
    operations = (
        Embed(table="t", target="a"),
        Matrix(weights="w", source="a", target="a"),
        Norm(source="a", gains="g", epsilon=1.0, target="a"),
    )
    program = Program(vectors={"a": Vector(length=4)}, operations=operations, result="a")
    given = {"t": identity(9, 4), "w": identity(4, 4), "g": GAINS}
    StreamEngine(program, given)
    with pytest.raises(ValueError, match=problem):
        StreamEngine(program, given | parameters)


@pytest.mark.parametrize(("what", "layout"), [("header", HEADER), ("record", RECORD)])
def test_the_page_has_the_fields_in_their_order(what, layout):
    page = (Path(__file__).parents[2] / "docs/cores/stream_engine.md").read_text()
    table = page.split(f"| field of {'the' if what == 'header' else 'a'} {what} |")[1]
    found = []
    for row in table.split("\n\n")[0].splitlines()[2:]:
        names, widths = row.split(" | ")[:2]
        names = [name.strip("| `") for name in names.split(",")]
        widths = [int(width) for width in widths.removesuffix(" each").split(",")]
        found += zip(names, widths * (len(names) // len(widths)), strict=True)
    wanted = {
        name: sum(width.values()) if isinstance(width, dict) else width
        for name, width in layout.items()
    }
    assert found == list(wanted.items())
