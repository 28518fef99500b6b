"""What tests that interrupt a process have in common, and a stress run of interruptions.

``python tests/interrupting.py [SECONDS] [SEED]`` starts commands, interrupts each at a random time
in a random way, and prints what is wrong afterwards.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["heed", "interrupt", "left", "running", "start"]

SEEDBED = [sys.executable, "-m", "seedbed"]
#: The first one while the command line is loaded.
MESSAGES = ("interrupted\n", "interrupted: finished work is kept\n")
#: The exit status after each signal.
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
#: An interrupted command that runs on for so many seconds hangs.
LIMIT = 30
#: Names of files that are removed in the end.
SCRATCH = ("**/*.part", "**/.*.part", "**/build-*", "**/run-*", "**/activity-*")


def heed() -> None:
    """Let a process be interrupted, even if the tests run in a shell's background or under nohup.

    Commands keep ignoring what their caller ignores.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(words, folder, **environment):
    """Start a command in a session, whose processes :func:`running` finds."""
    return subprocess.Popen(
        words,
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed,
    )


def running(session):
    """Return the processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, its, *_ = path.read_text().rpartition(")")[2].split()
            if int(its) == session and state != "Z":
                found.append(path.parent.name)
    return found


def interrupt(started, number, *, everybody, again=0.0):
    """Send a signal to a command, or to its process group as a terminal does, perhaps twice.

    Returns what is wrong with the command's end, as sentences.
    """
    send = os.killpg if everybody else os.kill
    with suppress(ProcessLookupError):
        send(started.pid, number)
        if again:
            time.sleep(again)
            send(started.pid, number)
    began = time.monotonic()
    wrong = []
    try:
        _, printed = started.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        wrong.append(f"it runs on after {LIMIT} s: {running(started.pid)}")
        for process in running(started.pid):
            os.kill(int(process), signal.SIGKILL)
        _, printed = started.communicate()
    seconds = time.monotonic() - began
    if started.returncode not in (0, STATUS[number]):
        wrong.append(f"its status is {started.returncode}")
    if (started.returncode and not printed.endswith(MESSAGES)) or "Traceback" in printed:
        wrong.append(f"it prints {printed[-2000:]!r}")
    until = time.monotonic() + 5
    while running(started.pid) and time.monotonic() < until:
        time.sleep(0.05)
    for process in running(started.pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            wrong.append(f"a process runs on: {command}")
            os.kill(int(process), signal.SIGKILL)
    return wrong, seconds


def left(folder):
    """Return the scratch files in a folder, and the files that are not complete, as sentences."""
    scratch = {path for name in SCRATCH for path in folder.glob(name)}
    # A demonstration's finished runs are kept.
    scratch -= {*folder.glob("**/run-*.json")}
    # 'compress' resumes from its part and its journal.
    found = [f"{path} is left" for path in scratch if not path.match("*.safetensors.part")]
    for path in folder.rglob("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            found.append(f"{path} is not complete")
    return found


def _checkpoint(folder):
    import numpy as np
    from safetensors.numpy import save_file

    weights = np.random.default_rng(1).normal(0, 0.02, (512, 1024)).astype(np.float32)
    save_file({"weight": weights, "other": weights[:256]}, folder / "model.safetensors")


def _board(folder):
    """Start a virtual board; return its process and its port."""
    board = start([*SEEDBED, "board", "sim", "ulx3s-85f", "noise"], folder)
    return board, board.stdout.readline().strip()


def stress(seconds, seed):
    """Interrupt commands for some time; return how many ended in a wrong way."""
    draw = random.Random(seed)
    until = time.monotonic() + seconds
    failures = count = 0
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="stress-") as name:
        folder = Path(name)
        _checkpoint(folder)
        board, port = _board(folder)
        commands = [
            (["report", "--quick", "--build", "{fresh}"], 60),
            (["report", "--quick", "--build", "{fresh}"], 8),
            (
                [
                    "compress",
                    "model.safetensors",
                    "{fresh}/a.safetensors",
                    "--bits",
                    "4",
                    "--jobs",
                    "2",
                ],
                12,
            ),
            (
                [
                    "compress",
                    "model.safetensors",
                    "{fresh}/a.safetensors",
                    "--bits",
                    "4",
                    "--jobs",
                    "1",
                ],
                12,
            ),
            (["demo", "zo", "--seeds", "2", "--build", "{fresh}"], 20),
            (["demo", "seedlm", "--build", "{fresh}"], 20),
            (["measure", "--kind", "proof", "--core", "lfsr", "--build", "{fresh}"], 20),
            (["mutate", "lfsr", "--build", "{fresh}"], 30),
            (["cocotb", "lfsr", "--build", "{fresh}"], 20),
            (["verilog", "gemv", "-o", "{fresh}"], 8),
            (["board", "sim", "ulx3s-85f", "link", "--build", "{fresh}"], 25),
            (["board", "run", "noise", "--port", port], 5),
        ]
        while time.monotonic() < until:
            count += 1
            words, longest = draw.choice(commands)
            fresh = folder / f"run{count}"
            fresh.mkdir()
            words = [word.format(fresh=fresh) for word in words]
            # Python itself ignores nothing while it starts.
            delay = draw.choice([draw.uniform(0.3, 5), draw.uniform(0.3, longest)])
            number = draw.choice([signal.SIGINT, signal.SIGINT, *STATUS])
            everybody = draw.random() < 0.6
            again = draw.choice([0, 0, draw.uniform(0.01, 1.5)])
            started = start([*SEEDBED, *words], folder)
            with suppress(subprocess.TimeoutExpired):
                started.wait(delay)
            ended = started.poll() is not None
            wrong, took = interrupt(started, number, everybody=everybody, again=again)
            if started.returncode == -number:
                # Python has given up its handlers: the command was at its end.
                wrong = [sentence for sentence in wrong if "runs on" in sentence]
            wrong += left(fresh)
            slowest = max(slowest, took)
            if wrong:
                failures += 1
                print(
                    f"{' '.join(words)}: {number.name} after {delay:.3f} s, "
                    f"{'group' if everybody else 'process'}, again {again:.3f}, ended {ended}, "
                    f"took {took:.1f} s: {'; '.join(wrong)}",
                    flush=True,
                )
        board.send_signal(signal.SIGINT)
        board.communicate()
    print(f"{count} interruptions, {failures} wrong ends, the slowest took {slowest:.1f} s")
    return failures


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(bool(stress(*given, *(60, 1)[len(given) :])))
