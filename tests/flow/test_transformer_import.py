"""Transformers from files: what is read and refused, programs on a disk, and what they take."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize
from small_transformers import LAYERS, LINES, WIDTH, write_bert, write_llama, write_shards

from seedbed.flow.compress.pieces import _decode
from seedbed.flow.importer import packed_rows, program_file, transformer_files, transformer_import
from seedbed.flow.importer.program_figures import figures
from seedbed.flow.importer.program_formats import in_float
from seedbed.golden.stream_engine import FloatEngine, StreamEngine
from seedbed.spec.stream_engine import (
    Embed,
    Matrix,
    Norm,
    Program,
    StreamEngineConfig,
    Vector,
)
from seedbed.studies import decoder, encoder

QUANTIZED = [Kind.Q8_0, Kind.Q4_0, Kind.Q4_1]


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_groups_of_a_file_are_integers_without_a_loss(kind):
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(6, 96)).astype("f4") * np.logspace(-6, 2, 6, dtype="f4")[:, None]
    raw = quantize(weights, kind)
    form = kind.name.lower()
    found = packed_rows.PackedRows(form, raw, 96).integers()
    wanted = dequantize(raw, kind)
    assert raw.shape[1] == packed_rows.bytes_of_a_row(form, 96)
    assert (np.ldexp(found.row(np.arange(6)).astype(float), -found.fraction) == wanted).all()
    raw[2, :2] = 0, 0x7C
    with pytest.raises(ValueError, match="a scale of a group is not finite"):
        packed_rows.PackedRows(form, raw, 96).integers()


@pytest.mark.parametrize("form", packed_rows.COMPRESSED)
def test_packed_rows_are_the_integers_of_what_comes_back(form):
    weights = np.random.default_rng(2).normal(size=(4, 70)) / 20
    rows = packed_rows.pack(form, weights)
    assert rows.raw.shape == (4, packed_rows.bytes_of_a_row(form, 70))
    found = rows.integers()
    real = np.ldexp(found.row(np.arange(4)).astype(float), -found.fraction)
    wanted = np.ldexp(_decode(packed_rows.COMPRESSED[form], rows.raw, 70), rows.exponent)
    # A word of SeedLM is divided by 2^15, not by 2^15 - 1.
    assert np.allclose(real * (32768 / 32767 if form == "seedlm" else 1), wanted, rtol=1e-12)


def test_a_multiplier_has_two_bytes():
    """A scale just below a power of two would be rounded up to it."""
    weights = np.array([[127 * (2.0 - 1e-9), -3.0], [0.5, 0.25]])
    rows = packed_rows.pack("plain", weights)
    assert rows.raw[:, :2].copy().view("<u2")[0, 0] == 65535
    found = rows.integers()
    real = np.ldexp(found.row(np.arange(2)).astype(float), -found.fraction)
    assert np.allclose(real, weights, rtol=0, atol=np.abs(weights).max(axis=1, keepdims=True) / 250)


@pytest.mark.parametrize("moments", [False, True])
def test_kept_weights_are_those_that_are_wanted(moments):
    """To half a unit of the row; with moments, a kept weight is what the errors make of it."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(6, 96)) / 20
    weights[2, 5], weights[4, 95] = 0.9, -1.5
    inputs = rng.normal(size=(200, 96)) @ rng.normal(size=(96, 96))
    given = inputs.T @ inputs if moments else None
    rows = packed_rows.pack("trellis", weights, given, 4)
    assert len(rows.kept) == 4
    places = list(zip(*(rows.kept[name].tolist() for name in ("row", "column")), strict=True))
    assert {(2, 5), (4, 95)} <= {*places}
    real, plain = (
        np.ldexp(of.row(np.arange(6)).astype(float), -of.fraction)
        for of in (rows.integers(), replace(rows, kept=rows.kept[:0]).integers())
    )
    differs = real != plain
    assert {tuple(map(int, place)) for place in np.argwhere(differs)} <= {*places}
    without = packed_rows.pack("trellis", weights, given).integers()
    compared = np.ldexp(without.row(np.arange(6)).astype(float), -without.fraction)

    if moments:
        wrong = [((weights - each) @ inputs.T) for each in (real, compared)]
        assert (wrong[0] ** 2).sum() < (wrong[1] ** 2).sum()
    else:
        units = (
            rows.integers().multipliers[[r for r, _ in places]] / 2.0 ** rows.integers().fraction
        )
        wrong = np.abs(weights - real)[tuple(zip(*places, strict=True))]
        assert (wrong <= units / 2).all()
    assert rows.raw.shape == (6, packed_rows.bytes_of_a_row("trellis", 96))


def test_a_kept_weight_outside_of_the_matrix_is_refused():
    rows = packed_rows.pack("trellis", np.random.default_rng(3).normal(size=(6, 96)), None, 2)
    for name, value in (("row", 6), ("column", 96)):
        kept = rows.kept.copy()
        kept[name][1] = value
        with pytest.raises(ValueError, match="a kept weight is not in 6 x 96"):
            replace(rows, kept=kept).integers()


def test_no_matrix_keeps_more_than_a_core_has_room_for():
    shapes = {"small": (100, 100), "large": (1 << 10, 1 << 10)}
    found, _ = program_file.places(shapes, dict.fromkeys(shapes, "trellis"), {}, keep=0.02)
    assert [place.kept_weights for place in found.values()] == [200, program_file.MOST_KEPT]
    core = {"trellis": 4, "kept": program_file.MOST_KEPT}
    StreamEngineConfig(**core)
    with pytest.raises(ValueError, match="kept must be in"):
        StreamEngineConfig(**{**core, "kept": program_file.MOST_KEPT + 1})


def test_a_program_with_kept_weights(tmp_path):
    model = transformer_files.read(write_llama(tmp_path / "model"))
    plans = [transformer_import.plan(model, "trellis", keep) for keep in (0, 0.01)]
    place = plans[1].places["model.layers.0.mlp.down_proj"]
    assert place.kept_weights == round(0.01 * place.rows * place.columns)
    errors = []
    for plan in plans:
        out = tmp_path / str(plan.image)
        transformer_import.write(plan, out, LINES, None, feedback=True)
        assert (out / "image.bin").stat().st_size == plan.image
        loaded = program_file.read(out)
        floating = in_float(loaded.program, loaded.parameters)
        of = [e.parameters["model.layers.0.mlp.down_proj"].weights for e in (plan, floating)]
        errors.append(np.abs(of[0] - of[1]).max())
    assert plans[1].image > plans[0].image
    assert errors[1] < errors[0]
    read = [figures(p.program, p.places, p.image, tokens=5, context=5, vectors=4) for p in plans]
    kept = sum(each.kept_bytes for each in plans[1].places.values())
    assert read[1].read - read[0].read == 2 * kept
    damaged(out, put(10**6, "parameters", "model.layers.0.mlp.down_proj", "kept_weights"))
    with pytest.raises(ValueError, match="down_proj has 1000000 kept weights"):
        program_file.read(out)


def logits(engine, tokens):
    engine.start()
    return engine.run(tokens)


@pytest.mark.parametrize("write", [write_llama, write_shards, write_bert])
def test_an_imported_program_is_that_of_the_file(write, tmp_path):
    model = transformer_files.read(write(tmp_path / "model"))
    plan = transformer_import.plan(model, "plain")
    transformer_import.write(plan, tmp_path / "out", LINES, None)
    loaded = program_file.read(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(program_file.FILES)
    assert (tmp_path / "out/image.bin").stat().st_size == plan.image
    tokens = model.tokens("the cat has 12 eggs")
    assert (loaded.tokens("the cat has 12 eggs") == tokens).all()
    wanted = logits(FloatEngine(plan.program, plan.parameters), tokens)
    same = logits(in_float(loaded.program, loaded.parameters), tokens)
    found = logits(StreamEngine(loaded.program, loaded.parameters), tokens)
    fraction = loaded.program.vectors[loaded.program.result].fraction

    def error(a, b):
        return np.sqrt(((a - b) ** 2).mean() / (b**2).mean())

    # Weights of 8 bits; then keys and values of 8 bits.
    assert error(same, wanted) < 0.04
    assert error(np.ldexp(found.astype(float), -fraction), same) < 0.03


def test_a_file_of_groups_runs_with_the_weights_that_it_has(tmp_path):
    model = transformer_files.read(write_llama(tmp_path / "model", kind=Kind.Q4_1))
    plan = transformer_import.plan(model, "file")
    transformer_import.write(plan, tmp_path / "out", LINES, None)
    loaded = program_file.read(tmp_path / "out")
    formats = {place.format for place in loaded.places.values()}
    assert formats == {"q4_1", "q8_0", "gains"}
    floating = in_float(loaded.program, loaded.parameters)
    for name, place in loaded.places.items():
        if place.format != "gains":
            assert (floating.parameters[name].weights == plan.parameters[name].weights).all()
    tokens = model.tokens(LINES[0])
    engine = StreamEngine(loaded.program, loaded.parameters)
    fraction = loaded.program.vectors["logits"].fraction
    found = np.ldexp(logits(engine, tokens).astype(float), -fraction)
    wanted = logits(floating, tokens)
    assert np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean()) < 0.03


def test_a_format_that_a_file_does_not_have_is_refused(tmp_path):
    model = transformer_files.read(write_llama(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"the tensor blk\.0\.attn_q\.weight is not of Q8_0"):
        transformer_import.plan(model, "file")


def test_finished_matrices_are_not_packed_again(tmp_path, monkeypatch):
    model = transformer_files.read(write_shards(tmp_path / "model"))
    plan = transformer_import.plan(model, "trellis", 0.01)
    transformer_import.write(plan, tmp_path / "whole", LINES, None)
    packed = []

    def pack(form, *given):
        if len(packed) == 5:
            packed.append("")
            raise KeyboardInterrupt
        packed.append(form)
        return packed_rows.pack(form, *given)

    monkeypatch.setattr(transformer_import, "pack", pack)
    with pytest.raises(KeyboardInterrupt):
        transformer_import.write(plan, tmp_path / "out", LINES, None)
    assert not (tmp_path / "out/program.json").exists()
    transformer_import.write(plan, tmp_path / "out", LINES, None)
    for name in program_file.FILES:
        found = tmp_path / "out" / name
        assert found.read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(packed) == 1 + 7 * LAYERS + 2
    # Without an interruption, all are.
    del packed[:]
    with pytest.raises(KeyboardInterrupt):
        transformer_import.write(plan, tmp_path / "out", LINES, None)


@pytest.mark.parametrize("write", [write_shards, write_bert])
def test_with_feedback_the_error_of_outputs_is_less(write, tmp_path):
    model = transformer_files.read(write(tmp_path / "model"))
    plan = transformer_import.plan(model, "seedlm")
    engine = FloatEngine(plan.program, plan.parameters)
    tokens = model.tokens(LINES[3])
    errors = []
    for feedback in (False, True):
        out = tmp_path / str(feedback)
        transformer_import.write(plan, out, LINES, None, feedback=feedback)
        loaded = program_file.read(out)
        floating = in_float(loaded.program, loaded.parameters)
        errors.append(0)
        engine.start()
        engine.run(tokens)
        for op in plan.program.operations:
            if isinstance(op, Matrix) and loaded.places[op.weights].format == "seedlm":
                x = engine.vectors[op.source]
                a, b = (each.parameters[op.weights].weights for each in (engine, floating))
                wanted = x @ a.T
                errors[-1] += ((wanted - x @ b.T) ** 2).sum() / (wanted**2).sum()
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize(
    ("write", "values", "other"),
    [
        (write_llama, "model.layers.1.self_attn.v_proj", "blk.1.attn_v.weight"),
        (
            write_bert, "encoder.layer.1.attention.self.value",
            "encoder.layer.1.attention.self.value.weight",
        ),
    ],
)  # fmt: skip
def test_moments_are_those_of_the_float_models(write, values, other, tmp_path):
    """Of a matrix of values, too: with the same mixtures, also where a text comes in blocks."""
    folder = write(tmp_path / "model")
    plan = transformer_import.plan(transformer_files.read(folder), "trellis")
    llama = write is write_llama
    model = decoder.read(next(folder.glob("*.gguf"))) if llama else encoder.read(folder)
    engine = transformer_import._Observed(plan, ["trellis"])
    texts = [LINES[0]] if llama else LINES
    for text in texts:
        tokens = np.array(model.tokenizer.encode(text).ids)
        engine.start()
        for block in np.split(tokens, [3]) if llama else [tokens]:
            engine.run(block)
    wanted = model.second_moments(texts)
    found = engine.of(values)
    assert np.abs(found - wanted[other]).max() < 1e-4 * np.abs(found).max()
    inputs = engine.moments[engine.sources[values]]
    assert np.abs(found - inputs).max() > 0.1 * np.abs(found).max()
    assert len(engine.moments) == 4 * LAYERS


def of_llama(change):
    """Return a function that writes a Llama in GGUF with a change of the writer."""
    return lambda folder: write_llama(folder, change=change)


def extra(name, *shape):
    return of_llama(lambda writer: writer.add_tensor(name, np.ones(shape, "f4")))


def of_shards(change):
    return lambda folder: write_shards(folder, change)


def setting(**values):
    return of_shards(lambda tensors, config: config.update(values))


def tensor(name, value):
    """Return a function that writes a Llama in shards with a tensor, or without it."""

    def change(tensors, config):
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value

    return of_shards(change)


def config_of_bert(**values):
    def write(folder):
        write_bert(folder)
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return folder

    return write


def tokenizer(folder):
    write_bert(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Magic"}}')
    return folder


Q = "model.layers.1.self_attn.q_proj"
NAN = np.full((WIDTH, WIDTH), np.nan, "f4")


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (extra("blk.0.attn_q.bias", 4), "has the tensor 'blk.0.attn_q.bias', for which there is"),
        (extra("blk.2.attn_q.weight", 4), "has the tensor 'blk.2.attn_q.weight', for which"),
        (extra("rope_freqs.weight", 4), "has the tensor 'rope_freqs.weight', for which"),
        (
            of_llama(lambda w: w.kv_data[0]["llama.block_count"].__setattr__("value", 0)),
            "llama.block_count must be at least 1, not 0",
        ),
        (of_llama(lambda w: w.add_expert_count(2)), "llama.expert_count must be 0, not 2"),
        (of_llama(lambda w: w.add_rope_dimension_count(6)), "dimension_count must be the length"),
        (
            of_llama(lambda w: w.add_string("llama.rope.scaling.type", "yarn")),
            "llama.rope.scaling.type must be 'none', not 'yarn'",
        ),
        (
            of_llama(lambda w: w.add_string("llama.context_length", "many")),
            "llama.context_length must be of int, not 'many'",
        ),
        (
            lambda folder: write_llama(folder, kind=Kind.BF16, architecture="bert"),
            "is of the architecture 'bert'; allowed is 'llama'",
        ),
        (tensor(f"{Q}.bias", np.ones(WIDTH, "f4")), f"the tensor {Q}.bias has no place"),
        (tensor(f"{Q}.weight", np.ones((WIDTH, 8), "f4")), f"{Q}.weight must be any x 32, not 32"),
        (tensor(f"{Q}.weight", np.ones((12, WIDTH), "f4")), f"{Q}.weight must have rows for 4"),
        (tensor(f"{Q}.weight", np.ones(WIDTH, "f4")), f"{Q}.weight must be any x 32, not 32"),
        (tensor(f"{Q}.weight", None), f"has no tensor '{Q}.weight'"),
        (tensor(f"{Q}.weight", NAN), f"tensor '{Q}.weight' has numbers that are not finite"),
        (tensor(f"{Q}.weight", np.ones((WIDTH, WIDTH), int)), f"{Q}.weight' must be of F32"),
        (tensor("model.norm.weight", None), "there is no tensor called model.norm.weight"),
        (tensor("lm_head.weight", None), "has no tensor 'lm_head.weight'"),
        (setting(hidden_act="gelu"), "hidden_act must be 'silu', not 'gelu'"),
        (setting(rope_scaling={"type": "linear"}), "the angles must be of the type 'default'"),
        (setting(num_attention_heads=0), "num_attention_heads must be a number of the type int"),
        (setting(model_type="qwen2"), "has a model of the type 'qwen2'; allowed are bert, llama"),
        (setting(eos_token_id="no"), "eos_token_id must be a number or a list"),
        (
            tensor("model.embed_tokens.weight", np.ones((9, WIDTH), "f4")),
            "the tokenizer has 256 tokens, for 9 rows of model.embed_tokens",
        ),
        (config_of_bert(hidden_act="relu"), "hidden_act must be 'gelu', not 'relu'"),
        (config_of_bert(position_embedding_type="relative_key"), "must be 'absolute', not"),
        (tokenizer, "tokenizer.json is no tokenizer"),
    ],
)
def test_a_model_that_has_no_program_is_refused(write, problem, tmp_path):
    with pytest.raises(ValueError, match=re.escape(problem)) as found:
        transformer_import.plan(transformer_files.read(write(tmp_path / "model")), "plain")
    assert str(tmp_path / "model") in str(found.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"add_tokenizer_pre": "llama-bpe"}, "the tokenizer 'gpt2' with the split 'llama-bpe'"),
        ({"add_tokenizer_model": "llama"}, "the tokenizer 'llama' with the split 'smollm'"),
    ],
)
def test_an_unknown_tokenizer_is_refused(change, problem, tmp_path):
    def written(writer):
        for name, value in change.items():
            for fields in writer.kv_data:
                fields.pop(f"tokenizer.ggml.{name.removeprefix('add_tokenizer_')}", None)
            getattr(writer, name)(value)

    folder = write_llama(tmp_path / "model", change=written)
    with pytest.raises(ValueError, match=problem):
        transformer_files.read(folder)


def test_a_head_may_be_that_of_the_embedding(tmp_path):
    def change(tensors, config):
        del tensors["lm_head.weight"]
        config["tie_word_embeddings"] = True

    model = transformer_files.read(write_shards(tmp_path / "model", change))
    plan = transformer_import.plan(model, "trellis")
    assert "lm_head" not in plan.places
    assert plan.places["model.embed_tokens"].format == "plain"
    # A matrix of its own has another format.
    plan = transformer_import.plan(model, "trellis", pack_head=True)
    assert plan.places["lm_head"].format == "trellis"
    assert plan.places["model.embed_tokens"].format == "plain"
    assert plan.parameters["lm_head"] is plan.parameters["model.embed_tokens"]
    transformer_import.write(plan, tmp_path / "out", LINES, None)
    loaded = program_file.read(tmp_path / "out")
    assert loaded.parameters["lm_head"].trellis
    floating = in_float(loaded.program, loaded.parameters)
    engine = StreamEngine(loaded.program, loaded.parameters)
    fraction = loaded.program.vectors["logits"].fraction
    tokens = model.tokens(LINES[0])
    found = np.ldexp(logits(engine, tokens).astype(float), -fraction)
    wanted = logits(floating, tokens)
    assert np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean()) < 0.03


def test_a_head_of_its_own_is_packed(tmp_path):
    model = transformer_files.read(write_shards(tmp_path / "model"))
    plans = [transformer_import.plan(model, "seedlm", pack_head=pack) for pack in (False, True)]
    assert [plan.places["lm_head"].format for plan in plans] == ["plain", "seedlm"]
    assert plans[0].program == plans[1].program


def test_special_tokens_and_a_first_one(tmp_path):
    def change(writer):
        writer.add_token_types([3] + [1] * 258)
        writer.add_add_bos_token(True)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(5)

    model = transformer_files.read(write_llama(tmp_path / "model", change=change))
    first = model.tokenizer.id_to_token(0)
    assert model.tokens("a")[0] == 0
    assert list(model.tokens(f"a{first}"))[-1] == 0
    assert model.ends == {5}


def test_damaged_gguf_files_end_in_a_sentence(tmp_path):
    raw = (write_llama(tmp_path / "model", kind=Kind.Q8_0) / "model.gguf").read_bytes()
    rng = np.random.default_rng(4)
    path = tmp_path / "bad.gguf"
    sentences = []

    def tried():
        try:
            transformer_import.plan(transformer_files.read(path), "plain")
        except ValueError as problem:
            return str(problem)
        return None

    for trial in range(60):
        changed = bytearray(raw)
        if trial % 2:
            # The head has what sizes and offsets are.
            for place in rng.integers(0, 3000, 3):
                changed[place] = rng.integers(256)
        else:
            del changed[rng.integers(len(raw)) :]
        path.write_bytes(changed)
        sentences.append(tried())
    # Some changes make another model, such as one with other tokens.
    refused = [each for each in sentences if each]
    assert len(refused) > 30
    assert all(str(path) in each for each in refused)


def damaged(folder, change):
    """Change the document of a program."""
    path = folder / "program.json"
    whole = json.loads(path.read_text())
    change(whole)
    path.write_text(json.dumps(whole))


def put(value, *keys):
    def change(whole):
        *inner, last = keys
        for key in inner:
            whole = whole[key]
        whole[last] = value

    return change


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported")
    model = transformer_files.read(write_llama(folder / "model"))
    transformer_import.write(transformer_import.plan(model, "plain"), folder / "out", LINES, None)
    return folder / "out"


HEAD = "model.embed_tokens"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put(2, "seedbed program"), "its version must be 1, not 2"),
        (put("Jump", "operations", 3, "operation"), "operation 3 must be one of Embed, Input"),
        (put(7, "operations", 0, "table"), "operation 0, Embed, has the table 7"),
        (put("no", "operations", 0, "table"), "operation 0 has no parameter no"),
        (put(0, "operations", 4, "heads"), "heads must be in 1..65536, not 0"),
        (put(float("nan"), "operations", 1, "epsilon"), "epsilon must be a number of 0 or more"),
        (put(10**6, "vectors", "n.0", "length"), "operation 1, Norm, writes 1000000 elements"),
        (put("x", "vectors", "r", "length"), "vector r has the length 'x'"),
        (put("logit", "result"), "the result logit must be a vector that is written"),
        (put("q9", "parameters", HEAD, "format"), "has the format 'q9', unknown"),
        (put(0, "parameters", HEAD, "rows"), f"parameter {HEAD} has 0 x 32 weights"),
        (put(10**9, "parameters", HEAD, "rows"), f"image.bin: {HEAD}: 34000000000 bytes at 0"),
        (put(-64, "parameters", HEAD, "offset"), f"image.bin: {HEAD}: 8806 bytes at -64 are not"),
        (put(16, "parameters", HEAD, "columns"), "does not take the parameter model.embed_tokens"),
        (put(9, "parameters", HEAD, "rows"), "does not take the parameter model.embed_tokens"),
        (put([1.5], "ends"), "ends must be numbers"),
        (put(0, "positions"), "positions must be a number of 1 or more"),
        (lambda whole: whole.pop("vectors"), "it has no 'vectors'"),
        (lambda whole: whole["operations"][0].pop("table"), "missing 1 required keyword"),
    ],
)  # fmt: skip
def test_a_damaged_program_is_refused(change, problem, imported, tmp_path):
    for name in program_file.FILES:
        (tmp_path / name).write_bytes((imported / name).read_bytes())
    program_file.read(tmp_path)
    damaged(tmp_path, change)
    with pytest.raises(ValueError, match=re.escape(problem)) as found:
        program_file.read(tmp_path)
    assert str(tmp_path) in str(found.value)


def test_a_program_without_its_files_is_refused(imported, tmp_path):
    with pytest.raises(
        ValueError, match=r"program\.json is missing: 'seedbed import MODEL -o DIR'"
    ):
        program_file.read(tmp_path)
    for name in program_file.FILES:
        (tmp_path / name).write_bytes((imported / name).read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"program\.json is not JSON"):
        program_file.read(tmp_path)
    (tmp_path / "program.json").write_bytes((imported / "program.json").read_bytes())
    with pytest.raises(ValueError, match=r"image.bin: .* are not in its \d+ bytes"):
        program_file.read(tmp_path)
    (tmp_path / "image.bin").write_bytes((imported / "image.bin").read_bytes())
    with pytest.raises(ValueError, match=r"tokenizer\.json is no tokenizer"):
        program_file.read(tmp_path)


def test_figures_of_a_program():
    """A vector of 64, its norm, and a matrix of 128 rows, for 6 tokens with 4 at once."""
    vectors = {"r": Vector(length=64, wide=True), "n": Vector(length=64), "y": Vector(length=128)}
    operations = (
        Embed(table="t", target="r"),
        Norm(source="r", gains="g", epsilon=1e-5, centred=True, target="n"),
        Matrix(weights="w", source="n", target="y"),
    )
    program = Program(vectors=vectors, operations=operations, result="y")
    places, image = program_file.places(
        {"t": (10, 64), "g": (1, 64), "w": (128, 64)},
        {"t": "plain", "g": "gains", "w": "trellis"},
        {"g": 64},
    )
    # A row of 8 bits has two more bytes, one of 4 bits, too. Places are multiples of 64 bytes.
    assert image == 704 + 256 + 256 + 128 * 34
    assert [places[name].offset for name in "tgw"] == [0, 704, 1216]
    assert places["g"].biases == 960
    found = figures(program, places, image, tokens=6, context=6, vectors=4)
    assert found.read == 6 * 66 + 2 * 256 + 2 * 128 * 34
    assert found.matrix_cycles == 6 * 2 + 2 * 4 + 2 * 68
    assert found.vector_cycles == 6 * 3 * 8
    assert found.vectors == 6 * (64 * 3 + 64 * 2)
    assert found.cycles == 156
    assert found.per_second == pytest.approx(6 * 200e6 / 156)


def test_import_of_a_transformer(tmp_path, called):
    folder = write_llama(tmp_path / "model", kind=Kind.Q8_0)
    code, out, err = called(["import", "model", "--dry-run", "--json", "-o", "out"], tmp_path)
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert shown["format"] == "file"
    assert not (tmp_path / "out").exists()
    words = ["import", "model/model.gguf", "--format", "plain", "-o", "out", "--context", "64"]
    code, out, _ = called(words, tmp_path)
    assert code == 0
    assert re.search(r"keys and values\D+(\d,\d+)", out)
    assert out.endswith("out/program.json\nout/image.bin\nout/tokenizer.json\n")
    assert (tmp_path / "out/image.bin").stat().st_size == int(
        re.search(r"memory image\D+([\d,]+)", out)[1].replace(",", "")
    )
    code, _, err = called(words, tmp_path)
    assert (code, err) == (2, "error: out/program.json exists already; --force overwrites it\n")
    for bad, problem in (
        (["--format", "best"], "--format must be one of trellis, seedlm, groups, plain, file"),
        (["--feedback"], "--feedback needs --text, and --format trellis or seedlm"),
        (["--pack-head"], "--pack-head goes with a decoder, and --format trellis, seedlm, groups"),
        (["--data", "model"], "--network and --data go with a network, not with model"),
    ):
        code, _, err = called(["import", "model", "-o", "new", *bad], tmp_path)
        assert code == 2
        assert problem in err
    code, _, err = called(["import", "model/a.txt", "--dry-run"], tmp_path)
    assert code == 2
    assert "--dry-run goes with a transformer" in err
    assert folder.is_dir()


def test_an_encoder_has_no_context(tmp_path, called):
    write_bert(tmp_path / "model")
    code, _, err = called(["import", "model", "--context", "9", "-o", "out"], tmp_path)
    assert (code, "--context goes with a decoder" in err) == (2, True)
    code, out, _ = called(["import", "model", "--format", "groups", "-o", "out"], tmp_path)
    assert code == 0
    assert "32 tokens of 32" in out
    loaded = program_file.read(tmp_path / "out")
    assert loaded.positions == 40
    assert loaded.program.result == "mean"
