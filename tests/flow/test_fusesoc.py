"""The library for FuseSoC: its generator and its core files, used as another project uses them."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from fusesoc.capi2.coreparser import Core2Parser
from fusesoc.core import Core

from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.emit.fusesoc import OWN, generate, library
from seedbed.flow.emit.verilog import emit
from seedbed.sim import tools

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "fusesoc"
TOOLS = Path(sys.executable).parent
#: A design with two generators, one of which has a name of its own.
DESIGN = """\
CAPI=2:
name: "::noise:1.0"
filesets:
  rtl:
    files: [noise.v]
    file_type: verilogSource
    depend: ["seedbed:cores:generator"]
generate:
  numbers:
    generator: seedbed
    parameters: {core: urng_array, name: numbers, lanes: 3, width: 5}
  codes:
    generator: seedbed
    parameters: {core: lfsr, width: 9, leap: 2}
targets:
  default: &default
    filesets: [rtl]
    generate: [numbers, codes]
    toplevel: noise
  lint:
    <<: *default
    default_tool: verilator
    tools: {verilator: {mode: lint-only, verilator_options: [-Wno-style]}}
"""
NOISE = """\
module noise(input clk, input rst, output [14:0] a, output [1:0] valid, output [17:0] b);
  numbers first(.clk(clk), .rst(rst), .i_seeds_bits(3'd0), .i_seeds_last(1'd0),
    .i_seeds_valid(1'b0), .i_seeds_ready(), .o_payload(a), .o_valid(valid[0]), .o_ready(1'b1));
endmodule
"""


def fusesoc(folder, *words):
    path = os.pathsep.join([str(TOOLS), os.environ["PATH"]])
    return subprocess.run(
        [TOOLS / "fusesoc", *words], cwd=folder, env=os.environ | {"PATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_library_of_the_project_is_what_the_command_writes(tmp_path, called):
    status, printed, _ = called(["fusesoc", "-o", "library"], tmp_path)
    assert (status, printed.split()) == (0, [f"library/{name}" for name in library()])
    found = {path.name: path.read_text() for path in LIBRARY.iterdir() if path.is_file()}
    assert found == library()
    # Its files are known as generated ones.
    assert called(["fusesoc", "-o", "library"], tmp_path)[0] == 0


@pytest.mark.parametrize("name", CORES | WRAPPERS)
def test_fusesoc_reads_the_file_of_a_default(name):
    core = Core(Core2Parser(), str(LIBRARY / f"{name}.core"), str(LIBRARY))
    assert str(core.name) == f"seedbed:cores:{name}:{version('seedbed')}"
    assert core.get_description() == (CORES | WRAPPERS)[name].title
    for target in ("default", "lint", "synth", *(["sim"] if name in CORES else [])):
        flags = {"target": target, "is_toplevel": True}
        top = f"{name}_tb" if target == "sim" else name
        assert core.get_toplevel(flags) == top
        [asked] = core.get_ttptttg(flags)
        testbench = {"testbench": True} if target == "sim" else {}
        assert asked["config"] == {"core": name, **testbench}


@pytest.mark.parametrize("name", CORES | WRAPPERS)
def test_no_parameter_has_a_name_of_the_generator(name):
    core = (CORES | WRAPPERS)[name]
    for own in OWN:
        with pytest.raises(ValueError, match=f"{name} has no parameter '{own}'"):
            core.require([own])


def test_a_design_uses_generated_cores(tmp_path):
    (tmp_path / "noise.core").write_text(DESIGN)
    (tmp_path / "noise.v").write_text(NOISE)
    added = fusesoc(tmp_path, "library", "add", "seedbed", LIBRARY, "--sync-type", "local")
    assert added.returncode == 0, added.stderr
    done = fusesoc(tmp_path, "--cores-root", ".", "run", "--target", "lint", "noise")
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = CORES["urng_array"]
    found = {path.name: path for path in (tmp_path / "build").rglob("*.v")}
    assert {*found} == {"noise.v", "numbers.v", "lfsr.v"}
    params = {"lanes": 3, "width": 5}
    assert found["numbers.v"].read_text() == emit(numbers, params, name="numbers")
    wrong = DESIGN.replace("lanes: 3", "lanes: 0")
    (tmp_path / "noise.core").write_text(wrong)
    done = fusesoc(tmp_path, "--cores-root", ".", "run", "--target", "lint", "noise")
    assert done.returncode != 0
    assert "error: lanes must be " in done.stdout + done.stderr


def yosys():
    """Whether there is a yosys that reads Tcl, as edalize's scripts are; that of PyPI does not."""
    path = shutil.which("yosys")
    return path and subprocess.run([path, "-Q", "-p", "help tcl"], check=False).returncode == 0


@pytest.mark.parametrize("target", ["lint", "sim", "synth"])
def test_the_targets_of_a_default_are_run(target, tmp_path):
    if target == "sim" and not tools.there("IVERILOG"):
        pytest.skip("iverilog is not installed")
    if target == "synth" and not yosys():
        pytest.skip("no yosys with Tcl is installed")
    words = ["--cores-root", LIBRARY, "run", "--target", target, "seedbed:cores:scale_lut"]
    done = fusesoc(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    if target == "sim":
        assert "PASS: scale_lut" in done.stdout + done.stderr
    if target == "synth":
        assert [*tmp_path.rglob("*scale_lut*.json")]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "the generator needs the parameter core: a name that 'seedbed list' shows"),
        ({"core": "lfs"}, "no core is called 'lfs' (did you mean 'lfsr'?)"),
        ({"core": "lfsr", "testbench": 1}, "testbench must be true or false, not 1"),
        ({"core": "gemv_axi", "testbench": True}, "gemv_axi is an AXI wrapper"),
        ({"core": "lfsr", "widht": 4}, "lfsr has no parameter 'widht' (did you mean 'width'?)"),
        ({"core": "lfsr", "width": [1, 2]}, "width must be an integer in "),
        ({"core": "lfsr", "name": "reg"}, "'reg'"),
    ],
)
def test_wrong_parameters_are_refused(parameters, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError)) as refused:
        generate({"vlnv": "::a:0", "parameters": parameters})
    assert sentence in str(refused.value)
    assert not [*tmp_path.iterdir()]


def test_a_network_is_in_the_folder_of_the_core_file(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text(
        'input = [1, 4, 4]\n[[layer]]\nname = "a"\nkind = "dense"\noutputs = 4\nrelu = false\n'
    )
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    parameters = {"core": "conv_engine", "network": "mine.toml", "lanes": 8}
    request = {"vlnv": "::a:0", "files_root": str(tmp_path), "parameters": parameters}
    generate(request)
    assert {path.name for path in Path().iterdir()} == {"conv_engine.v", "conv_engine.core"}
