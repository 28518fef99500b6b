"""Drivers in C for tests: compiled as for a device without an operating system."""

import subprocess
from hashlib import sha256
from pathlib import Path

from seedbed.boards.drivers import FOLDER

HERE = Path(__file__).parent / "drivers"
#: As a user's project may ask for.
FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
FREESTANDING = [*FLAGS, "-ffreestanding"]


def gcc(*words):
    done = subprocess.run(["gcc", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def library(folder):
    """Return an archive of all drivers; its name is of its contents."""
    sources = sorted(FOLDER.glob("*.c"))
    texts = [path.read_text() for path in sorted(FOLDER.glob("*.[ch]"))]
    made = folder / f"libseedbed-{sha256(''.join([*texts, *FREESTANDING]).encode()).hexdigest()[:16]}.a"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        objects = [folder / f"{path.stem}.o" for path in sources]
        for source, compiled in zip(sources, objects, strict=True):
            gcc(*FREESTANDING, "-c", source, "-o", compiled)
        subprocess.run(["ar", "rcs", made, *objects], check=True)
    return made


def host(folder):
    """Return a program for a host with POSIX, see host.c."""
    made = folder / "host"
    gcc(*FLAGS, f"-I{FOLDER}", HERE / "host.c", library(folder), "-o", made)
    return made
