# amaranth: UnusedElaboratable=no
"""Projects of edalize's: written for every tool, and run by the open ones."""

import os
import re
import shutil
import subprocess
import tkinter
from pathlib import Path

import pytest

from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.fpga.project import TOOLS, harness, texts
from seedbed.flow.report import vivado_tables
from seedbed.flow.report.paper import REFERENCES
from seedbed.sim import tools
from seedbed.sim.verilog.verilate import lint

#: The frequency of 80 MHz in the constraints or in the command of each tool.
CLOCKS = {
    "vivado": ("clock.xdc", "create_clock -name clk -period 12.500 [get_ports clk]"),
    "quartus": ("clock.sdc", "create_clock -name clk -period 12.500 [get_ports clk]"),
    "trellis": ("clock.lpf", 'FREQUENCY PORT "clk" 80 MHZ;'),
    "icestorm": ("clock.pcf", "set_frequency clk 80"),
    "apicula": ("clock.sdc", "create_clock -name clk -period 12.500 [get_ports clk]"),
}
#: Names by which edalize calls the open tools, and what they are called here.
OPEN = {
    "trellis": ({"nextpnr-ecp5": "NEXTPNR_ECP5", "ecppack": "ECPPACK"}, "scale_lut.bit"),
    "icestorm": ({"nextpnr-ice40": "NEXTPNR_ICE40", "icepack": "ICEPACK"}, "scale_lut.bin"),
    "apicula": (
        {"nextpnr-himbaechel": "NEXTPNR_GOWIN", "gowin_pack": "GOWIN_PACK"}, "scale_lut.fs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS)
def test_a_project_has_the_files_and_the_clock(tool, tmp_path, called):
    words = ["project", "scale_lut", "--tool", tool, "-o", "out", "--clock", "80"]
    status, printed, problem = called(words, tmp_path)
    assert (status, problem) == (0, "")
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")} - {"out"}
    assert {*printed.split()} - {"out/Makefile"} == files
    name, line = CLOCKS[tool]
    assert line in (tmp_path / "out" / name).read_text().splitlines()
    script = "\n".join(path.read_text() for path in (tmp_path / "out").glob("*[!v]"))
    for each in ("scale_lut.v", "project.v", name):
        assert each in script
    assert re.search(r"\bproject\b", script)
    status, _, problem = called(words, tmp_path)
    assert (status, problem) == (2, "error: out/Makefile exists already; --force overwrites it\n")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_project_has_no_options_of_the_one_before(tool):
    """edalize keeps options in the class of a flow."""
    first, other, again = (texts(CORES["lfsr"], {}, tool, mhz=mhz) for mhz in (20, 80, 20))
    assert first == again != other


@pytest.mark.parametrize("name", ["scale_lut", "gemv_axi"])
def test_the_harness_uses_every_port(name, tmp_path):
    core = (CORES | WRAPPERS)[name]
    from seedbed.flow.emit.verilog import emit

    both = tmp_path / "both.v"
    both.write_text(emit(core, core.small) + harness(core, core.small))
    warnings = [line for line in lint(both, "project") if "PIN" in line or "UNDRIVEN" in line]
    assert warnings == []


@pytest.mark.long
@pytest.mark.parametrize("tool", OPEN)
def test_the_open_tools_run_a_project(tool, tmp_path, called):
    native = shutil.which("yosys")
    tcl = native and subprocess.run([native, "-Q", "-p", "help tcl"], check=False).returncode == 0
    if not tcl:
        pytest.skip("no yosys with Tcl is installed")
    names, made = OPEN[tool]
    (tmp_path / "bin").mkdir()
    for name, own in names.items():
        (tmp_path / "bin" / name).symlink_to(tools.find(own))
    words = ["project", "scale_lut", "--tool", tool, "-o", "out", "--clock", "20"]
    assert called(words, tmp_path)[0] == 0
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    subprocess.run(["make"], cwd=tmp_path / "out", env=os.environ | {"PATH": path}, check=True)
    assert (tmp_path / "out" / made).stat().st_size
    log = (tmp_path / "out" / "next.log").read_text()
    assert re.search(r"Max frequency for clock .*\(PASS at 20.00 MHz\)", log)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--tool", "vivad"], "no tool is called 'vivad' (did you mean 'vivado'?); there are "),
        (["--tool", "vivado", "--clock", "0"], "the clock must be above 0 MHz, not 0"),
        (
            ["--tool", "trellis", "--device", "85k"],
            "a device of trellis is written as 85k-CABGA381-6, not 85k",
        ),
    ],
)
def test_a_wrong_project_is_refused(words, sentence, tmp_path, called):
    status, printed, problem = called(["project", "lfsr", *words, "-o", "out"], tmp_path)
    assert (status, printed) == (2, "")
    assert problem.startswith(f"error: {sentence}")
    assert not (tmp_path / "out").exists()


#: What Vivado answers to the script, of which each command is counted.
VIVADO = """
set calls {}
foreach name {create_project read_verilog synth_design create_clock opt_design place_design
              route_design report_timing_summary close_project get_ports get_timing_paths} {
    proc $name args "lappend ::calls \\[list $name {*}\\$args\\]; return it"
}
proc get_property args { return 0.5 }
proc report_utilization args {
    if {[lindex $args 0] ne "-return_string"} { return }
    return "| CLB LUTs*              |   36 |     0 |\\n| LUT as Logic | 30 |\\n\
| CLB Registers          |  251 |     0 |\\n| Block RAM Tile |  0.5 | 0 |\\n| DSPs | 12 | 0 |\\n"
}
proc report_power args { return "| Total On-Chip Power (W)  | 0.626        |" }
"""


def test_the_script_of_the_papers_tables_runs_in_tcl(tmp_path, monkeypatch):
    """With stand-ins for Vivado's commands: what it reads, and how it reads its reports."""
    monkeypatch.setattr(vivado_tables.verilog, "emit", lambda core, params, name: f"// {name}\n")
    for name, text in vivado_tables.texts().items():
        (tmp_path / name).write_text(text)
    tcl = tkinter.Tcl()
    tcl.eval(VIVADO)
    tcl.eval(f"source {{{tmp_path / vivado_tables.SCRIPT}}}")
    calls = [tcl.splitlist(call) for call in tcl.splitlist(tcl.eval("set calls"))]
    read = [Path(call[1]).name for call in calls if call[0] == "read_verilog"]
    assert read == [f"{entry.module}.v" for entry in vivado_tables.entries()]
    head, *lines = (tmp_path / "tables.csv").read_text().splitlines()
    assert len(lines) == len(read) == len({*read})
    first = dict(zip(head.split(";"), lines[0].split(";"), strict=True))
    assert first["table"] == "PeZO, Table 6"
    assert first["row"] == "Ours O-t-F (RoBERTa)"
    figures = {n: float(first[n]) for n in ("lut", "ff", "bram36", "dsp", "power_w", "clock_mhz")}
    assert figures == {
        "lut": 36, "ff": 251, "bram36": 0.5, "dsp": 12, "power_w": 0.626, "clock_mhz": 700,
    }  # fmt: skip
    assert float(first["fmax_mhz"]) == pytest.approx(1000 / (1000 / 700 - 0.5))


def test_every_row_of_both_tables_that_has_a_core_is_measured():
    found = {(entry.core, entry.table, entry.row) for entry in vivado_tables.entries()}
    assert found == {(c, t, r) for c, _, t, r in REFERENCES if t in ("Table 6", "SeedLM, Table 4")}
    for entry in vivado_tables.entries():
        CORES[entry.core].configure(entry.params)
    assert {entry.mhz for entry in vivado_tables.entries()} == {200, 500, 700}
