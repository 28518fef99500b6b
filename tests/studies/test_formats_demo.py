"""The comparison of formats: random weights, a checkpoint in shards, and a small language model."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import small_lm
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import methods
from seedbed.flow.compress.checkpoint import CheckpointError
from seedbed.flow.report import docs
from seedbed.flow.report.report import document
from seedbed.flow.report.row import load_rows, saved_rows
from seedbed.flow.report.sections import sections
from seedbed.golden import language_model
from seedbed.spec import SeedlmConfig
from seedbed.studies import formats, judged

ROOT = Path(__file__).parents[2]
FEW = {
    "groups of 32": methods.METHODS["groups of 32"],
    "SeedLM": methods._Packed(SeedlmConfig(block=4, latent=2, width=5)),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few methods, small matrices, and few draws."""
    monkeypatch.setattr(formats, "METHODS", FEW)
    monkeypatch.setattr(formats, "SHAPE", (6, 64))
    monkeypatch.setattr(judged, "PARTS", 2)
    monkeypatch.setattr(judged._Characters, "dampings", (0.01, 0.1))


def found(result, method, **case):
    wanted = {"kept": 0.0, "feedback": False, "method": method} | case
    return [row for row in result["summary"] if wanted.items() <= row.items()]


def test_random_weights(tmp_path):
    result = formats.run_formats(None, tmp_path, seeds=2)
    assert json.loads((tmp_path / "formats.json").read_text()) == result
    assert len(result["rows"]) == 2 * 2 * 2 * 2
    assert result["command"] == "seedbed demo formats --seeds 2"
    gaussian, laplace = found(result, "groups of 32")
    assert (gaussian["data"], laplace["data"]) == ("Gaussian", "Laplace")
    errors = []
    for seed in (1, 2):
        weights = np.random.default_rng(seed).normal(size=(6, 64)).astype(np.float32)
        none = np.zeros(weights.shape, bool)
        errors.append(FEW["groups of 32"](weights, None, none).error(weights))
    ranges = gaussian["error"]
    assert [ranges["least"], ranges["most"]] == pytest.approx(sorted(errors))
    assert ranges["least"] < ranges["mean"] < ranges["most"]
    assert (gaussian["bits"], gaussian["draws"]) == (4.5, 2)


def write_shards(folder):
    rng = np.random.default_rng(1)
    parts = {
        "a": {"x": rng.normal(size=(8, 64)).astype("f4"), "bias": np.ones(3, "f4")},
        "b": {"y": rng.normal(size=(4, 64)).astype("f2"), "kernel": np.ones((2, 2, 9), "f4")},
    }
    for name, part in parts.items():
        save_file(part, folder / f"{name}.safetensors")
    listed = {tensor: f"{name}.safetensors" for name, part in parts.items() for tensor in part}
    (folder / "x.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))


def test_matrices_of_a_checkpoint(tmp_path):
    folder = tmp_path / "net"
    folder.mkdir()
    write_shards(folder)
    result = formats.run_formats(folder, tmp_path / "out")
    (row,) = found(result, "groups of 32")
    assert (row["data"], row["draws"], row["bits"]) == ("net", 2, 4.5)
    assert {each["case"]["draw"] for each in result["rows"]} == {"x", "y"}
    result = formats.run_formats(folder / "x.safetensors.index.json", tmp_path / "out", tensors="y")
    assert {each["case"]["draw"] for each in result["rows"]} == {"y"}
    assert result["command"] == "seedbed demo formats --model DIR --tensors 'y'"
    with pytest.raises(CheckpointError, match="net has no matrix to compare: none whose name"):
        formats.run_formats(folder, tmp_path / "out", tensors="k*")
    values = load_file(folder / "b.safetensors")
    values["y"][1, 1] = np.nan
    save_file(values, folder / "b.safetensors")
    with pytest.raises(CheckpointError, match=r"b.safetensors: tensor 'y' has weights that are"):
        formats.run_formats(folder, tmp_path / "out")


def test_a_language_model(tmp_path):
    folder = small_lm.write(tmp_path / "model")
    (folder / "b.txt").write_text("big bad egg\nfig\n")
    result = formats.run_formats(folder, tmp_path / "out", lines=1)
    assert list(result["perplexity"]) == ["a", "b"]
    parameters = load_file(folder / "model.safetensors")
    for method in FEW:
        (plain,), (feedback,) = (found(result, method, feedback=f) for f in (False, True))
        (kept,) = found(result, method, feedback=True, kept=0.001)
        # Two parts and two dampings; with kept weights, the second of the dampings.
        assert (plain["draws"], feedback["draws"], kept["draws"]) == (1, 4, 2)
        for text in ("a", "b"):
            assert plain["divergence"][text]["mean"] > 0
            ranges = feedback["divergence"][text]
            assert ranges["least"] <= ranges["mean"] <= ranges["most"]
    # Attention and biases are not packed: what is judged is the model with decoded matrices.
    (plain,) = found(result, "groups of 32")
    names = [n for n in parameters if n.endswith("weight") and n[0] != "a"]
    changed = dict(parameters)
    for name in names:
        none = np.zeros(parameters[name].shape, bool)
        decoded = FEW["groups of 32"](parameters[name], None, none).weights
        changed[name] = decoded.astype(np.float32)
    numbers = json.loads((folder / "vocab.json").read_text())
    line = [[numbers[c] for c in "big bad egg"]]
    windows = language_model.windows(line, numbers["<s>"])
    wanted = language_model.perplexity(changed, *windows)
    assert plain["perplexity"]["b"]["mean"] == pytest.approx(wanted)


def test_finished_draws_are_not_measured_again(tmp_path, monkeypatch):
    whole = formats.run_formats(None, tmp_path, seeds=2)
    path = tmp_path / "formats.json"
    path.write_text(json.dumps(whole | {"rows": whole["rows"][:5]}))
    seen = []
    measured = formats._measured
    monkeypatch.setattr(formats, "_measured", lambda work: seen.append(work) or measured(work))
    again = formats.run_formats(None, tmp_path, seeds=2, resume=True)
    assert len(seen) == 11
    assert again == whole
    seen.clear()
    assert formats.run_formats(None, tmp_path, seeds=2, resume=True) == whole
    assert not seen


def test_processes_change_nothing(tmp_path, monkeypatch):
    """Of the whole table: another process has no small one."""
    weights = np.random.default_rng(3).normal(size=(4, 64)).astype("f4")
    save_file({"w": weights}, tmp_path / "in")
    used = {name: methods.METHODS[name] for name in ("groups of 32", "scale a row")}
    monkeypatch.setattr(formats, "METHODS", used)
    one, two = (formats.run_formats(tmp_path / "in", tmp_path, jobs=jobs) for jobs in (1, 2))
    assert one == two


def test_rows_of_the_report(tmp_path):
    for model in (None, small_lm.write(tmp_path / "model")):
        name = "random" if model is None else "model"
        formats.run_formats(model, tmp_path / f"formats-{name}", seeds=2, lines=1)
    rows = [json.loads(json.dumps(row.to_json())) for row in formats.rows(tmp_path)]
    assert len({row["config"] for row in rows}) == len(rows)
    compared, models, weights, judged, commands = sections(rows)
    assert [t.title for t in (compared, models, weights, judged, commands)] == [
        "Formats compared", "Formats in models", "Formats of weights", "Formats by text",
        "Commands",
    ]  # fmt: skip
    assert compared.header == [
        "method", "bits per weight, Gaussian", "error, Gaussian", "error, Laplace"
    ]  # fmt: skip
    assert [line[0] for line in compared.lines] == list(FEW)
    assert all(all(line) for line in compared.lines)
    assert [line[:2] for line in models.lines] == [["model", method] for method in FEW]
    found = {row["config"]: row["figures"] for row in rows}
    for line in models.lines:
        ways = ("", ", feedback", ", 0.1 % kept", ", feedback, 0.1 % kept")
        names = [f"model, {line[1]}{way}, a" for way in ways]
        assert line[3:] == ["divergence", *(f"{found[n]['divergence']:.3f}" for n in names)]
    assert weights.header == ["data", "method", "kept, %", "bits per weight", "relative error"]
    assert weights.lines[0][:4] == ["Gaussian", "groups of 32", "", "4.500"]
    assert judged.header[-3:] == ["relative error", "divergence, nats", "perplexity"]
    assert [line[0] for line in judged.lines] == ["model, a"] * len(judged.lines)
    assert {line[2] for line in judged.lines} == {"", "yes"}
    filled = docs.fill("<!-- generated: draws -->\n<!-- end -->\n", rows, "compress")
    assert filled.count("| Laplace | SeedLM |") == 2


@pytest.mark.parametrize("block", ["formats", "draws"])
def test_tables_of_the_page_are_those_of_the_published_rows(block):
    rows = load_rows([ROOT / "docs/figures/demo_formats.json"], saved_rows)
    plain = document(rows)["rows"]
    page = (ROOT / "docs/compress.md").read_text()
    (found,) = re.findall(rf"<!-- generated: {block} -->.*?<!-- end -->", page, re.DOTALL)
    assert docs.fill(found, plain, "compress") == found


def test_the_command(tmp_path, called):
    folder = tmp_path / "net"
    folder.mkdir()
    write_shards(folder)
    words = ["demo", "formats", "--model", "net", "--jobs", "1"]
    code, out, _ = called(words, tmp_path)
    assert code == 0
    assert "SeedLM" in out
    assert (tmp_path / "build/demo/formats-net/matrices.json").exists()
    code, out, err = called([*words, "--tensors", "none"], tmp_path)
    assert (code, out) == (2, "")
    assert "net has no matrix to compare" in err


def test_progress_and_table_of_a_language_model(tmp_path, capsys):
    folder = small_lm.write(tmp_path / "model")
    formats.run_formats(folder, tmp_path / "out", lines=1, console=Console())
    assert "In float32, the perplexity is " in capsys.readouterr().out
