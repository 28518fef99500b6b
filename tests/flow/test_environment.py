"""What a command loads, and where it keeps what it keeps: also without a home to write to.

A home below a plain file cannot be written by anyone, root included.
"""

import json
import os
import subprocess
import sys

import platformdirs
import pytest

from seedbed.sim import tools

HEAVY = ("numba", "scipy", "sklearn", "matplotlib", "cocotb", "pytest")
MAIN = "from seedbed.flow.cli.app import main; main()"
#: Runs the command line, and says at its end what is loaded.
LOADED = f"""
import sys
try:
    {MAIN}
finally:
    print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)
"""


def python(code, *words, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=cwd,
        env={name: value for name, value in (os.environ | environment).items() if value},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", [["list"], ["--help"], ["verilog", "lfsr"]], ids=" ".join)
def test_a_small_command_loads_no_large_package(words, tmp_path):
    done = python(LOADED, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.split() == []


@pytest.fixture(params=["HOME", "XDG_CACHE_HOME"])
def homeless(request, tmp_path):
    """An environment whose folder of caches cannot be made; what is kept goes to ``tmp``."""
    (tmp_path / "file").touch()
    (tmp_path / "tmp").mkdir()
    changed = {name: "" for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")}
    changed[request.param] = str(tmp_path / "file" / "home")
    return changed | {"TMPDIR": str(tmp_path / "tmp")}


def test_commands_run_without_a_home(tmp_path, homeless):
    # Compiled already, as this is no test of YoWASP.
    homeless["YOWASP_CACHE_DIR"] = platformdirs.user_cache_dir("YoWASP", appauthor=False)
    for words in (["list", "--names"], ["verilog", "lfsr"]):
        done = python(MAIN, *words, cwd=tmp_path, **homeless)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    assert (tmp_path / "build/verilog/lfsr.v").is_file()
    assert list((tmp_path / "tmp").iterdir()) == []


KEPT = """
import json, os, sys, platformdirs
from seedbed.sim.tools import setup_environment
setup_environment()
import matplotlib.font_manager
names = ["NUMBA_CACHE_DIR", "MPLCONFIGDIR"]
found = {name: os.environ.get(name) for name in names}
found["YoWASP"] = platformdirs.user_cache_dir("YoWASP", appauthor=False)
print(json.dumps(found | {"there": os.path.isdir(os.path.dirname(found["YoWASP"]))}))
"""


def test_without_a_home_all_is_kept_for_one_command(tmp_path, homeless):
    done = python(KEPT, cwd=tmp_path, **homeless)
    assert (done.returncode, done.stderr) == (0, "")
    found, tmp = json.loads(done.stdout), str(tmp_path / "tmp" / "seedbed-")
    assert found["NUMBA_CACHE_DIR"] is None
    assert found["MPLCONFIGDIR"].startswith(tmp)
    assert found["YoWASP"].startswith(tmp)
    assert found["there"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_with_a_home_all_is_kept_there(tmp_path):
    none = {"NUMBA_CACHE_DIR": "", "MPLCONFIGDIR": "", "XDG_CACHE_HOME": str(tmp_path / "caches")}
    done = python(KEPT, cwd=tmp_path, **none)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["NUMBA_CACHE_DIR"] == str(tmp_path / "caches/seedbed/numba")
    assert found["MPLCONFIGDIR"] == str(tmp_path / "caches/seedbed/matplotlib")
    mine = python(KEPT, cwd=tmp_path, **none | {"NUMBA_CACHE_DIR": "mine"})
    assert json.loads(mine.stdout)["NUMBA_CACHE_DIR"] == "mine"


def test_the_search_is_loaded_where_nothing_can_be_kept(tmp_path, homeless):
    """As by a program of the user's, with a package's folder that cannot be written."""
    code = "from seedbed.flow.compress import search; print(search._top.stats.cache_path)"
    elsewhere = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserWideCacheLocator"}
    done = python(code, cwd=tmp_path, **homeless | elsewhere)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "None\n"


def test_a_home_that_nobody_knows_is_none(tmp_path, monkeypatch):
    """Without HOME and a name, a path keeps its tilde: no folder of that name is made."""
    monkeypatch.chdir(tmp_path)
    assert not tools._writable(tools.Path("~/.cache/seedbed"))
    assert list(tmp_path.iterdir()) == []
