"""The language model in integers: its text, its distance to float64, and what it prints."""

import json
import re
import struct
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from small_transformers import write_bert

from seedbed.flow.importer import program_file, transformer_files, transformer_import
from seedbed.flow.jobs.program_rtl import emitted_program
from seedbed.golden.stream_engine import StreamEngine
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.stream_job import Block
from seedbed.studies import llm, operation_shares


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    llm.run_llm(None, folder, Console(quiet=True), prompts=["a"], count=1)
    return folder


def test_a_text_is_that_of_the_most_probable_tokens(build):
    loaded = program_file.read(build / "demo/llm")
    engine = StreamEngine(loaded.program, loaded.parameters)
    first = loaded.tokens("Once")
    found = llm.generated(engine, first, 8, frozenset())
    tokens = list(first)
    for each in found:
        engine.start()
        assert engine.run(np.array(tokens))[-1].argmax() == each
        tokens.append(each)
    # A token that ends a text is its last.
    end = found[3]
    assert llm.generated(engine, first, 8, frozenset({end})) == found[: found.index(end) + 1]


@pytest.mark.long
@pytest.mark.parametrize(("form", "keep"), [("plain", 0), ("trellis", 0.01), ("seedlm", 0)])
def test_a_text_in_the_emitted_verilog(build, form, keep):
    """A prompt is in blocks that fit; a weight that is not the model's is found."""
    plan = transformer_import.plan(llm.random_model(), form, keep=keep)
    transformer_import.write(plan, build / form, transformer_import.CALIBRATION, None)
    loaded = program_file.read(build / form)
    engine = StreamEngine(loaded.program, loaded.parameters)
    first = loaded.tokens("Once")
    wanted = llm.generated(engine, first, 2, frozenset())
    with emitted_program(
        engine, block=4, context=6, vectors=1, build=build, console=Console(quiet=True)
    ) as core:
        assert llm.generated(core, first, 2, frozenset()) == wanted
        assert [block.tokens for block in core.blocks] == [4, 1]
        for name in ("model.layers.1.mlp.up_proj", "model.layers.0.self_attn.v_proj"):
            of = engine.parameters[name]
            engine.parameters[name] = replace(of, multipliers=-(-of.multipliers * 5 >> 2))
            with pytest.raises(Mismatch, match=r"beat \d+ of the result is not the model's"):
                llm.generated(core, first, 1, frozenset())
            engine.parameters[name] = of


def test_the_plot_has_a_bar_for_each_model(tmp_path):
    console = Console(quiet=True)
    pictures = []
    for name, kinds in (("one", {"Matrix": 60, "Norm": 20, "Embed": 20}), ("two", {"Matrix": 90})):
        operation_shares.add(
            tmp_path, name, Block(tokens=1, cycles=100, beats=80, kinds=kinds), console
        )
        pictures.append((tmp_path / "operations.png").read_bytes())
    heights = [struct.unpack(">I", picture[20:24])[0] for picture in pictures]
    assert heights[1] > heights[0]
    shown = json.loads((tmp_path / "one.json").read_text())
    assert shown["kinds"] == {"Matrix": 60, "Norm": 20, "Embed": 20}


def test_the_divergence_of_distributions():
    a, b = np.random.default_rng(1).normal(size=(2, 3, 5))
    p, q = (np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in (a, b))
    assert np.allclose(llm.divergence(a + 7, b - 2), (p * np.log(p / q)).sum(axis=1))
    assert np.allclose(llm.divergence(a, a), 0)


def test_the_demonstration_of_a_random_model(tmp_path, called):
    (tmp_path / "verse.txt").write_text("Water boils at a hundred degrees.\n" * 9)
    words = ["demo", "llm", "--prompt", "Once", "--tokens", "4", "--compare", "--text", "verse.txt"]
    code, out, _ = called(words, tmp_path)
    assert code == 0
    assert "The model is random" in out
    assert re.search(r"Predicted of the core .* tokens/s, [\d.]+ for each GB/s", out)
    same, count = map(int, re.search(r"(\d+) of (\d+) tokens are those of float64", out).groups())
    assert same <= count == 4
    _, tokens, mean, greatest, equal = re.search(r"verse.*", out)[0].strip("│ ").split("│")
    assert int(tokens) == llm.COMPARED
    assert 0 < float(mean) < float(greatest) < 0.05
    assert float(equal.strip(" %")) > 90


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--text", "bad"], "--text needs --compare"),
        (["--compare", "--text", "bad"], "bad is no text in UTF-8"),
        (["--compare", "--text", "empty"], "empty has no text"),
        (["--model", "."], "program.json is missing: 'seedbed import MODEL -o DIR' writes it"),
        (["--prompt", ""], "a prompt must have a token"),
    ],
)
def test_what_the_demonstration_refuses(words, problem, tmp_path, called):
    (tmp_path / "bad").write_bytes(b"\xff\xfe\xfd")
    (tmp_path / "empty").write_text(" \n")
    code, _, err = called(["demo", "llm", *words], tmp_path)
    assert (code, err) == (2, f"error: {problem}\n")


def test_an_encoder_is_no_language_model(tmp_path, called):
    model = transformer_files.read(write_bert(tmp_path / "model"))
    transformer_import.write(transformer_import.plan(model, "plain"), tmp_path / "out", ["a"], None)
    code, _, err = called(["demo", "llm", "--model", "out"], tmp_path)
    assert code == 2
    assert "out has no language model" in err
