"""The language-model demonstration on a small model and on a folder, with few rows."""

import json

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.jobs import lm_text
from seedbed.golden import language_model
from seedbed.spec import SeedlmConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config
from seedbed.studies import lm

SMALL = {
    "seedlm": (SeedlmConfig(block=4, latent=2, width=5), (lm.NONE, lm.COLUMNS, lm.FEEDBACK)),
    "lut4": (Lut4Config(), (lm.NONE,)),
    "groups": (GroupsConfig(), (lm.NONE,)),
}


@pytest.fixture
def few(monkeypatch):
    """Small formats, and few kept fractions."""
    monkeypatch.setattr(lm, "FORMATS", SMALL)
    monkeypatch.setattr(lm, "KEPT", (0.0, 0.05))
    monkeypatch.setattr(lm, "PARTS", 2)
    monkeypatch.setattr(lm, "DAMPINGS", (0.01, 0.1))


def lines_of(texts):
    characters = sorted({c for text in texts for c in text})
    return {"<s>": 1} | {c: k for k, c in enumerate(characters, start=2)}


@pytest.fixture
def folder(tmp_path):
    """A folder with an untrained model, and two texts, of which the first gives statistics."""
    texts = {
        "b": ["Abba", "cab", "", "never judged"],
        "a": ["cc", "aAb", "bread", "decree", "near dec", "Arc a", "never read"],
    }
    numbers = lines_of(["Abcner dv"])
    for name, lines in texts.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "vocab.json").write_text(json.dumps(numbers))
    contexts = np.zeros((1, language_model.CONTEXT), np.int64), np.zeros(1, np.int64)
    model = lm_text.train(12, *contexts, steps=1, console=Console(quiet=True))
    save_file(
        {n: np.ascontiguousarray(v) for n, v in model.items()}, tmp_path / "model.safetensors"
    )
    return tmp_path


def test_training_lowers_the_loss():
    texts = lm_text.LINES[:1]
    numbers = lines_of(texts)
    windows = language_model.windows([[numbers[c] for c in texts[0]]], 1)
    found = [
        language_model.perplexity(
            lm_text.train(len(numbers) + 1, *windows, steps=steps, console=Console(quiet=True)),
            *windows,
        )
        for steps in (1, 12)
    ]
    assert found[1] < 0.8 * found[0]


def test_rows_of_the_table(few, folder, tmp_path):
    result = lm.run_lm(folder, tmp_path / "out", lines=2)
    assert result["characters"] == {"a": 5, "b": 7}
    every = lm.cases(2, (0.01, 0.1))
    assert [row["case"] for row in result["rows"]] == [vars(case) for case in every]
    # Formats alone, by two parts, feedback by two parts and dampings, and with kept weights by one.
    assert len(every) == 3 * (1 + 2) + 2 * 2 + 2 * 2 + 2
    assert {case.damping for case in every if case.kept} == {None, 0.1}
    parameters = load_file(folder / "model.safetensors")
    count = sum(v.size for v in parameters.values())
    weights = sum(v.size for n, v in parameters.items() if n.endswith("t") and n[0] != "a")
    assert result["parameters"] == count
    for row in result["rows"]:
        # The whole model has the matrices, and the others in 32 bits.
        others = 32 * (count - weights)
        whole = (row["bits_per_weight"] * weights + others) / count
        assert row["bits_per_parameter"] == pytest.approx(whole)
        assert all(value > 1 for value in row["perplexity"].values())
        assert all(value > 0 for value in row["divergence"].values())
    by_kept = {(r["case"]["form"], r["case"]["kept"], r["case"]["importance"]): r
               for r in result["rows"]}  # fmt: skip
    for form, importance in (("seedlm", lm.NONE), ("seedlm", lm.COLUMNS), ("lut4", lm.NONE)):
        none, some = (by_kept[form, kept, importance] for kept in lm.KEPT)
        assert some["bits_per_weight"] > none["bits_per_weight"] + 0.05 * 48 - 0.1
        assert some["relative_error"] < none["relative_error"]
    assert json.loads((tmp_path / "out" / "lm.json").read_text()) == result
    assert (tmp_path / "out" / "lm.png").read_bytes().startswith(b"\x89PNG")


def test_rows_have_mean_and_range_of_their_draws(few, folder, tmp_path):
    result = lm.run_lm(folder, tmp_path / "out", lines=2)
    assert len(result["summary"]) == 10
    for summary in result["summary"]:
        keys = "form", "kept", "importance"
        rows = [r for r in result["rows"] if all(r["case"][k] == summary[k] for k in keys)]
        assert len(rows) == summary["draws"]
        for name in "ab":
            for what in ("divergence", "perplexity"):
                values = sorted(row[what][name] for row in rows)
                found = summary[what][name]
                assert (found["least"], found["most"]) == (values[0], values[-1])
                assert found["mean"] == pytest.approx(sum(values) / len(values))
            (alone,) = (
                r["divergence"][name] for r in result["rows"]
                if r["case"]["form"] == summary["form"] and r["case"]["part"] is None
            )  # fmt: skip
            assert summary["left"][name]["least"] == summary["divergence"][name]["least"] / alone
    feedback = [s for s in result["summary"] if s["importance"] == lm.FEEDBACK]
    assert [s["draws"] for s in feedback] == [4, 2]
    # Statistics and dampings are draws that differ.
    assert all(s["divergence"]["b"]["least"] < s["divergence"]["b"]["most"] for s in feedback)


def test_statistics_are_of_lines_that_are_not_judged(few, folder, tmp_path, monkeypatch):
    read = []
    whole = lm.squared_gradients
    monkeypatch.setattr(
        lm, "squared_gradients", lambda p, lines, a: read.append(lines) or whole(p, lines, a)
    )
    result = lm.run_lm(folder, tmp_path / "out", lines=2)
    assert result["characters"] == {"a": len("ccaAb"), "b": len("Abbacab")}
    assert [[len(targets) for _, targets in lines] for lines in read] == [[5, 6], [8, 5]]
    # A text of judged lines only gives those.
    read.clear()
    (folder / "a.txt").write_text("cc\naAb\n")
    lm.run_lm(folder, tmp_path / "out", lines=2)
    assert [[len(targets) for _, targets in lines] for lines in read] == [[2], [3]]


def test_an_interrupted_run_is_resumed(few, folder, tmp_path, monkeypatch):
    whole = lm._compressed
    done = []

    def stopped(task, judged, case, *paths):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(case)
        return whole(task, judged, case, *paths)

    monkeypatch.setattr(lm, "_compressed", stopped)
    with pytest.raises(KeyboardInterrupt):
        lm.run_lm(folder, tmp_path / "out", lines=2)
    monkeypatch.setattr(
        lm, "_compressed", lambda t, j, case, *p: done.append(case) or whole(t, j, case, *p)
    )
    # A search that was killed leaves these.
    for left in ("journal", "part"):
        (tmp_path / "out" / f"packed.safetensors.{left}").write_text("of another row\n")
    first = lm.run_lm(folder, tmp_path / "out", lines=2, resume=True)
    assert done == lm.cases(2, (0.01, 0.1))
    # Another text is another run.
    lm.run_lm(folder, tmp_path / "out", lines=1, resume=True)
    assert len(done) == 2 * len(lm.cases(2, (0.01, 0.1)))
    again = lm.run_lm(folder, tmp_path / "out", lines=2)
    assert [r["perplexity"] for r in again["rows"]] == [r["perplexity"] for r in first["rows"]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: (f / "vocab.json").write_text("{"), "vocab.json is not JSON: "),
        (lambda f: (f / "vocab.json").write_text('{"a": 1}'), "vocab.json must map characters"),
        (lambda f: (f / "vocab.json").write_text('{"<s>": 12}'), "among them, to numbers in 0..11"),
        (lambda f: [p.unlink() for p in f.glob("*.txt")], "has no text: a file *.txt with lines"),
        (lambda f: save_file({"a": np.ones(2)}, f / "model.safetensors"),
         "the model has no matrix 'embedding.weight'"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "is not a complete safetensors"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors: No such file"),
    ],
)  # fmt: skip
def test_folders_without_a_model_are_refused(change, sentence, folder, called, tmp_path):
    change(folder)
    words = ["demo", "lm", "--model", str(folder), "--build", str(tmp_path / "build")]
    code, out, err = called(words, tmp_path)
    assert (code, out) == (2, "")
    assert sentence in err


def test_the_command(few, folder, called, tmp_path, monkeypatch):
    code, out, err = called(["demo", "lm", "--lines", "3"], tmp_path)
    assert (code, err) == (2, "error: --lines goes with --model\n")
    words = ["demo", "lm", "--model", str(folder), "--lines", "1", "--build", str(tmp_path)]
    code, out, _ = called(words, tmp_path)
    assert code == 0
    assert "perplexity, a" in out
    assert "divergence, b" in out
    assert "Of the squared gradient, the top 0.1 % have " in out
    monkeypatch.setattr(lm_text, "STEPS", 1)
    monkeypatch.setattr(lm_text.train, "__kwdefaults__", {"steps": 1})
    monkeypatch.setattr(lm, "KEPT", (0.05,))
    monkeypatch.setattr(lm, "FORMATS", {"groups": (GroupsConfig(), (lm.NONE,))})
    code, out, _ = called(["demo", "lm", "--build", str(tmp_path)], tmp_path)
    assert code == 0
    assert "perplexity, unseen" in out
