import os
import re
from pathlib import Path
from random import Random

import pytest

from seedbed.flow.cores import networks
from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write, write_packed
from seedbed.sim import tools
from seedbed.sim.case import Case, Phase
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog import verilate
from seedbed.sim.verilog.checksum import intact, record
from seedbed.sim.verilog.verilate import run, run_tests

ROOT = Path(__file__).parents[2]
# Executables are kept from run to run: they are found by the text of the Verilog.
BUILD = ROOT / "build" / "cocotb"


#: Cores with many kinds of ports; `make cocotb`, also in CI, runs all cores.
NAMES = ("urng_array", "prng_pool", "seedlm_decompress", "mac_array", "softmax_loss")
RUN = [(CORES[name], CORES[name].small) for name in NAMES]
QUEUED = {**CORES["seedlm_decompress"].small, "additions": 1, "queue": True}
RUN += [(CORES["seedlm_decompress"], QUEUED)]


#: Overlapping windows, of which the last column is in no square; windows with gaps between them.
STRIDED = """
input = [1, 7, 9]

[[layer]]
name = "a"
kind = "conv"
outputs = 2
kernel = 3
padding = 1
stride = 2
pool = 2

[[layer]]
name = "b"
kind = "conv"
outputs = 4
kernel = 1
stride = 3

[[layer]]
name = "c"
kind = "dense"
outputs = 3
relu = false
"""


@pytest.mark.parametrize(("core", "params"), RUN, ids=lambda part: getattr(part, "name", None))
def test_emitted_verilog_matches_model(core, params, tmp_path, kept):
    matches(core, params, tmp_path, kept)


@pytest.mark.parametrize("name", ["conv_engine", "instantft", "zo_trainer"])
def test_a_network_with_strides_in_emitted_verilog(name, tmp_path, kept):
    (tmp_path / "strided.toml").write_text(STRIDED)
    params = {**CORES[name].small, "network": networks.read(tmp_path / "strided.toml")}
    matches(CORES[name], params, tmp_path, kept)


def matches(core, params, tmp_path, kept):
    verilog = write(core, params, tmp_path, kept=kept)
    config = core.configure(params)
    case = core.case(config, Random(11))
    inputs, outputs = core.streams(config)
    whole = write_packed(verilog, core, config)
    done = run(
        whole, whole.stem, case, inputs=inputs, outputs=outputs,
        stalls=True, seed=11, build=BUILD,
    )  # fmt: skip
    beats = max(len(p) for phase in case.phases for p in phase.outputs.values())
    assert done["cycles"] > done["tests"] * beats


#: A core whose outputs each break one rule.
FAULTY = Path(__file__).parents[1] / "faulty.v"


def expects(port, payloads=range(40), *, quiet=False, drain=False, **inputs):
    phase = Phase(inputs=inputs, outputs={port: [*payloads]}, drain=drain)
    return Case(phases=[phase], quiet=quiet)


FAULTS = [
    # stalls, case, message
    (True, expects("o_changes"), "o_changes: the payload changed before the transfer"),
    (True, expects("o_falls"), "o_falls: valid fell before the transfer"),
    (False, expects("o_keeps"), "runs_case_after_resets: o_keeps, phase 0, beat 0"),
    (True, expects("o_waits"), "o_waits, phase 0 timed out: . beats of 40"),
    (False, expects("o_counts", quiet=True), "o_counts: a beat after the last one"),
    (False, expects("o_counts", i=[1]), "timed out: not all inputs were accepted"),
    (False, expects("o_counts", i=[1], drain=True), "timed out: not all inputs were accepted"),
    (True, expects("o_counts", [0, 1, 7]), "o_counts, phase 0, beat 2"),
    (True, expects("o_counts", [7]), "expected 0x7\n  got      0x0\n.* seed=5"),
]


def test_bench_detects_errors():
    """All on one executable, because the build takes most of the time."""
    for stalls, case, message in FAULTS:
        [phase] = case.phases
        with pytest.raises(Mismatch, match=message):
            run(
                FAULTY, "faulty", case, inputs=list(phase.inputs), outputs=list(phase.outputs),
                stalls=stalls, seed=5, build=BUILD,
            )  # fmt: skip


def test_verilog_that_does_not_build(tmp_path):
    verilog = tmp_path / "broken.v"
    verilog.write_text("module broken(input clk, output o_valid;\n")
    with pytest.raises(RuntimeError, match="syntax error"):
        run(
            verilog, "broken", Case(phases=[]), inputs=[], outputs=["o"],
            stalls=False, seed=1, build=tmp_path,
        )  # fmt: skip


def test_example_of_the_docs(tmp_path, monkeypatch, kept):
    """Its test, on a cached executable; `make cocotb` runs the whole example."""
    example = ROOT / "docs" / "examples" / "cocotb_urng_array.py"
    assert f"```python\n{example.read_text()}```" in (ROOT / "docs" / "cocotb.md").read_text()
    verilog = write(CORES["urng_array"], {}, tmp_path, kept=kept)
    monkeypatch.syspath_prepend(example.parent)
    tests = ["words_follow_the_model"]
    done = run_tests(verilog, "urng_array", example.stem, tests, {}, seed=1, build=BUILD)
    assert done["cycles"] > 100


PLAIN = ["-CFLAGS", "-O0"]


@pytest.fixture
def build_wires(tmp_path):
    """Build a minimal module, in the folder of that name."""
    verilog, program = tmp_path / "wires.v", tmp_path / "main.cpp"
    verilog.write_text("module wires(input i, output o);\n  assign o = i;\nendmodule\n")
    program.write_text('#include "Vtop.h"\nint main() { return 0; }\n')

    def build(name):
        verilate.build(
            tmp_path / name, "--top-module", "wires", "-o", "wires", verilog, program, flags=PLAIN
        )

    return build


@pytest.mark.parametrize("name", [*" #$:()&;'*\\|"])
def test_a_path_that_make_does_not_accept_is_refused_with_a_sentence(name, build_wires, tmp_path):
    folder = tmp_path / f"a{name}b"
    with pytest.raises(RuntimeError) as refused:
        build_wires(f"{folder.name}/objects")
    assert str(refused.value) == (
        f"Verilator's makefiles do not work with {name!r} in a path: {folder}; use another folder"
    )
    assert not folder.exists()


@pytest.mark.parametrize(
    "words", ["cocotb lfsr", "mutate lfsr", "board sim icebreaker link", "demo elasticzo --rtl"]
)
def test_every_command_that_builds_refuses_a_folder_with_a_space(words, tmp_path, called):
    folder = tmp_path / "my folder"
    folder.mkdir()
    status, out, err = called(words.split(), folder)
    assert (status, out) == (2, "")
    assert err == (
        f"error: Verilator's makefiles do not work with ' ' in a path: {folder}; "
        "use another folder\n"
    )


def test_one_function_builds():
    """What it refuses holds for every command."""
    root = Path(__file__).parents[2]
    runs = [
        path.relative_to(root).as_posix()
        for folder in ("sim", "flow", "boards")
        for path in (root / folder).rglob("*.py")
        if re.search(r'(run|find)\(\s*"VERILATOR"', path.read_text())
    ]
    assert runs == ["sim/verilog/verilate.py"]


def test_the_runtime_compiled_before_is_used(tmp_path, build_wires, monkeypatch):
    """Also if the environment is newer: an invalid object file of 1970 fails the build."""
    monkeypatch.setattr(verilate, "user_cache_path", lambda *_, **__: tmp_path / "home")
    kept = verilate._runtime(PLAIN) / "verilated.o"
    kept.parent.mkdir(parents=True)
    kept.write_text("no object")
    record(kept)
    os.utime(kept, (0, 0))
    with pytest.raises(RuntimeError, match=r"verilated\.o: file format not recognized"):
        build_wires("objects")
    # A file of an interrupted build is not used, and the next build replaces it.
    kept.write_text("")
    objects = tmp_path / "again"

    def stand_in(name, *words, cwd=None):
        new = objects / ("headers.h.gch" if name == "MAKE" else "verilated.o")
        assert not new.exists()
        new.write_text("compiled")

    with monkeypatch.context() as patch:
        patch.setattr(tools, "run", stand_in)
        build_wires("again")
    assert intact(kept)
    assert kept.read_text() == "compiled"


def test_headers_are_compiled_as_a_core_is(tmp_path, build_wires):
    """The compiler silently ignores precompiled headers if a flag differs."""
    # The first build, on a new machine, compiles the headers; the last one has a used folder.
    for name in ("first", "second", "second"):
        build_wires(name)
    again = ["-f", "Vtop.mk", "--always-make", "main.o", "Vtop__ALL.o", "OPT_FAST="]
    strict = "CXX=g++ -Winvalid-pch -Werror"
    assert "-include headers.h" in tools.run("MAKE", *again, strict, cwd=tmp_path / "second")
    with pytest.raises(RuntimeError, match=r"headers\.h\.gch: created and used with different"):
        tools.run("MAKE", *again, f"{strict} -fPIC", cwd=tmp_path / "second")
