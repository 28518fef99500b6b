"""Ctrl-C, SIGTERM, SIGHUP at any moment: one line, the signal's status, nothing that runs on."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from interrupting import LIMIT, MESSAGES, SEEDBED, STATUS, interrupt, start

import seedbed

#: A job that is in the middle of a tool's work for as long as nobody ends it.
BUSY = """
import sys
from seedbed.flow.report import kinds
from seedbed.flow.cli.app import main
from seedbed.sim import tools

def work(job):
    open(f"begun-{job.core}-{job.config}", "w").close()
    tools.run("PERL", "-e", "sleep 600")

kinds.KINDS["simulation"] = kinds.Kind(work, ())
if __name__ == "__main__":
    main()
"""


def maps(started):
    return Path(f"/proc/{started.pid}/maps").read_text()


@pytest.mark.parametrize("library", ["_json", "_multiarray_umath"])
def test_while_the_command_line_is_loaded(library, tmp_path):
    started = start([*SEEDBED, "list"], tmp_path)
    while library not in maps(started):
        assert started.poll() is None
        time.sleep(0.001)
    os.killpg(started.pid, signal.SIGINT)
    out, printed = started.communicate()
    assert (started.returncode, out) == (130, "")
    assert printed in {"interrupted\n", "interrupted: finished work is kept\n"}


def busy(folder, *words, code=BUSY):
    """Start a script of jobs, and wait until two of them run their tools."""
    (folder / "script.py").write_text(code)
    started = start([sys.executable, "script.py", *words], folder)
    while len(list(folder.glob("begun-*"))) < 2:
        assert started.poll() is None, started.communicate()
        time.sleep(0.01)
    return started


@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
@pytest.mark.parametrize("everybody", [True, False], ids=["terminal", "kill"])
def test_workers_and_their_tools_end_at_once(number, everybody, tmp_path):
    """Of all jobs, two are begun: the executor has others in the queue of its workers."""
    started = busy(tmp_path, "measure", "--kind", "simulation")
    wrong, _ = interrupt(started, number, everybody=everybody, again=0.1)
    assert wrong == []
    assert len(list(tmp_path.glob("begun-*"))) == 2


def test_workers_that_finish_after_an_error_can_be_interrupted(tmp_path):
    code = BUSY.replace('tools.run("PERL"', 'assert job.core != "zo_trainer"; tools.run("PERL"')
    started = busy(tmp_path, "measure", "--kind", "simulation", code=code)
    assert interrupt(started, signal.SIGINT, everybody=True)[0] == []


#: An interruption that is caught, and a command that does not end.
STUBBORN = """
import os, signal, time
from seedbed.flow.cli import app as cli
from seedbed.flow.run import interruption
from seedbed.sim import tools

interruption.GRACE = 0.5

def stubborn():
    while True:
        try:
            open("begun-1", "w"), open("begun-2", "w")
            tools.run("PERL", "-e", "sleep 600")
        except KeyboardInterrupt:
            pass

cli.app.command("stubborn")(stubborn)
cli.main()
"""


def test_a_command_that_does_not_end_is_ended(tmp_path):
    started = busy(tmp_path, "stubborn", code=STUBBORN)
    assert interrupt(started, signal.SIGINT, everybody=True)[0] == []


def test_a_tool_ends_with_the_processes_that_it_started(tmp_path):
    """As Verilator, which runs make, which runs a compiler."""
    code = STUBBORN.replace("sleep 600", "system 'sleep 600; true'").replace("pass", "raise")
    started = busy(tmp_path, "stubborn", code=code)
    assert interrupt(started, signal.SIGINT, everybody=False)[0] == []


def test_the_tests_of_dieharder_end_at_once(tmp_path):
    """They run in threads, which the executor waits for."""
    code = """
from pathlib import Path
from seedbed.flow.cli import app as cli
from seedbed.flow.report import dieharder
from seedbed.sim import tools
run = tools.run

def slow(name, *words, **options):
    Path(f"begun-{words[-1]}").touch()
    return run("PERL", "-e", "sleep 600")

tools.run, tools.version = slow, lambda name: "1"

def words():
    Path("words").write_bytes(b"1234")
    dieharder.lines(Path("words"), Path("."))

cli.app.command("words")(words)
cli.main()
"""
    started = busy(tmp_path, "words", code=code)
    assert interrupt(started, signal.SIGINT, everybody=False)[0] == []


def test_a_signal_that_another_thread_receives_is_handled(tmp_path):
    """The system may choose the thread, and a call in which the main thread waits goes on."""
    code = """
import signal, threading, time
from seedbed.flow.cli import app as cli

def receive():
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

def waits():
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=receive).start()
    lock.acquire()

cli.app.command("waits")(waits)
cli.main()
"""
    (tmp_path / "script.py").write_text(code)
    started = start([sys.executable, "script.py", "waits"], tmp_path)
    _, printed = started.communicate(timeout=LIMIT)
    assert (started.returncode, printed) == (130, MESSAGES[1])


@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
def test_the_end_of_a_virtual_board_is_a_normal_one(number, tmp_path, pytestconfig):
    build = pytestconfig.cache.mkdir("seedbed")
    words = ["board", "sim", "icebreaker", "link", "--build", str(build)]
    started = start([*SEEDBED, *words], tmp_path)
    assert started.stdout.readline().startswith("/dev/")
    os.killpg(started.pid, number)
    out, printed = started.communicate()
    assert (started.returncode, out) == (0, "")
    assert printed == "the virtual board is switched off\n"


@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
@pytest.mark.parametrize("which", ["resource_tracker", "spawn_main"])
def test_processes_that_start_outlive_a_signal_to_the_group(which, number, tmp_path):
    """A dead worker would not read its task, which is longer than a pipe's buffer."""
    code = f"""
import os
from multiprocessing import get_context, util
from seedbed.flow.cli import app as cli
from seedbed.flow.run.processes import workers

spawn = util.spawnv_passfds

def interrupted(*words):
    started = spawn(*words)
    if "{which}" in str(words):
        os.killpg(0, {int(number)})
    return started

def work():
    util.spawnv_passfds = interrupted
    with workers(2, get_context("spawn"), len, bytes(1 << 20)):
        pass

cli.app.command("work")(work)
if __name__ == "__main__":
    cli.main()
"""
    (tmp_path / "script.py").write_text(code)
    started = start([sys.executable, "script.py", "work"], tmp_path)
    _, printed = started.communicate(timeout=LIMIT)
    assert (started.returncode, printed) == (STATUS[number], MESSAGES[1])


def test_an_exception_that_an_import_makes_of_it(tmp_path):
    """As compiled modules do, which know of no interruption."""
    code = """
import signal
from seedbed.flow.cli import app as cli

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


def test_an_interruption_within_exec(tmp_path):
    """Python remembers it, and kills itself in the end."""
    code = """
import sys
from seedbed.flow.run.interruption import handled

with handled() as interruption:
    try:
        exec("import signal; signal.raise_signal(signal.SIGINT)")
    except KeyboardInterrupt:
        pass
sys.exit(interruption.status)
"""
    (tmp_path / "inner.py").write_text(code)
    started = start([sys.executable, "-m", "inner"], tmp_path)
    printed = started.communicate()
    assert (started.returncode, *printed) == (130, "", "")


def test_the_package_knows_its_version():
    from importlib.metadata import version

    assert seedbed.__version__ == version("seedbed")
