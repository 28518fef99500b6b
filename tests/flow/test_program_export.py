"""The export of an imported transformer: its files drive the emitted core, and are complete."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from small_transformers import write_bert, write_llama

from seedbed.flow.cores import registry, settings
from seedbed.flow.export import bundle
from seedbed.flow.importer import program_file, transformer_import
from seedbed.golden.stream_engine import StreamEngine
from seedbed.sim import tools
from seedbed.spec.engine_records import HEADER, RECORD_BITS, unpacked
from seedbed.studies import llm

BENCH = Path(__file__).parents[2] / "examples/stream_engine_tb.v"
EXPORT = ["--core", "stream_engine", "-o", "out"]
#: A core that Icarus simulates in seconds.
SMALL = ["--set", "lanes=2", "--set", "beat_bits=128"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory, succeeds):
    """Folders of a decoder in three formats, of one with the groups of its file, of an encoder."""
    folder = tmp_path_factory.mktemp("imported")
    for form, keep in (("plain", 0), ("trellis", 0.01), ("seedlm", 0)):
        plan = transformer_import.plan(llm.random_model(), form, keep=keep)
        transformer_import.write(plan, folder / form, transformer_import.CALIBRATION, None)
    write_bert(folder / "bert")
    succeeds(["import", "bert", "-o", "encoder"], folder)
    write_llama(folder / "llama", kind=GGMLQuantizationType.Q4_1)
    succeeds(["import", "llama", "-o", "file"], folder)
    return folder


@pytest.fixture
def exported(imported, tmp_path, called):
    def run(name, *words):
        status, _, err = called(["export", str(imported / name), *EXPORT, *words], tmp_path)
        assert status == 0, err
        out = tmp_path / "out"
        return out, json.loads((out / "stream_engine.json").read_text())["constants"]

    return run


@pytest.mark.long
@pytest.mark.skipif(not tools.there("IVERILOG"), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain", ["--prompt", "On"]),
        ("trellis", [*SMALL, "--prompt", "On", "--set", "external=true", "--set", "context=4"]),
        ("trellis", [*SMALL, "--count", "3", "--set", "block=2", "--set", "choose=true"]),
        ("seedlm", [*SMALL, "--count", "2", "--set", "vectors=2"]),
        ("file", ["--set", "lanes=2", "--count", "3", "--set", "vectors=2"]),
        ("encoder", [*SMALL, "--count", "5", "--set", "vectors=4"]),
    ],
)
def test_the_bench_runs_an_imported_transformer_and_can_fail(
    name, words, exported, tmp_path, called
):
    out, constants = exported(name, *words)
    given = ["verilog", "stream_engine", "--config", "out/stream_engine.toml", "-o", "out"]
    assert called(given, tmp_path)[0] == 0
    more = ["-DEXTERNAL"] * any("external" in word for word in words)
    tools.run("IVERILOG", "-g2005", "-Wall", *more, "-o", "tb", BENCH, "stream_engine.v", cwd=out)
    beats = constants["RESULTS"] * constants["RESULT_BEATS"]
    if name == "encoder":
        assert f"{beats} of {beats} beats, 0 errors, status 0" in tools.run("VVP", "tb", cwd=out)
    # All beats but the last one are the model's, and so is what is given in its place.
    path = out / "stream_engine_results.hex"
    lines = path.read_text().splitlines()
    right, wrong = lines[-1], f"{int(lines[-1], 16) ^ 1:0{len(lines[-1])}x}"
    path.write_text("\n".join([*lines[:-1], wrong]))
    printed = tools.run("VVP", "tb", cwd=out)
    assert f"beat {beats - 1} of the results: {right}, not {wrong}\n" in printed
    assert f"{beats} of {beats} beats, 1 errors, status 0" in printed


@pytest.mark.parametrize("name", ["plain", "trellis", "seedlm", "file", "encoder"])
def test_results_are_those_of_the_model(name, exported, imported):
    out, constants = exported(name, "--count", "6", "--seed", "5")
    loaded = program_file.read(imported / name)
    x, y = (np.load(out / f"stream_engine_{each}.npy") for each in "xy")
    assert len(x) == constants["TOKENS"] == 6
    assert (y == StreamEngine(loaded.program, loaded.parameters).run(x)).all()
    assert -constants["RESULT_SCALE"] == loaded.program.vectors[loaded.program.result].fraction


def test_the_most_probable_token_is_the_result(exported):
    out, _ = exported("plain", "--prompt", "Once upon")
    logits = np.load(out / "stream_engine_y.npy")
    out, constants = exported("plain", "--prompt", "Once upon", "--set", "choose=true")
    assert (np.load(out / "stream_engine_y.npy")[:, 0] == logits.argmax(axis=1)).all()
    assert constants["RESULT_ELEMENTS"] == 1


def test_kept_weights_that_can_be_tuned_are_the_first_that_are_written(exported, imported):
    out, constants = exported("trellis", "--set", "tune=5", "--count", "3")
    words = np.load(out / "stream_engine_memory.npy").view("<u4")
    kept = words[constants["FIRST"] : constants["FIRST"] + constants["KEPT_BEATS"]]
    assert constants["END"] == constants["FIRST"] + constants["KEPT_BEATS"] == len(words)
    found = program_file.read(imported / "trellis").parameters.values()
    matrices = [of for of in found if of.trellis]
    count = sum(np.count_nonzero(of.weights - of.trellis.weights()) for of in matrices)
    assert np.count_nonzero(kept >> 30) == count > 0
    y = np.load(out / "stream_engine_y.npy")
    exported("trellis", "--count", "3")
    assert (np.load(out / "stream_engine_y.npy") == y).all()


def test_the_core_is_as_small_as_the_program(exported):
    out, _ = exported("trellis", "--set", "context=9")
    core = registry.find("stream_engine")
    config = core.configure(settings.read(core, [], out / "stream_engine.toml"))
    first = int.from_bytes(
        (out / "stream_engine_memory.bin").read_bytes()[: RECORD_BITS // 8], "little"
    )
    header = unpacked(first, HEADER)
    for name in ("records", "store", "cache", "context", "block"):
        assert getattr(config, name) == header[name]
    assert (config.trellis, config.context, config.columns) == (4, 9, 128)


def test_a_large_memory_is_no_text(exported, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_TEXT", 1 << 16)
    out, _ = exported("plain")
    names = {path.name for path in out.iterdir()}
    assert "stream_engine_memory.bin" in names
    assert not {"stream_engine_memory.hex", "stream_engine_memory.coe"} & names
    assert "stream_engine_results.hex" in names
    header = (out / "stream_engine.h").read_text()
    assert "stream_engine_tokens[" in header
    assert "stream_engine_memory[" not in header
    listed = json.loads((out / "stream_engine.json").read_text())["files"]
    assert {*listed, "stream_engine.json"} == names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none", *EXPORT], r"none/program\.json is missing: 'seedbed import MODEL -o DIR' writes"),
        (EXPORT, "the export of stream_engine needs a folder that 'seedbed import' wrote"),
        (["plain", *EXPORT, "--prompt", ""], r"the prompt must have 1\.\.128 tokens, not 0"),
        (["plain", *EXPORT, "--prompt", "Once", "--set", "context=3"],
         r"the prompt must have 1\.\.3 tokens, not 4"),
        (["encoder", *EXPORT, "--set", "store=16"],
         r"\S*encoder: the program needs store = \d+ of the core, which has 16"),
        (["plain", *EXPORT, "--set", "trellis=3"], r"\S*plain: trellis must be 0, 2 or 4, not 3"),
        (["plain", *EXPORT, "--vector", "x.npy"], "the export of stream_engine takes no --vector"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_is_written(words, said, imported, tmp_path, called):
    words = [str(imported / word) if word in ("plain", "encoder") else word for word in words]
    status, out, err = called(["export", *words], tmp_path)
    assert (status, out) == (2, "")
    assert re.fullmatch(f"error: {said}.*\n", err), err
    assert not (tmp_path / "out").exists()
