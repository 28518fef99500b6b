# amaranth: UnusedElaboratable=no
"""Handoff files: Verilog headers with port descriptions, testbenches, a FuseSoC core file."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from amaranth.hdl import signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In
from fusesoc.capi2.coreparser import Core2Parser
from fusesoc.core import Core

from seedbed.flow.cores import settings
from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.flow.emit import handoff, port_docs
from seedbed.flow.emit.verilog import write
from seedbed.sim import tools
from seedbed.sim.verilog import verilog_bench
from seedbed.sim.verilog.verilate import WAIVERS

ROOT = Path(__file__).parents[2]
HEAD = re.compile(r"^module \w+ \(\n(.*?)^\);", re.DOTALL | re.MULTILINE)


#: Ports and fields that no configuration of the reports has.
OPTIONAL = {
    "loss_sign": [{"levels": 4}],
    "mac_array": [{"products": True}],
    "gemv_axi": [{"decode": "trellis"}],
    "zo_trainer": [{"network": "tiny", "lanes": 8, "ways": 2, "batch": 8, "tail": 1}],
    "stream_engine": [{"trellis": 4, "kept": 200, "tune": 6}],
    "stream_engine_axi": [{"inputs": True}],
    "stream_trainer_axi": [{"inputs": True}],
}


@pytest.mark.parametrize("name", CORES | WRAPPERS)
def test_every_port_is_described_and_nothing_else_is(name):
    core = (CORES | WRAPPERS)[name]
    used = set()
    variants = [{}, core.small, *(v.params for v in core.variants.values())]
    for variant in [*variants, *OPTIONAL.get(name, [])]:
        signature = core.signature(core.configure(variant))
        found = port_docs.describe(core.component, signature)
        assert all(each.description and each.format for each in found)
        assert "`" not in "".join(each.description for each in found)
        data = [each for each in found if not each.port.name.endswith(("valid", "ready"))]
        assert len({each.description for each in data}) > 1 or len(data) == 1
        used |= {port_docs.locate(core.component, each.port) for each in found}
    used |= {(entry, "") for entry, _ in used}
    texts = port_docs.members(core.component)
    assert used == {(entry, field) for entry, fields in texts.items() for field in fields}


DESCRIBED = """Double.

Members
-------
i : In(stream of struct)
    numbers, in order. At most 1..9 of them.
    value (signed(4)) : next number, see spec.py
        and below
    last : last number. The end of
        a frame.
bus_* : In
    bus

Latency: ``latency`` cycles from a
number to its double. That is constant.
Throughput: 1 number per ``interval`` cycles.
"""


class Described(wiring.Component):
    """Replaced by DESCRIBED."""

    latency, interval = 1, 2

    def __init__(self):
        shape = data.StructLayout({"value": signed(4), "last": 1})
        super().__init__({"i": In(stream.Signature(shape)), "bus_a": In(1), "bus_b": In(1)})


def described(text):
    """Return a component with this docstring."""
    return type("Described", (Described,), {"__doc__": text})()


def test_the_first_sentence_of_an_entry_is_the_comment():
    component = described(DESCRIBED)
    assert port_docs.comments(type(component), component.signature) == port_docs.COMMON | {
        "i_value": "next number, see spec.py and below; signed(4)",
        "i_last": "last number",
        "i_valid": "numbers, in order: valid",
        "i_ready": "numbers, in order: ready",
        "bus_a": "bus",
        "bus_b": "bus",
    }
    assert port_docs.timing(component) == (
        "1 cycle from a number to its double", "1 number per 2 cycles",
    )  # fmt: skip


def test_a_component_without_members_has_no_descriptions():
    component = described("Double.")
    assert set(port_docs.comments(type(component), component.signature).values()) == {
        "", "signed(4)", *port_docs.COMMON.values(),
    }  # fmt: skip
    assert port_docs.timing(component) == ("not stated", "not stated")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bus_*", "buss_*", "Members does not describe bus_a"),
        ("    last :", "    end :", "Members does not describe i_last"),
        ("    last :", "    value :", "Members has a wrong line, 'value : last number"),
        ("bus_* : In", "i : In", "Members has a wrong line, 'i : In'"),
        ("i : In(", "i: In(", "Members has a wrong line, 'i: In"),
        ("        and below", "    and below", "Members has a wrong line, 'and below'"),
    ],
)
def test_a_port_without_an_entry_is_refused(old, new, message):
    component = described(DESCRIBED.replace(old, new))
    with pytest.raises(LookupError, match=f"Described: {re.escape(message)}"):
        port_docs.describe(type(component), component.signature)


def test_header_has_command_latency_and_throughput(tmp_path, kept):
    core = CORES["seedlm_decompress"]
    params = settings.read(core, ["blocks=1", "queue=true"])
    text = write(core, params, tmp_path, name="unpack", kept=kept).read_text()
    header, _, rest = text.partition("\nmodule unpack")
    # Every parameter that was set, and the name of the top module.
    assert "seedbed verilog seedlm_decompress --set blocks=1 --set queue=True --name unpack" in (
        header.replace("\n//  ", "")
    )
    for words in ("Parameters: ", "Latency: 20 cycles", "1 beat per cycle", "Apache-2.0"):
        assert words in header
    assert "signed(21), element 0 lowest" in rest
    assert "localparam O_WEIGHTS_WIDTH = 168;" in rest
    again = settings.read(core, ["blocks=1", "queue=True"])
    assert again == params


@pytest.mark.parametrize("name", CORES | WRAPPERS)
def test_latency_and_throughput_are_numbers(name):
    core = (CORES | WRAPPERS)[name]
    component = core.component(core.configure(core.small))
    assert not re.search("[{}]", "".join(port_docs.timing(component)))


def test_two_configurations_fit_in_one_design(tmp_path, kept):
    core = CORES["tree_grng"]
    first = write(core, {"tree": "compact"}, tmp_path, name="first", kept=kept)
    second = write(core, {}, tmp_path, name="second", kept=kept)
    (tmp_path / "top.v").write_text("module top; first a(); second b(); endmodule\n")
    files = ["-DTOP", first, second, tmp_path / "top.v"]
    tools.run("VERILATOR", "--lint-only", "-Wno-fatal", "--top-module", "top", *files)


@pytest.mark.parametrize("scale", ["", "`timescale 1ns / 1ps\n"])
def test_a_design_with_and_without_a_timescale_is_lint_clean(scale, tmp_path, kept):
    """Whichever file comes first: FuseSoC puts a core before what depends on it."""
    core = write(CORES["gemv"], CORES["gemv"].small, tmp_path, kept=kept)
    user = tmp_path / "user.v"
    user.write_text(f"{scale}module user;\n  gemv core();\nendmodule\n")
    options = ["--lint-only", "-Wno-fatal", "-Wno-PINMISSING", "--top-module", "user", WAIVERS]
    for files in ([core, user], [user, core]):
        assert "%Warning" not in tools.run("VERILATOR", *options, *files)
    # The warning is still on for files that come after.
    user.write_text(
        "`timescale 1ns / 1ps\nmodule user;\n  gemv core(); other other();\nendmodule\n"
    )
    (tmp_path / "other.v").write_text("module other;\nendmodule\n")
    said = tools.run("VERILATOR", *options, core, tmp_path / "other.v", user)
    assert re.findall(r"%Warning-(\w+): .*?(\w+)\.v", said) == [("TIMESCALEMOD", "other")]


def test_signals_name_their_source_lines(tmp_path, kept):
    core = CORES["skid_buffer"]
    bare = write(core, {}, tmp_path, kept=kept).read_text()
    text = write(core, {}, tmp_path, name="skid_buffer", sources=True).read_text()
    source = "hw/parts/skid_buffer.py"
    lines = (ROOT / source).read_text().splitlines()
    (number,) = (
        n for n, line in enumerate(lines, 1) if line.strip().startswith("push, pop = Signal")
    )
    assert f"  wire pop;  // seedbed/{source}:{number}\n" in text
    assert str(ROOT) not in text
    without = re.sub(r"  // seedbed/hw/[\w/]+\.py:\d+$", "", text, flags=re.MULTILINE)
    # Without comments, one line declares several signals.
    signals = r"^(?:  \(\*.*\*\)\n)?  (?:wire|reg) .*\n(?:    .*[,;]\n)*"
    declaration = re.compile(signals, re.MULTILINE)
    assert declaration.sub("", without) == declaration.sub("", bare)


def test_ports_are_listed(tmp_path, called):
    code, listed, _ = called(["ports", "prng_pool", "--set", "width=9"], tmp_path)
    assert not code
    lanes = next(line for line in listed.splitlines() if "o_lanes" in line)
    assert "out" in lanes
    assert re.search(r"72 +│ 8 x signed\(9\)", lanes)
    for name in ("clk", "rst"):
        assert re.search(rf"^│ {name} +│ +│ in +│ 1 ", listed, re.MULTILINE)
    assert not called(["ports", "instantft_axi"], tmp_path)[0]


@pytest.mark.parametrize("name", ["nf4", "perturbation"])
def test_a_testbench_is_complete(name, tmp_path, called):
    """The testbench runs with the files of its folder alone."""
    words = ["testbench", name, "--name", "mine", "-o", "bench"]
    code, printed, _ = called(words, tmp_path)
    assert not code
    paths = [tmp_path / line for line in printed.splitlines()]
    assert {path.name for path in paths} >= {"mine.v", "mine_tb.v"}
    assert all(path.is_file() for path in paths)
    command = verilog_bench.verilator(paths[1], [paths[0]])
    assert verilog_bench.run(command, tmp_path / "bench") > 100
    try:
        command = verilog_bench.icarus(paths[1], [paths[0]], generation="2005")
    except tools.ToolMissing as missing:
        pytest.skip(str(missing))
    assert verilog_bench.run(command, tmp_path / "bench") > 100


#: What a plain scalar of YAML would not be: text as it was given.
HOSTILE = [
    "a: b",
    "# a",
    "a #b",
    "- a",
    "{a",
    "'a",
    '"a" b',
    "a\\n",
    "a\nb",
    "on",
    "1.0",
    "",
    " a ",
    "~",
]


@pytest.mark.parametrize("title", [*(core.title for core in CORES.values()), *HOSTILE])
def test_fusesoc_reads_titles_and_names(title, tmp_path):
    path = tmp_path / "on.core"
    path.write_text(handoff.core_file("on", title, ["on_i_vectors.hex"]), encoding="utf-8")
    found = Core(Core2Parser(), str(path), str(tmp_path))
    assert found.get_description() == title
    assert (str(found.name), found.get_toplevel({"target": "default"})) == (
        f"seedbed::on:{version('seedbed')}",
        "on",
    )
    files = [file["name"] for file in found.get_files({"target": "sim", "is_toplevel": True})]
    assert files == ["on.v", "on_tb.v", "on_i_vectors.hex"]


def test_fusesoc_takes_a_core(tmp_path, kept):
    found = handoff.fusesoc(CORES["scale_lut"], {}, tmp_path, name="scale")
    assert [path.name for path in found] == ["scale.v", "scale.core"]
    folder = Path(sys.executable).parent
    path = os.pathsep.join([str(folder), os.environ["PATH"]])

    def run(target):
        return subprocess.run(
            [folder / "fusesoc", "--cores-root", ".", "run", "--target", target, "scale"],
            cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    done = run("lint")
    assert done.returncode == 0, done.stdout + done.stderr
    if not tools.there("IVERILOG"):
        pytest.skip("iverilog is not installed")
    done = run("sim")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS: scale" in done.stdout + done.stderr
