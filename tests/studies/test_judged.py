"""Models with texts that judge compressed matrices: a small Llama and a small BERT."""

import re
from math import erf

import numpy as np
import pytest
from rich.console import Console
from small_transformers import (
    BASE,
    EPSILON,
    HEADS,
    LAYERS,
    LINES,
    SHARED,
    WIDTH,
    write_bert,
    write_llama,
)

from seedbed.flow.compress import methods
from seedbed.flow.importer import transformers
from seedbed.golden.stream_engine import FloatEngine
from seedbed.studies import decoder, encoder, formats, judged, sentences


def literal_llama(p, tokens):
    """Return log-probabilities, one token, head and pair at a time, in float64."""

    def norm(x, gain):
        return gain * x / np.sqrt(np.mean(x * x) + EPSILON)

    def turned(x, position):
        found = x.copy()
        for i in range(len(x) // 2):
            angle = position * BASE ** (-2 * i / len(x))
            a, b = x[2 * i], x[2 * i + 1]
            found[2 * i] = a * np.cos(angle) - b * np.sin(angle)
            found[2 * i + 1] = a * np.sin(angle) + b * np.cos(angle)
        return found

    p = {name: value.astype(float) for name, value in p.items()}
    size, logs, memory = WIDTH // HEADS, [], [([], []) for _ in range(LAYERS)]
    for position, token in enumerate(tokens):
        x = p["token_embd.weight"][token]
        for block in range(LAYERS):
            w = {n.split(".")[2]: v for n, v in p.items() if n.startswith(f"blk.{block}.")}
            n = norm(x, w["attn_norm"])
            q, k, v = (w[f"attn_{name}"] @ n for name in "qkv")
            keys, values = memory[block]
            keys.append([turned(part, position) for part in k.reshape(SHARED, size)])
            values.append(v.reshape(SHARED, size))
            mixed = []
            for head in range(HEADS):
                query, own = turned(q[head * size :][:size], position), head // (HEADS // SHARED)
                scores = np.array([query @ key[own] / size**0.5 for key in keys])
                share = np.exp(scores - scores.max())
                share /= share.sum()
                mixed.append(sum(s * value[own] for s, value in zip(share, values, strict=True)))
            x = x + w["attn_output"] @ np.concatenate(mixed)
            n = norm(x, w["ffn_norm"])
            gate = w["ffn_gate"] @ n
            x = x + w["ffn_down"] @ (gate / (1 + np.exp(-gate)) * (w["ffn_up"] @ n))
        logits = p["token_embd.weight"] @ norm(x, p["output_norm.weight"])
        logs.append(logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max())
    return np.array(logs)


def test_a_language_model_is_that_of_the_formulas(tmp_path):
    model = decoder.read(write_llama(tmp_path) / "model.gguf")
    (tokens,) = model.tokens(LINES[:2])
    found = model.log_probabilities(model.parameters, tokens)
    np.testing.assert_allclose(found, literal_llama(model.parameters, tokens), atol=1e-4)


def test_tokens_of_a_language_model(tmp_path):
    model = decoder.read(write_llama(tmp_path) / "model.gguf")
    (tokens,) = model.tokens(["the 12 the", "x"])
    words = [model.tokenizer.id_to_token(int(token)) for token in tokens]
    assert words == ["the", "Ġ", "1", "2", "Ġthe", "Ċ", "x"]
    parts = model.tokens(["x" * (2 * decoder.CONTEXT + 1)])
    # A single token has nothing to predict.
    assert [len(part) for part in parts] == [decoder.CONTEXT] * 2


def test_another_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is of the architecture 'other'; allowed is 'llama'"):
        decoder.read(write_llama(tmp_path, "other") / "model.gguf")
    folder = write_bert(tmp_path / "bert")
    (folder / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(ValueError, match="has a model of the type 't5'; allowed are bert"):
        encoder.read(folder)


def literal_bert(p, tokens):
    """Return the vector of a sentence, one head and position at a time, in float64."""

    def norm(x, name):
        gain, bias = p[f"{name}.weight"], p[f"{name}.bias"]
        return np.array([(r - r.mean()) / np.sqrt(r.var() + 1e-12) * gain + bias for r in x])

    def product(x, name):
        return np.array([p[f"{name}.weight"] @ row + p[f"{name}.bias"] for row in x])

    p = {name: value.astype(float) for name, value in p.items()}
    at = "embeddings."
    x = [
        p[f"{at}word_embeddings.weight"][token]
        + p[f"{at}position_embeddings.weight"][position]
        + p[f"{at}token_type_embeddings.weight"][0]
        for position, token in enumerate(tokens)
    ]
    x = norm(x, f"{at}LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        q, k, v = (product(x, f"{at}attention.self.{n}") for n in ("query", "key", "value"))
        mixed, size = np.zeros(x.shape), WIDTH // HEADS
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            for position in range(len(x)):
                scores = np.exp([q[position, part] @ key[part] / size**0.5 for key in k])
                mixed[position, part] = scores / scores.sum() @ v[:, part]
        x = norm(
            x + product(mixed, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm"
        )
        middle = product(x, f"{at}intermediate.dense")
        middle *= np.vectorize(lambda value: (1 + erf(value / 2**0.5)) / 2)(middle)
        x = norm(x + product(middle, f"{at}output.dense"), f"{at}output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.sqrt((mean**2).sum())


def test_an_encoder_is_that_of_the_formulas(tmp_path):
    model = encoder.read(write_bert(tmp_path / "bert"))
    lines = ["Abc 12", "x", "z" * 100]
    found = model.vectors(model.parameters, lines)
    for line, vector in zip(lines, found, strict=True):
        # No token fills a sentence up, and long ones are cut.
        tokens = model.tokenizer.encode(line).ids[:40]
        assert len(tokens) == min(len(line) + 2, 40)
        np.testing.assert_allclose(vector, literal_bert(model.parameters, tokens), atol=1e-5)


@pytest.mark.parametrize("write", [write_llama, write_bert])
def test_second_moments_are_those_of_the_inputs(write, tmp_path):
    model = judged.opened(write(tmp_path / "model"), 3)
    part = model.parts[1]
    moments = model.moments(1)
    assert set(moments) == set(model.matrices)
    seen = {name: [] for name in moments}
    if write is write_llama:
        for tokens in model._model.tokens(part):
            model._model.log_probabilities(
                model.parameters, tokens, lambda name, inputs: seen[name].append(inputs)
            )
    else:
        observe = lambda name, inputs: seen[name].append(inputs)  # noqa: E731
        model._model.vectors(model.parameters, part, observe)
    for name, inputs in seen.items():
        every = np.concatenate(inputs).astype(float)
        scale = np.abs(moments[name]).max()
        np.testing.assert_allclose(moments[name] / scale, every.T @ every / scale, atol=1e-5)


@pytest.mark.parametrize(
    ("write", "values", "output"),
    [
        (write_llama, "blk.0.attn_v.weight", "blk.0.attn_output.weight"),
        (
            write_bert, "encoder.layer.0.attention.self.value.weight",
            "encoder.layer.0.attention.output.dense.weight",
        ),
    ],
)  # fmt: skip
def test_moments_of_values_are_those_of_what_the_output_sees(write, values, output, tmp_path):
    """Values change by the same matrix in each head: the mixtures by its product with the x."""
    model = judged.opened(write(tmp_path / "model"), 3)
    moments, of = model.moments(1)[values], model._model
    own, heads = model.parameters[values], of.heads
    groups = getattr(of, "shared_heads", heads)
    change = np.random.default_rng(1).normal(size=(len(own) // groups, own.shape[1]))
    other = {**model.parameters, values: own + np.tile(change, (groups, 1)).astype(np.float32)}
    seen = []
    for parameters in (model.parameters, other):
        inputs = []

        def observe(name, x, inputs=inputs):
            inputs.extend([x] * (name == output))

        if write is write_llama:
            for tokens in of.tokens(model.parts[1]):
                of.log_probabilities(parameters, tokens, observe)
        else:
            of.vectors(parameters, model.parts[1], observe)
        seen.append(np.concatenate(inputs))
    found = ((seen[1] - seen[0]).astype(float) ** 2).sum()
    assert found == pytest.approx(np.trace(change @ moments @ change.T), rel=1e-3)


def test_what_models_are_judged_by(tmp_path):
    model = judged.opened(write_llama(tmp_path / "llama"), 3)
    same = model.compared(model.parameters)
    assert set(same["divergence"].values()) == {0.0}
    # Without its embedding, all tokens are equally probable.
    even = dict(model.parameters)
    even["token_embd.weight"] = even["token_embd.weight"] * 0
    found = model.compared(even)
    assert found["perplexity"]["b"] == pytest.approx(len(even["token_embd.weight"]), rel=1e-5)
    (tokens,) = model._model.tokens(["a dog", "and a hen"])
    logs = model._model.log_probabilities(model.parameters, tokens).astype(float)
    wanted = (np.exp(logs) * (logs + np.log(logs.shape[1]))).sum(axis=1).mean()
    assert found["divergence"]["b"] == pytest.approx(wanted, rel=1e-5)
    model = judged.opened(write_bert(tmp_path / "bert"), 3)
    assert model.compared(model.parameters)["cosine"]["a"] == pytest.approx(1)
    others = {name: -value for name, value in model.parameters.items()}
    vectors = [model._model.vectors(p, LINES[:3]) for p in (model.parameters, others)]
    cosines = [a @ b for a, b in zip(*vectors, strict=True)]
    assert model.compared(others)["cosine"]["a"] == pytest.approx(np.mean(cosines))


@pytest.fixture
def few(monkeypatch):
    used = {name: methods.METHODS[name] for name in ("groups of 32", "scale a row")}
    monkeypatch.setattr(formats, "METHODS", used)
    return used


@pytest.mark.parametrize("write", [write_llama, write_bert])
def test_models_in_the_comparison(write, tmp_path, few):
    folder = write(tmp_path / "model")
    result = formats.run_formats(folder, tmp_path / "out", lines=3)
    what = "divergence" if write is write_llama else "cosine"
    # Without feedback one draw, with feedback one for each part of the text.
    assert [row["draws"] for row in result["summary"]] == [1, 3, 1, 3] * 2
    for row in result["summary"]:
        spread = row[what]["a"]
        assert spread["least"] <= spread["mean"] <= spread["most"]
        assert (spread["least"] < spread["most"]) == row["feedback"]
    assert not list((tmp_path / "out/finished").iterdir())
    rows = formats._rows(result)
    assert {row.params["text"] for row in rows} == ({"a", "b"} if write is write_llama else {"a"})
    assert all(what in row.figures for row in rows)


def test_methods_by_name(tmp_path, few):
    folder = write_bert(tmp_path / "model")
    first = formats.run_formats(folder, tmp_path / "out", lines=3, methods="scale*")
    assert {row["method"] for row in first["summary"]} == {"scale a row"}
    both = formats.run_formats(folder, tmp_path / "out", lines=3, resume=True)
    assert {row["method"] for row in both["summary"]} == set(few)
    assert both["rows"][: len(first["rows"])] == first["rows"]


def test_finished_matrices_are_not_compressed_again(tmp_path, monkeypatch, few):
    folder, out = write_bert(tmp_path / "model"), tmp_path / "out"
    whole = formats.run_formats(folder, tmp_path / "whole", lines=3)
    seen = []

    def counted(weights, moments, kept):
        if len(seen) == 5:
            seen.append("")
            raise KeyboardInterrupt
        seen.append(weights.tobytes())
        return methods.METHODS["groups of 32"](weights, moments, kept)

    monkeypatch.setitem(few, "groups of 32", counted)
    with pytest.raises(KeyboardInterrupt):
        formats.run_formats(folder, out, lines=3)
    assert formats.run_formats(folder, out, lines=3, resume=True) == whole
    draws = 2 * (1 + 3)
    assert len(seen) == 1 + draws * 6 * LAYERS
    # Without --resume, all of them are.
    assert formats.run_formats(folder, out, lines=3) == whole
    assert len(seen) == 1 + 2 * draws * 6 * LAYERS


def test_the_matrices_of_a_model_with_texts(tmp_path, few):
    folder = write_bert(tmp_path / "model")
    both = tmp_path / "formats-model"
    judged_too = formats.run_formats(folder, both, lines=3)
    alone = formats.run_formats(folder, both, tensors="encoder.*")
    assert {row["case"]["draw"] for row in alone["rows"]} == set(judged_too["rows"][0]["matrices"])
    texts = [row.params.get("text") for row in formats.rows(tmp_path)]
    assert texts == [None] * 4 + ["a"] * 8


def test_a_folder_without_texts(tmp_path):
    (tmp_path / "llama").mkdir()
    folder = write_llama(tmp_path / "llama")
    for path in folder.glob("*.txt"):
        path.unlink()
    with pytest.raises(ValueError, match=r"llama has no text: a file \*.txt with lines"):
        judged.opened(folder, 3)
    # A vocabulary is no text: the matrices of such a folder are compared alone.
    folder = write_bert(tmp_path / "bert")
    (folder / "a.txt").unlink()
    assert judged.opened(folder, 3) is None


def test_the_program_of_an_encoder_is_the_encoder(tmp_path):
    model = encoder.read(write_bert(tmp_path / "bert"))
    program, parameters = transformers.encoder(
        model.parameters, transformers.Encoder(heads=HEADS, epsilon=model.epsilon)
    )
    engine = FloatEngine(program, parameters)
    for line, wanted in zip(LINES, model.vectors(model.parameters, LINES), strict=True):
        engine.start()
        (mean,) = engine.run(np.array(model.tokenizer.encode(line).ids[: model.positions]))
        assert np.allclose(mean / np.linalg.norm(mean), wanted, atol=1e-5)


def test_sentences_are_compared_in_integers(tmp_path, capsys):
    own = "A dog is eating food."
    found = sentences.run_sentences(write_bert(tmp_path / "bert"), Console(width=120), own=[own])
    assert {len(each) for each in found} == {1 + len(sentences.SENTENCES)}
    shown = capsys.readouterr().out
    found = re.findall(r"\d bits, in integers: a cosine of ([\d.]+) to float( with)?", shown)
    assert [bool(same) for _, same in found] == [False, True] * 2
    eight, eight_same, four, four_same = (float(cosine) for cosine, _ in found)
    assert four < eight < eight_same
    assert min(eight_same, four_same) > 0.9999
    assert own in shown
    assert "13" in shown
    assert "The stock market lost four percent on Tuesday." in shown
