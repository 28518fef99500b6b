"""The files of the drivers in C: made of the register maps, freestanding, and as on their page."""

import re
import shutil
import subprocess
from pathlib import Path

import c_drivers
import pytest
from c_drivers import FOLDER, FREESTANDING, gcc

from seedbed.boards import drivers, virtual
from seedbed.boards.apps import link
from seedbed.boards.drivers import GENERATED, board_registers, files
from seedbed.boards.registers import Register

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "drivers.md").read_text()
SOURCES = sorted(FOLDER.glob("*.c"))
HEADERS = sorted(FOLDER.glob("*.h"))
#: What GCC may call of a freestanding program.
ENVIRONMENT = {"memcpy", "memmove", "memset", "memcmp"}


@pytest.mark.parametrize("name", GENERATED)
def test_the_file_is_what_the_command_writes(name):
    assert (drivers.FOLDER / name).read_text() == files()[name]


def test_the_command_writes_all_files(called, tmp_path):
    code, printed, _ = called(["drivers", "-o", "mine"], tmp_path)
    parts = [path for part in ("c", "pynq") for path in sorted((drivers.FOLDER / part).iterdir())]
    names = [str(path.relative_to(drivers.FOLDER)) for path in parts if path.is_file()]
    assert (code, printed.splitlines()) == (0, [f"mine/{name}" for name in names])
    for name in names:
        assert (tmp_path / "mine" / name).read_text() == (drivers.FOLDER / name).read_text()
    changed = tmp_path / "mine" / "c" / "seedbed_link.c"
    changed.write_text("// changed\n")
    code, _, problem = called(["drivers", "-o", "mine"], tmp_path)
    assert code == 2
    assert problem == "error: mine/c/seedbed_axi.c exists already; --force overwrites it\n"
    assert called(["drivers", "-o", "mine", "--force"], tmp_path)[0] == 0
    assert "changed" not in changed.read_text()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_source_is_freestanding(source, tmp_path):
    """Without a warning, with standard headers that need no library, and calls to its own only."""
    compiled = tmp_path / "one.o"
    gcc(*FREESTANDING, "-Wconversion", "-c", source, "-o", compiled)
    listed = subprocess.run(["nm", "-u", compiled], capture_output=True, text=True, check=True)
    called = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert {name for name in called if not name.startswith("seedbed_")} <= ENVIRONMENT


@pytest.mark.parametrize("path", [*SOURCES, *HEADERS], ids=lambda path: path.name)
def test_a_file_includes_what_it_needs(path, tmp_path):
    text = path.read_text()
    assert text.startswith("// SPDX-License-Identifier: Apache-2.0\n")
    included = set(re.findall(r"#include <(.*)>", text))
    assert included <= {"stdbool.h", "stddef.h", "stdint.h"}
    assert max(map(len, text.splitlines())) <= 100
    gcc(*FREESTANDING, "-fsyntax-only", path)


def test_headers_are_for_c_plus_plus_too(tmp_path):
    main = tmp_path / "main.cpp"
    main.write_text("".join(f'#include "{path.name}"\n' for path in HEADERS))
    words = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    subprocess.run([*words, f"-I{FOLDER}", main], check=True)


def test_clang_tidy_finds_nothing():
    tool = shutil.which("clang-tidy")
    if not tool:
        pytest.skip("there is no clang-tidy")
    # An error is returned by "if ((error = ...)) return error". Small numbers are integers of C.
    other = ("easily-swappable-parameters", "assignment-in-if-condition", "signed-bitwise")
    other += ("assignment-in-selection-statement", "narrowing-conversions")
    excluded = "".join(f",-bugprone-{name}" for name in other)
    checks = f"--checks=-*,bugprone-*,clang-analyzer-*{excluded}"
    words = [tool, checks, "--warnings-as-errors=*", *SOURCES, "--", "-std=c99", "-ffreestanding"]
    subprocess.run(words, check=True)


def test_a_link_takes_the_memory_that_the_page_says(tmp_path):
    assert "takes less than 2 KiB" in PAGE
    source = tmp_path / "size.c"
    source.write_text(
        '#include "seedbed_link.h"\n'
        "typedef char less_than_2_kib[sizeof(struct seedbed_link) < 2048 ? 1 : -1];\n"
    )
    gcc(*FREESTANDING, f"-I{FOLDER}", "-fsyntax-only", source)


def test_the_page_has_every_function_once():
    declared = []
    for path in HEADERS:
        # Declarations begin in the first column.
        declared += re.findall(
            r"^(?:enum |const |size_t ).*?(seedbed_\w+)\(", path.read_text(), re.M
        )
    cells = re.findall(r"^\| (`seedbed_\w+`.*?) \|", PAGE, re.M)
    listed = [name for cell in cells for name in re.findall(r"`(seedbed_\w+)`", cell)]
    assert sorted(listed) == sorted(declared)


def examples():
    return re.findall(r"^```c\n(.*?)^```$", PAGE, re.S | re.M)


@pytest.mark.parametrize(
    "function",
    ["seedbed_gemv_start", "seedbed_stream_engine_start", "seedbed_stream_trainer_start"],
)
def test_the_example_of_a_core_compiles(function, tmp_path):
    (core,) = (text for text in examples() if function in text)
    source = tmp_path / "example.c"
    source.write_text(core)
    gcc(*FREESTANDING, f"-I{FOLDER}", "-c", source, "-o", tmp_path / "example.o")


def test_the_example_of_the_host_link_runs(kept, tmp_path):
    (host,) = (text for text in examples() if "int main" in text)
    (printed,) = re.findall(r"It prints `(.*)`\.", PAGE)
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(host)
    gcc(*c_drivers.FLAGS, f"-I{FOLDER}", source, FOLDER / "seedbed_link.c", "-o", program)
    board = virtual.executable(link, "link", build=Path(kept))
    with virtual.start(board) as started:
        done = subprocess.run([program, started.port], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{printed}\n")


def test_registers_of_ones_own_are_written_with_their_meaning(tmp_path):
    text = board_registers("mine", [Register("speed", "write", "metres a second")])
    line = "    SEEDBED_BOARD_MINE_SPEED = 3, // write: metres a second"
    assert text == f"// Application mine.\nenum {{\n{line}\n}};\n"
