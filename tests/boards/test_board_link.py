"""Words from the host to an application of the virtual board."""

import re
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from seedbed.boards import virtual
from seedbed.boards.apps import link
from seedbed.boards.device import Device, LinkFailure
from seedbed.boards.registers import addresses
from seedbed.boards.top import identifier

#: Seconds; the virtual board answers within milliseconds.
TIMEOUT = 0.04


@pytest.fixture(scope="module")
def program(kept):
    return virtual.executable(link, "link", build=Path(kept))


def connect(board, timeout=TIMEOUT):
    found = addresses(link.REGISTERS)
    return Device(board.port, found, identifier=identifier(link), timeout=timeout)


def some_words(count):
    return np.random.default_rng(4).integers(0, 2**32, count).tolist()


def test_the_line_is_used_to_95_percent(program):
    """In cycles of the board. A host that is slow for a moment is given another chance."""
    shares = []
    with virtual.start(program) as board, connect(board) as device:
        for seed in range(3):
            text = StringIO()
            link.run(device, Console(file=text, width=200), words=20_000, seed=seed)
            shares.append(float(re.search(r"([0-9.]+) % of the line", text.getvalue())[1]))
            assert "1024 words came back unchanged" in text.getvalue()
    assert max(shares) >= 95


@pytest.mark.parametrize(("errors", "timeout", "words"), [(1000, 0.04, 3000), (50, 0.02, 300)])
def test_a_bad_line_loses_no_word_and_doubles_none(program, errors, timeout, words):
    sent = some_words(words)
    with virtual.start(program, errors=errors, seed=3) as board, connect(board, timeout) as device:
        device.write("returns", 1)
        origin, back = device.position(), []

        def read():
            back.extend(device.words((origin + len(back)) % 2**32, 128))

        device.send(sent, meanwhile=read)
        for part in device.stream((origin + len(back)) % 2**32, words - len(back)):
            back += part
        assert device.repeated > 5
    assert back == sent


def test_what_is_sent_is_shown(program):
    shown = []
    with virtual.start(program) as board, connect(board) as device:
        device.shown = lambda count: nullcontext(lambda sent: shown.append((sent, count)))
        device.send(some_words(3000), meanwhile=lambda: device.words(device.position(), 128))
    assert len(shown) > 10
    assert shown == sorted(shown)
    assert shown[-1] == (3000, 3000)


def test_an_application_that_accepts_nothing_stops_the_host(program):
    """The buffers are full: those of both directions, and no word is lost."""
    sent = some_words(2000)
    with virtual.start(program) as board, connect(board) as device:
        device.write("returns", 1)
        with pytest.raises(LinkFailure, match="accepts no words: does the board run a job"):
            device.send(sent, patience=0.5)
        # Two words are in the skid buffer between the two, and one may be on its way.
        assert device.accepted() in range(1024 + 512 + 2, 1024 + 512 + 4)
        back = [word for part in device.stream(0, device.accepted()) for word in part]
        assert back == sent[: len(back)]
        rest = sent[len(back) :]
        device.send(rest)
        assert [word for part in device.stream(len(back), len(rest)) for word in part] == rest


def test_reset_is_pressed_while_words_are_sent(program):
    with virtual.start(program) as board, connect(board) as device:
        calls = iter(range(100_000))
        with pytest.raises(LinkFailure, match="was reset, or another program uses it"):
            device.send(some_words(60_000), meanwhile=lambda: next(calls) == 20 and board.reset())


@pytest.mark.parametrize("position", [99, 201], ids=["discarded", "not yet sent"])
def test_a_position_that_the_board_does_not_have(program, position):
    """A host whose board was reset asks for such words, or one beside another program."""
    with virtual.start(program) as board, connect(board) as device:
        device.write("returns", 1)
        device.send(some_words(200))
        for _ in device.stream(0, 100):
            pass
        with pytest.raises(LinkFailure, match="was reset, or another program uses it"):
            device.words(position, 1)


def test_a_new_host_continues_where_one_ended(program):
    sent = some_words(5000)
    with virtual.start(program) as board:

        def leave():
            raise KeyboardInterrupt

        with connect(board) as device:
            calls = iter(range(100_000))
            with pytest.raises(KeyboardInterrupt):
                device.send(sent, meanwhile=lambda: next(calls) == 9 and leave())
        with connect(board) as device:
            accepted = device.accepted()
            assert 0 < accepted < 5000
            device.send(sent[accepted:])
            assert device.read("words") == 5000
            assert device.read("total") == sum(sent) % 2**32


@pytest.mark.parametrize("words", [1, 10_000_001])
def test_a_number_of_words_out_of_range_is_refused(program, words):
    with (
        virtual.start(program) as board,
        connect(board) as device,
        pytest.raises(ValueError, match=rf"words must be in 2\.\.10000000, not {words}"),
    ):
        link.run(device, Console(file=StringIO()), words=words)


def test_at_the_command_line_a_refusal_is_one_sentence(program, called, tmp_path):
    with virtual.start(program) as board:

        def refused(app, *words):
            status, printed, problem = called(
                ["board", "run", app, "--port", board.port, *words], tmp_path
            )
            assert (status, printed) == (2, "")
            assert len(problem.splitlines()) == 1
            return problem

        with connect(board):
            assert f"error: {board.port} is in use by another program" in refused("link")
        assert "load the application's bitstream, built from the same" in refused("noise")
        assert "load the application's bitstream, built from the same" in refused("zo_trainer")
        assert "error: words must be in 2..10000000, not 1" in refused("link", "--words", "1")
        status, _, problem = called(["board", "run", "link", "--port", board.port], tmp_path)
        assert (status, problem) == (0, "")


def test_options_are_those_of_the_application(called, tmp_path):
    for app, option in {"link": "--words", "noise": "--window-beats", "gemv": "--vectors"}.items():
        status, printed, _ = called(["board", "run", app, "--help"], tmp_path)
        assert status == 0
        assert option in printed
        assert "--port" in printed
    status, _, problem = called(
        ["board", "run", "link", "--port", "x", "--magnitude", "3"], tmp_path
    )
    assert status == 2
    assert "--magnitude" in problem
