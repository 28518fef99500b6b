"""The examples run as their page says; the cocotb one has its test in test_cocotb.py."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.sim import tools

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Verilog that somebody who runs them there gets.
MADE = ("lfsr.v", "noise.v", "gemv_axi.v", "gemv.v", "zo_trainer.v")


def test_every_example_is_on_the_page():
    text = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        made = path.suffix not in (".py", ".v") or path.name in MADE
        assert made or path.name in text


@pytest.mark.skipif(not tools.there("IVERILOG"), reason="Icarus Verilog is not installed")
def test_the_plain_verilog_bench_passes_and_can_fail(tmp_path, monkeypatch, kept):
    monkeypatch.chdir(tmp_path)
    write(CORES["lfsr"], {}, tmp_path, kept=kept)
    runpy.run_path(str(EXAMPLES / "lfsr_words.py"))
    tools.run("IVERILOG", "-o", "lfsr_tb", EXAMPLES / "lfsr_tb.v", "lfsr.v", cwd=tmp_path)
    assert "1000 words, 0 errors" in tools.run("VVP", "lfsr_tb", cwd=tmp_path)
    words = (tmp_path / "lfsr_words.hex").read_text().splitlines()
    (tmp_path / "lfsr_words.hex").write_text("\n".join([*words[:-1], "00"]))
    said = tools.run("VVP", "lfsr_tb", cwd=tmp_path)
    assert re.search(r"word 999: \w\w, not 00", said)
    assert "1000 words, 1 errors" in said


def test_the_amaranth_design_matches_the_model_and_is_emitted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "noise.py"), run_name="__main__")
    assert "100 beats are equal to the model's" in capsys.readouterr().out
    text = (tmp_path / "noise.v").read_text()
    assert re.search(r"^module noise\(", text, re.MULTILINE)


@pytest.mark.skipif(not tools.there("IVERILOG"), reason="Icarus Verilog is not installed")
def test_the_axi_system_computes_a_product_and_can_fail(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "axi_system.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "8 x 64 weights with 4 bits each; relative error of the product: 0.1" in printed
    files = [EXAMPLES / "axi_system_tb.v", EXAMPLES / "axi_system.v", "gemv_axi.v"]
    tools.run("IVERILOG", "-g2005", "-o", "system", *files, cwd=tmp_path)
    assert "8 rows, 0 errors, 99 cycles" in tools.run("VVP", "system", cwd=tmp_path)
    sums = (tmp_path / "sums.hex").read_text().splitlines()
    (tmp_path / "sums.hex").write_text("\n".join([*sums[:-1], "0" * 16]))
    assert "8 rows, 1 errors" in tools.run("VVP", "system", cwd=tmp_path)
    # A packet of the vector that is too short ends the job with a status of its own.
    short = (EXAMPLES / "axi_system.v").read_text().replace("== VECTOR_BEATS - 1", "== 3")
    (tmp_path / "short.v").write_text(short)
    tools.run("IVERILOG", "-o", "system", files[0], "short.v", files[2], cwd=tmp_path)
    assert re.search("status 000000[1-7]2, not 00000002", tools.run("VVP", "system", cwd=tmp_path))


@pytest.mark.skipif(not tools.there("IVERILOG"), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize(
    "words",
    [
        ["packed.safetensors", "--set", "beat_bits=128"],
        ["packed.safetensors", "--tensor", "fc2.weight"],
        ["checkpoint.safetensors", "--set", "decode=seedlm", "--set", "plain_width=12"],
    ],
)
def test_the_bench_multiplies_exported_weights_and_can_fail(words, tmp_path, monkeypatch, called):
    """Packed ones and plain ones, with beats of several sizes."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "checkpoint.py"))
    blocks = ["--block", "8", "--latent", "3", "--width", "9"]
    files = ["checkpoint.safetensors", "packed.safetensors"]
    assert called(["compress", *files, *blocks], tmp_path)[0] == 0
    export = ["export", *words, "--core", "gemv", "--set", "columns=256", "-o", "."]
    export += ["--set", "beat_bits=64"] if "beat_bits=128" not in words else []
    assert called(export, tmp_path)[0] == 0
    assert called(["verilog", "gemv", "--config", "gemv.toml", "-o", "."], tmp_path)[0] == 0
    rows = 10 if "fc2.weight" in words else 24
    files = [EXAMPLES / "gemv_tb.v", "gemv.v"]
    tools.run("IVERILOG", "-g2005", "-o", "gemv_tb", *files, cwd=tmp_path)
    printed = tools.run("VVP", "gemv_tb", cwd=tmp_path)
    assert f"{rows} of {rows} rows, 0 errors" in printed
    # The other files of the same memories.
    text = (EXAMPLES / "gemv_tb.v").read_text().replace(".hex", ".mem")
    (tmp_path / "mem_tb.v").write_text(text)
    tools.run("IVERILOG", "-g2005", "-o", "mem_tb", "mem_tb.v", "gemv.v", cwd=tmp_path)
    assert f"{rows} of {rows} rows, 0 errors" in tools.run("VVP", "mem_tb", cwd=tmp_path)
    sums = (tmp_path / "gemv_sums.hex").read_text().splitlines()
    (tmp_path / "gemv_sums.hex").write_text("\n".join([*sums[:-1], "0"]))
    printed = tools.run("VVP", "gemv_tb", cwd=tmp_path)
    assert f"{rows} of {rows} rows, 1 errors" in printed


@pytest.mark.skipif(not tools.there("IVERILOG"), reason="Icarus Verilog is not installed")
def test_the_bench_classifies_by_an_imported_network_and_can_fail(tmp_path, monkeypatch, called):
    monkeypatch.chdir(tmp_path)
    assert called(["import", str(EXAMPLES / "import/strided.onnx"), "-o", "mine"], tmp_path)[0] == 0
    np.save("images.npy", np.load(EXAMPLES / "import/digits.npz")["images"][:3])
    export = ["export", "mine/weights.safetensors", "--config", "mine/zo_trainer.toml"]
    export += ["--core", "zo_trainer", "--set", "lanes=8", "--vector", "images.npy", "-o", "."]
    export += ["--set", "ways=2"]
    assert called(export, tmp_path)[0] == 0
    words = ["verilog", "zo_trainer", "--config", "zo_trainer.toml", "-o", "."]
    assert called(words, tmp_path)[0] == 0
    bench = EXAMPLES / "zo_trainer_tb.v"
    tools.run("IVERILOG", "-g2005", "-Wall", "-o", "tb", bench, "zo_trainer.v", cwd=tmp_path)
    assert "3 of 3 classes, 0 errors, status 0" in tools.run("VVP", "tb", cwd=tmp_path)
    lines = (tmp_path / "zo_trainer_classes.hex").read_text().splitlines()
    assert len({*lines[-3:]}) > 1
    wrong = "1" if lines[-1] == "0" else "0"
    (tmp_path / "zo_trainer_classes.hex").write_text("\n".join([*lines[:-1], wrong]))
    assert "3 of 3 classes, 1 errors, status 0" in tools.run("VVP", "tb", cwd=tmp_path)


def test_the_application_runs_on_the_virtual_board(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(EXAMPLES / "board_words.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed == "1000 words are equal to the model's\n100 words are equal to the model's\n"
    # The other device sends what the model does not.
    monkeypatch.setattr(names["golden"].Lfsr, "load", lambda self, seed: None)
    with pytest.raises(AssertionError, match="the words are not the model's"):
        runpy.run_path(str(EXAMPLES / "board_words.py"), run_name="__main__")
