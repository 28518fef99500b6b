"""Every path of every command: files that are there stay, and what cannot be read is named."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import save_file
from typer.main import get_command

import seedbed.boards.cli.app  # noqa: F401 - adds the commands of boards
from seedbed.flow.cli.app import app
from seedbed.flow.compress import run
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.sensitive import sensitive
from seedbed.flow.compress.workers import processes
from seedbed.flow.fpga import placement_files
from seedbed.golden.training_log import TrainingLog
from seedbed.spec import SeedlmConfig, ZoTrainerConfig

SMALL = ["--block", "4", "--latent", "2", "--width", "5", "--jobs", "1"]
#: A command that reads a file by the name 'bad', by command and parameter.
READS = {
    ("compress", "source"): ["compress", "bad", "out", *SMALL],
    ("compress", "keep"): ["compress", "in", "out", *SMALL, "--keep", "bad"],
    ("compress", "importance"): ["compress", "in", "out", *SMALL, "--importance", "bad"],
    ("decompress", "source"): ["decompress", "bad", "out"],
    ("inspect", "file"): ["inspect", "bad"],
    ("sensitive", "checkpoint"): ["sensitive", "bad", "grad", "-o", "out"],
    ("sensitive", "gradients"): ["sensitive", "in", "bad", "-o", "out"],
    ("constrain", "netlist"): ["constrain", "bad", "--instance", "a.b", "-o", "out"],
    **{
        (name, "config_"): [name, "lfsr", "--config", "bad"]
        for name in (
            "verilog", "ports", "testbench", "sim", "cocotb", "statistics", "energy", "testu01",
            "mutate",
        )
    },
    ("synth", "config_"): ["synth", "lfsr", "--target", "xcup", "--config", "bad"],
    ("export", "config_"): ["export", "--core", "lfsr", "--config", "bad"],
    **{
        (f"board {name}", "config_"): ["board", name, "ulx3s-85f", "instantft", "--config", "bad"]
        for name in ("sim", "build")
    },
    ("project", "config_"): [
        "project", "lfsr", "--tool", "icestorm", "-o", "out", "--config", "bad",
    ],
    ("ipxact", "config_"): ["ipxact", "gemv_axi", "-o", "out", "--config", "bad"],
    ("registers", "config_"): ["registers", "gemv_axi", "--config", "bad"],
    ("export", "source"): ["export", "bad", "--core", "gemv", "-o", "out"],
    ("import", "model"): ["import", "bad", "-o", "out"],
    ("replay-log", "log"): ["replay-log", "bad", "in", "-o", "out"],
    ("replay-log", "first"): ["replay-log", "log", "bad", "-o", "out"],
    ("demo elasticzo", "start"): ["demo", "elasticzo", "--start", "bad", "--epochs", "1"],
    ("demo elasticzo-passes", "start"): ["demo", "elasticzo-passes", "--start", "bad"],
    ("demo lm", "model"): ["demo", "lm", "--model", "bad"],
    ("demo formats", "model"): ["demo", "formats", "--model", "bad", "--jobs", "1"],
    ("demo sentences", "model"): ["demo", "sentences", "--model", "bad"],
    ("demo sentiment", "model"): ["demo", "sentiment", "--model", "bad"],
    ("demo llm", "model"): ["demo", "llm", "--model", "bad"],
    ("demo personalise", "model"): ["demo", "personalise", "--model", "bad"],
    **{
        (f"demo {name}", "data"): ["demo", name, "--data", "bad"]
        for name in ("instantft", "personalise-mlp", "sparse", "elasticzo", "elasticzo-choices",
                     "elasticzo-passes", "zo", "seedlm", "sentiment")
    },
}  # fmt: skip


#: A command that writes files, by command and parameter; the last word is where to. Those of the
#: second table need tools or inputs that a test does not have, and are refused before they do.
WRITES = {
    ("verilog", "output"): ["verilog", "lfsr", "--fusesoc", "-o", "."],
    ("testbench", "output"): ["testbench", "scale_lut", "-o", "."],
    ("sim", "vcd"): ["sim", "lfsr", "--vcd", "out"],
    ("compress", "target"): ["compress", *SMALL, "in", "out"],
    ("decompress", "target"): ["decompress", "packed", "out"],
    ("sensitive", "mask"): ["sensitive", "in", "grad", "--plot", "plot", "-o", "out"],
    ("sensitive", "plot"): ["sensitive", "in", "grad", "-o", "out", "--plot", "plot"],
}
REFUSED = {
    ("constrain", "output"): (["constrain", "in", "--instance", "a.b", "-o", "out"], ["out"]),
    ("replay-log", "output"): (["replay-log", "log", "in", "-o", "out"], ["out"]),
    ("synth", "constraints"): (
        ["synth", "lfsr", "--target", "ecp5", "--constraints", "."], placement_files.NAMES,
    ),
}  # fmt: skip
#: Folders of intermediate files, which are the tool's; pages whose blocks are asked to be filled;
#: and what is opened when a board has answered, by functions that are tested here or on its own.
OTHERS = {
    *((name, "build") for name in (
        "cocotb", "synth", "formal", "mutate", "measure", "statistics", "report", "explore",
        "energy", "testu01",
        "board sim", "board build", "board report", "board load", "board memories", "tour", "tune",
        *(f"demo {demo}" for demo in ("instantft", "lm", "llm", "formats", "personalise",
                                      "personalise-mlp", "sparse", "elasticzo", "elasticzo-choices",
                                      "elasticzo-passes", "zo", "seedlm", "sentences",
                                      "sentiment")),
    )),
    ("report", "docs"), ("demo lm", "keep"), ("tour", "picture"), ("drivers", "output"),
    ("board report-run", "output"),
    *((name, "output") for name in ("registers", "fusesoc", "project", "ipxact", "paper-tables")),
    *(("export", name) for name in ("vector", "adapters", "output")),
    *(("import", name) for name in ("network", "data", "text", "output")),
    *(("tune", name) for name in ("network", "data", "output", "config_")),
    *((f"board run {app}", name) for app, names in {
        "noise": ["plot"], "gemv": ["matrix", "vector", "output"], "instantft": ["data", "folder"],
        "zo_trainer": ["data", "start", "output"], "lm": ["model", "keep", "folder"],
        "sentence": ["program", "output", "classes"],
    }.items() for name in names),
}  # fmt: skip


def parameters(command, path=()):
    """Yield every parameter of every command that is a path."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else ()
    for name in names:
        yield from parameters(command.get_command(None, name), (*path, name))
    for parameter in command.params:
        if getattr(getattr(parameter, "type_descriptor", None), "annotation", None) is Path:
            yield " ".join(path), parameter.name


def test_every_path_is_in_a_table():
    tables = [set(READS), set(WRITES), set(REFUSED), OTHERS]
    assert set(parameters(get_command(app))) == set.union(*tables)


def mine(path):
    path.write_text("mine\n")
    return path


@pytest.mark.parametrize("write", WRITES, ids=" ".join)
def test_a_file_that_is_there_is_overwritten_only_by_force(write, inputs, tmp_path, called):
    words = WRITES[write]

    def fresh(name):
        shutil.copytree(inputs, tmp_path / name)
        return tmp_path / name

    first = fresh("first")
    before = set(first.iterdir())
    assert called(words, first)[0] == 0
    names = [path.name for path in set(first.iterdir()) - before]
    assert names
    if write[0] == "compress":
        names += ["out.part", "out.journal"]
    for name in sorted(names):
        folder = fresh(f"with {name}")
        mine(folder / name)
        code, out, err = called(words, folder)
        assert (code, out) == (2, ""), name
        assert err == f"error: {name} exists already; --force overwrites it\n"
        assert (folder / name).read_text() == "mine\n"
        assert set(os.listdir(folder)) == {*os.listdir(inputs), name}
        assert called([*words, "--force"], folder)[0] == 0
        if name in ("out.part", "out.journal"):
            assert not (folder / name).exists()
        else:
            # The rest of a waveform is a date.
            assert (folder / name).read_bytes()[:9] == (first / name).read_bytes()[:9]
    # A user's file with the name of a temporary one stays, and is in nobody's way.
    folder = fresh("temporary")
    parts = [mine(folder / f".{name}.{os.getpid()}.part") for name in names]
    assert called(words, folder)[0] == 0
    assert all(path.read_text() == "mine\n" for path in parts)


@pytest.mark.parametrize("write", REFUSED, ids=" ".join)
def test_a_file_that_is_there_is_refused_before_the_work(write, inputs, tmp_path, called):
    words, names = REFUSED[write]
    for name in names:
        (tmp_path / name).mkdir()
        shutil.copytree(inputs, tmp_path / name, dirs_exist_ok=True)
        mine(tmp_path / name / name)
        code, _, err = called(words, tmp_path / name)
        assert (code, err) == (2, f"error: {name} exists already; --force overwrites it\n")
        assert (tmp_path / name / name).read_text() == "mine\n"


@pytest.mark.parametrize("words", [*WRITES.values(), *(words for words, _ in REFUSED.values())])
def test_only_one_command_writes_to_standard_output(words, inputs, tmp_path, called):
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    code, out, err = called([*words[:-1], "-"], tmp_path)
    assert (code, out) == (2, "")
    assert err == "error: this output cannot be -, standard output; give a name\n"
    assert sorted(os.listdir(tmp_path)) == sorted(os.listdir(inputs))


def test_verilog_is_printed(tmp_path, called):
    assert called(["verilog", "lfsr", "--name", "mine", "-o", "."], tmp_path)[0] == 0
    text = (tmp_path / "mine.v").read_text()
    assert called(["verilog", "lfsr", "--name", "mine", "-o", "-"], tmp_path) == (0, text, "")


def test_two_outputs_are_two_files(inputs, tmp_path, called):
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    words = ["sensitive", "in", "grad", "-o", "out", "--plot", "out"]
    sentence = "out is given for two outputs; each needs a file of its own"
    assert called(words, tmp_path) == (2, "", f"error: {sentence}\n")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(1)
    for name in ("in", "grad"):
        save_file({"w": rng.normal(size=(40, 30)).astype(np.float32)}, folder / name)
    save_file({"w": np.ones(30, np.float32)}, folder / "stats")
    log = TrainingLog(config=ZoTrainerConfig(), exponents={}, first="", entries=())
    (folder / "log").write_text(log.text())
    console = Console(quiet=True)
    with processes(1) as pool:
        sensitive(
            folder / "in", folder / "grad", folder / "mask", fraction=0.1, pool=pool,
            console=console,
        )  # fmt: skip
        options = Options(config=SeedlmConfig(block=4, latent=2, width=5))
        run.compress(folder / "in", folder / "packed", options, pool=pool, console=console)
    return folder


VALID = {"keep": "mask", "importance": "stats", "gradients": "grad"}


def spoil(kind, path, valid):
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "device":
        path.symlink_to("/dev/null")
    elif kind == "garbage":
        path.write_bytes(np.random.default_rng(3).bytes(1000))
    elif kind == "text":
        path.write_text('{"a": [1, null]}\n')
    elif kind == "truncated":
        path.write_bytes(valid.read_bytes()[:-1])


@pytest.mark.parametrize(
    "kind", ["missing", "folder", "empty", "device", "garbage", "text", "truncated"]
)
@pytest.mark.parametrize("read", READS, ids=" ".join)
def test_what_cannot_be_read_is_named(read, kind, inputs, tmp_path, called):
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    name = VALID.get(read[1], "packed" if read[0] in ("decompress", "inspect") else "in")
    spoil(kind, tmp_path / "bad", inputs / name)
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = called(READS[read], tmp_path)
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if "%" not in line]
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    assert "bad" in lines[0]
    assert "Errno" not in err
    assert "os error" not in err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "build") == before
