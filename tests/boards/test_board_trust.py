"""Jobs of the applications on a bad line, with a host that is killed, and with a reset."""

import subprocess
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
import small_lm
from rich.console import Console

from seedbed.boards import apps, virtual
from seedbed.boards.apps import link
from seedbed.boards.device import Device, LinkFailure
from seedbed.boards.registers import addresses
from seedbed.boards.top import identifier

#: Of each application a quick configuration, its options, the first line that a running job prints,
#: and what is printed of a job that is that of the model.
JOBS = {
    "zo_trainer": (
        # The words until then are more than those of one response, so that some were acknowledged.
        "tiny", {"images": 16, "batch": 8, "epochs": 8, "seed": 3},
        "epoch 6",
        "steps and all weights are those of the model, bit for bit",
    ),
    "instantft": (
        "tiny", {"images": 24, "held": 8, "epochs": 4},
        "epoch 1",
        "the adapters are those of the model, bit for bit",
    ),
    "lm": (
        "one", {"steps": 1, "batch": 1, "characters": 1, "fraction": 0.05},
        "perplexity on the board, before: ",
        "all sums and new values are those of the model, bit for bit",
    ),
}  # fmt: skip


class Application:
    """An application's virtual board, and its job."""

    def __init__(self, name, build):
        self.name = name
        variant, self.options, self.begun, self.same = JOBS[name]
        if name == "lm":
            made = small_lm.write(build / "small_lm")
            self.options = self.options | {"model": made, "folder": build / "lm"}
        self.design = apps.find(name, variant)
        file = apps.file_name(name, self.design)
        self.program = virtual.executable(self.design, file, build=build)

    def connect(self, port, timeout=0.2):
        found = addresses(self.design.REGISTERS)
        return Device(port, found, identifier=identifier(self.design), timeout=timeout)

    def run(self, device, **options):
        """Run the job; return what is printed. A difference to the model raises."""
        text = StringIO()
        console = Console(file=text, width=200)
        self.design.run(device, console, self.design.config, **self.options | options)
        return text.getvalue()

    def host(self, port):
        """Run the job in a process of its own."""
        words = [sys.executable, "-u", "-m", "seedbed", "board", "run", self.name, "--port", port]
        # Other tests compile meanwhile: the board may be slow to answer.
        words += ["--timeout", "2"]
        words += [
            part for name, value in self.options.items() for part in (f"--{name}", f"{value}")
        ]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module", params=JOBS)
def app(request, kept):
    return Application(request.param, Path(kept))


def test_a_bad_line_loses_nothing_and_does_nothing_twice(app):
    """One byte of a thousand is lost, changed, doubled or late."""
    with (
        virtual.start(app.program, errors=1000, seed=2) as board,
        app.connect(board.port, 0.05) as device,
    ):
        assert app.same in app.run(device)
        assert device.read("jobs") == 1
        assert device.repeated > 5


def test_a_line_on_which_half_of_the_frames_are_bad(app):
    """One byte of fifty is lost, changed, doubled or late."""
    if app.name == "lm":
        pytest.skip("a line of text has too many words: test_board_lm.py has some products")
    with (
        virtual.start(app.program, errors=50, seed=2) as board,
        app.connect(board.port, 0.1) as device,
    ):
        assert app.same in app.run(device, images=8, held=1, epochs=1)
        assert device.read("jobs") == 1
        assert device.repeated > 50


def test_a_new_host_goes_on_after_one_that_was_killed(app):
    with virtual.start(app.program) as board:
        host = app.host(board.port)
        for line in host.stdout:
            if line.startswith(app.begun):
                break
        host.kill()
        host.communicate()
        with app.connect(board.port) as device:
            position = device.position()
            assert (position - device.read("origin_out")) % 2**32 > 0
            printed = app.run(device, resume=True)
            assert device.read("jobs") == 1
    assert "an earlier host has read the first" in printed
    assert app.same in printed


def test_reset_is_pressed_during_a_job(app):
    with virtual.start(app.program) as board:
        with app.connect(board.port) as device:
            send, calls = device.send, iter(range(1_000_000))

            def sent(words, *, meanwhile, patience):
                def press():
                    meanwhile()
                    if next(calls) == 5:
                        board.reset()

                send(words, meanwhile=press, patience=patience)

            device.send = sent
            with pytest.raises(LinkFailure, match="was reset, or another program uses it"):
                app.run(device)
        with app.connect(board.port) as device:
            assert not device.read("jobs")
            with pytest.raises(ValueError, match="no job to continue: the board was reset"):
                app.run(device, resume=True)
            assert app.same in app.run(device)
            assert device.read("jobs") == 1


def test_a_new_job_ends_the_one_before(app):
    with virtual.start(app.program) as board:
        host = app.host(board.port)
        for line in host.stdout:
            if line.startswith(app.begun):
                break
        host.kill()
        host.communicate()
        with app.connect(board.port) as device:
            assert app.same in app.run(device, seed=5)
            assert device.read("jobs") == 2


def test_another_application_is_refused(app):
    other = next(name for name in JOBS if name != app.name)
    found = addresses(apps.find(other).REGISTERS)
    builds = [identifier(design) for design in apps.designs(other)]
    with (
        virtual.start(app.program) as board,
        pytest.raises(LinkFailure, match="load the application's bitstream"),
    ):
        Device(board.port, found, identifier=builds)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("Returns or counts the words", "Counts or returns the words", True),
        ("words[10:18]", "words[11:19]", False),
        ("modulo 2^32", "modulo 4294967296", False),
        ("PART = 256", "PART = 128", True),
        ("Send random words", "Send words", True),
        ("        return m\n", "        # All of it.\n        return m\n", True),
    ],
)
def test_the_identifier_is_of_the_design_and_its_registers(
    before, after, same, tmp_path, monkeypatch
):
    """A host's program that is mended needs no other bitstream."""
    monkeypatch.syspath_prepend(tmp_path)
    text = Path(link.__file__).read_text()
    assert before in text
    found = []
    for number, changed in enumerate((text, text.replace(before, after))):
        name = f"{tmp_path.name}_{number}"
        (tmp_path / f"{name}.py").write_text(changed)
        found.append(identifier(import_module(name)))
    assert (found[0] == found[1]) == same
