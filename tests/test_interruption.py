"""Ctrl-C at any moment: one line on standard error, status 130, and nothing that runs on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from interrupting import heed

import seedbed

MODULE = [sys.executable, "-m", "seedbed"]
#: A job that is in the middle of a tool's work for as long as nobody ends it.
BUSY = """
import sys
from seedbed.flow.report import kinds
from seedbed.flow.cli import main
from seedbed.sim import tools

def work(job):
    tools.run("PERL", "-e", "open(F, '>begun'); sleep 600")

kinds.KINDS["simulation"] = kinds.Kind(work, ())
if __name__ == "__main__":
    main()
"""


def start(words, folder):
    return subprocess.Popen(
        words,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed,
    )


def maps(started):
    return Path(f"/proc/{started.pid}/maps").read_text()


def running(session):
    """Return the processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, its, *_ = path.read_text().rpartition(")")[2].split()
            if int(its) == session and state != "Z":
                found.append(path.parent.name)
    return found


@pytest.mark.parametrize("library", ["_json", "_multiarray_umath"])
def test_while_the_command_line_is_loaded(library, tmp_path):
    started = start([*MODULE, "list"], tmp_path)
    while library not in maps(started):
        assert started.poll() is None
        time.sleep(0.001)
    os.killpg(started.pid, signal.SIGINT)
    out, printed = started.communicate()
    assert (started.returncode, out) == (130, "")
    assert printed in {"interrupted\n", "interrupted: finished work is kept\n"}


@pytest.mark.parametrize("everybody", [True, False], ids=["terminal", "kill"])
def test_workers_and_their_tools_end_at_once(everybody, tmp_path):
    (tmp_path / "script.py").write_text(BUSY)
    words = ["measure", "--kind", "simulation", "--core", "skid_buffer"]
    started = start([sys.executable, "script.py", *words], tmp_path)
    while not (tmp_path / "begun").exists():
        assert started.poll() is None
        time.sleep(0.01)
    (os.killpg if everybody else os.kill)(started.pid, signal.SIGINT)
    printed = started.communicate()
    assert (started.returncode, *printed) == (130, "", "interrupted: finished work is kept\n")
    # A tool that ran on would sleep for minutes.
    until = time.monotonic() + 30
    while running(started.pid):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_an_exception_that_an_import_makes_of_it(tmp_path):
    """As compiled modules do, which know of no interruption."""
    code = """
import signal
from seedbed.flow import cli

def broken():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("a half of a module")

cli.app.command("break")(broken)
cli.main()
"""
    started = start([sys.executable, "-c", code, "break"], tmp_path)
    printed = started.communicate()
    assert (started.returncode, *printed) == (130, "", "interrupted: finished work is kept\n")


def test_the_package_knows_its_version():
    from importlib.metadata import version

    assert seedbed.__version__ == version("seedbed")
