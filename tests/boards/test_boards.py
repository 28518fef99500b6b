"""The host link and the application on the virtual board, from end to end."""

import os
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from interrupting import heed
from rich.console import Console

from seedbed.boards import apps, virtual
from seedbed.boards.apps import APPS, noise
from seedbed.boards.device import Device, LinkFailure
from seedbed.boards.registers import COMMON, Register, addresses, table
from seedbed.boards.top import identifier

DESIGN = apps.find("noise")
ADDRESSES = addresses(noise.REGISTERS)
#: Seconds; the virtual board answers within milliseconds.
TIMEOUT = 0.04


@pytest.fixture(scope="module")
def program(kept):
    return virtual.executable(DESIGN, "noise", build=Path(kept))


@pytest.fixture
def port(program):
    with virtual.start(program) as board:
        yield board.port


def test_an_unchanged_board_is_not_elaborated_again(program, kept, monkeypatch):
    monkeypatch.setattr(virtual, "_verilog", None)
    assert virtual.executable(DESIGN, "noise", build=Path(kept)) == program


def connect(port, timeout=TIMEOUT):
    return Device(port, ADDRESSES, identifier=identifier(DESIGN), timeout=timeout)


def job(device, **parameters):
    """Run a job; return what is printed. A difference to the model raises."""
    text = StringIO()
    noise.run(device, Console(file=text, width=200), **parameters)
    return text.getvalue()


@pytest.mark.parametrize(
    "parameters",
    [
        {"seed": 5, "numbers": 1_000_000},
        {"seed": 255, "numbers": 1, "window_beats": 1},
        {"seed": 77, "numbers": 20_000, "window": 1000, "window_beats": 700},
    ],
)
def test_a_job_is_that_of_the_model(port, parameters):
    with connect(port) as device:
        printed = job(device, **parameters)
        beats = -(-parameters["numbers"] // 7)
        # A beat a cycle, but for those of the window.
        if parameters["numbers"] == 1_000_000:
            assert device.read("cycles") == beats + 100
    assert "1024 bins of the histogram are those of the model" in printed


def test_a_job_of_a_small_board_is_that_of_the_model(kept):
    """With three lanes, a beat of the window is one word."""
    design = apps.find("noise", board="icebreaker")
    small = virtual.executable(design, "noise-3", build=Path(kept))
    with (
        virtual.start(small) as board,
        Device(board.port, ADDRESSES, identifier=identifier(design), timeout=TIMEOUT) as device,
    ):
        text = StringIO()
        console = Console(file=text, width=200)
        noise.run(device, console, design.config, seed=9, numbers=20_000, window=300)
        # A beat a cycle, in the window too, until the buffer of the words is full.
        assert device.read("cycles") == -(-20_000 // 3)
    assert "100 beats of raw numbers are those of the model" in text.getvalue()
    assert "1024 bins of the histogram are those of the model" in text.getvalue()


def test_a_bad_line_loses_nothing_and_does_nothing_twice(program):
    """One byte of a thousand is lost, changed, doubled or late."""
    with virtual.start(program, errors=1000, seed=2) as board, connect(board.port) as device:
        for seed in (1, 2, 3):
            # It ends the job before, and waits for its words.
            noise._start(device, Console(file=StringIO()), seed, 700, 5, 20)
            assert device.read("jobs") == seed
            assert device.read("busy")
        printed = job(device, resume=True)
        assert device.read("jobs") == 3
        assert device.repeated
    assert "seed 3: 700 numbers" in printed
    assert "20 beats of raw numbers are those of the model" in printed
    assert "1024 bins of the histogram are those of the model" in printed


def test_a_line_on_which_half_of_the_frames_are_bad(program):
    """One byte of fifty is lost, changed, doubled or late."""
    expected, _, _ = noise._expected(7, 700, 5, 20)
    with virtual.start(program, errors=50, seed=2) as board, connect(board.port, 0.02) as device:
        for number in (1, 2):
            origin = noise._start(device, Console(file=StringIO()), 7, 700, 5, 20)
            received = [word for part in device.stream(origin, 40) for word in part]
            assert received == expected.tolist()
            assert device.read("jobs") == number
            # The rest of the histogram is discarded at once: the buffer is full of it.
            device.write("stop", 1)
            device.words(device.position() + 500, 1)
        assert device.repeated > 10


HOST = """
import sys
from seedbed.sim.tools import setup_environment
setup_environment()
from rich.console import Console
from seedbed.boards.apps import noise
from seedbed.boards.device import Device
from seedbed.boards.registers import addresses

with Device(sys.argv[1], addresses(noise.REGISTERS)) as device:
    origin = noise._start(device, Console(), 9, 50000, 10, 3000)
    for count, words in enumerate(device.stream(origin, 7000)):
        if count == 5:
            print("reads", flush=True)
"""


def test_a_new_host_continues_after_one_that_was_killed(port):
    host = subprocess.Popen([sys.executable, "-c", HOST, port], stdout=subprocess.PIPE)
    assert host.stdout.readline() == b"reads\n"
    host.kill()
    host.communicate()
    with connect(port) as device:
        assert device.read("busy")
        assert device.position() - device.read("origin") >= 3
        printed = job(device, resume=True)
        assert device.read("jobs") == 1
    assert "seed 9: 50,000 numbers" in printed
    beats = int(re.search(r"(\d+) beats of raw numbers", printed)[1])
    assert 0 < beats < 3000
    assert "1024 bins of the histogram are those of the model" in printed


def test_reset_is_pressed_during_a_job(program):
    with virtual.start(program) as board:
        with connect(board.port) as device:
            origin = noise._start(device, Console(file=StringIO()), 9, 50_000, 10, 3000)
            words = device.stream(origin, 7000)
            next(words)
            board.reset()
            with pytest.raises(LinkFailure, match="was reset, or another program uses it"):
                list(words)
        with connect(board.port) as device:
            assert not device.read("jobs")
            assert not device.read("busy")
            with pytest.raises(ValueError, match="no job to continue: the board was reset"):
                job(device, resume=True)
            job(device, seed=9, numbers=50_000, window=10, window_beats=3000)
            assert device.read("jobs") == 1


def test_a_new_job_ends_the_one_before(port):
    with connect(port) as device:
        noise._start(device, Console(file=StringIO()), 9, 50_000, 10, 3000)
        assert "an earlier job was ended" in job(device, seed=4, numbers=500, window_beats=9)
        assert device.read("jobs") == 2


def test_what_differs_from_the_model_is_found(port, monkeypatch):
    expected = noise._expected

    def wrong(*parameters):
        words, bins, squares = expected(*parameters)
        words[5] ^= 1
        return words, bins, squares

    monkeypatch.setattr(noise, "_expected", wrong)
    with (
        connect(port) as device,
        pytest.raises(AssertionError, match="word 5 of the job differs from the model"),
    ):
        job(device, numbers=700)


def test_the_command_line_from_end_to_end(port, called, tmp_path):
    plot = tmp_path / "plots" / "noise.png"
    words = ["board", "run", "noise", "--port", port, "--numbers", "7000", "--plot", str(plot)]
    status, printed, problem = called(words, tmp_path)
    assert (status, problem) == (0, "")
    assert "seed 1: 7,000 numbers" in printed
    assert plot.read_bytes().startswith(b"\x89PNG")
    status, _, problem = called(words, tmp_path)
    assert status == 2
    assert "exists" in problem


def test_a_simulation_prints_its_port_is_reset_and_ends_when_interrupted(tmp_path, program):
    command = [sys.executable, "-m", "seedbed", "board", "sim", "ulx3s-85f", "noise", "--build"]
    process = subprocess.Popen(
        [*command, program.parents[2]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=heed,
    )  # fmt: skip
    port = process.stdout.readline().strip()
    with connect(port, timeout=0.2) as device:
        assert device.read("jobs") == 0
        process.send_signal(signal.SIGUSR1)
        # The signal may arrive some requests later.
        with pytest.raises(LinkFailure, match="was reset, or another program uses it"):
            all(device.read("jobs") == 0 for _ in range(100))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120)[1].endswith("the virtual board is switched off\n")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "noise", "--port", "/dev/no-port"], "no port is called /dev/no-port"),
        (["run", "nose", "--port", "x"], "no application is called 'nose' (did you mean 'noise'?)"),
        (["sim", "ulx3s-99f", "noise"], "no board is called 'ulx3s-99f' (did you mean 'ulx3s-"),
        (["sim", "ulx3s-85f", "nois"], "no application is called 'nois'"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(words, sentence, called, tmp_path):
    status, printed, problem = called(["board", *words], tmp_path)
    assert (status, printed) == (2, "")
    assert f"error: {sentence}" in problem
    assert len(problem.splitlines()) == 1


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"seed": 0}, r"seed must be in 1\.\.255, not 0"),
        ({"numbers": 0}, r"numbers must be in 1\.\.16777215, not 0"),
        ({"numbers": 70, "window": 10}, r"window must be in 0\.\.9, not 10"),
        ({"numbers": 70, "window": 3}, r"window_beats must be in 0\.\.7, not 100"),
        ({"resume": True}, "there is no job to continue"),
    ],
)
def test_a_job_that_is_out_of_range_is_refused(parameters, sentence, port):
    with connect(port) as device:
        with pytest.raises(ValueError, match=sentence):
            job(device, **parameters)
        assert device.read("jobs") == 0


def test_a_port_is_used_by_one_program(port):
    with (
        connect(port) as device,
        pytest.raises(LinkFailure, match=f"{port} is in use by another program"),
    ):
        connect(port)
    assert device


def test_another_build_is_refused(port):
    with pytest.raises(LinkFailure, match=r"runs the build [0-9a-f]{8}, not 00003039: load the"):
        Device(port, ADDRESSES, identifier=12345, timeout=TIMEOUT)


def test_a_port_without_a_board(tmp_path):
    host, port = os.openpty()
    with pytest.raises(LinkFailure, match="does not answer: is the board on"):
        Device(os.ttyname(port), ADDRESSES, timeout=0.01)
    os.close(host)
    os.close(port)
    (tmp_path / "file").write_text("")
    with pytest.raises(LinkFailure, match="is no serial port"):
        Device(str(tmp_path / "file"), ADDRESSES)


def test_a_board_that_goes_away(program):
    with virtual.start(program) as board, connect(board.port) as device:
        board.process.kill()
        board.process.wait()
        with pytest.raises(LinkFailure, match="was disconnected"):
            device.read("jobs")


def test_addresses_and_page_are_of_one_table():
    registers = (Register("first", "read", "one"), Register("second", "strobe", "two"))
    found = addresses(registers)
    assert found == {"protocol": 0, "identifier": 1, "bit_cycles": 2, "first": 3, "second": 4}
    lines = table(registers).splitlines()
    assert len(lines) == 2 + len(COMMON) + 2
    assert lines[-1] == "| 4 | `second` | strobe | two |"


@pytest.mark.parametrize("app", APPS)
def test_the_page_has_the_registers(app):
    page = (Path(__file__).parents[2] / "docs" / "boards" / f"{app}.md").read_text()
    found = table(apps.find(app).REGISTERS)
    assert f"<!-- registers: {app} -->\n{found}<!-- end -->" in page


def test_a_fault_that_no_memory_has_is_refused(program):
    """The application has no memory."""
    refused = pytest.raises(ValueError, match=r"without a memory there is none, not 'a3=0'$")
    with refused, virtual.start(program, fault="a3=0"):
        pass


def test_the_options_of_an_application_are_its_own(tmp_path, called):
    status, printed, _ = called(["board", "run", "noise", "-h"], tmp_path)
    assert status == 0
    assert "--port" in printed
    assert "completion" not in printed
