import re
from pathlib import Path

import pytest

from seedbed.boards import apps, virtual
from seedbed.boards.top import identifier

APP = apps.find("noise")


@pytest.fixture
def board(kept):
    program = virtual.executable(APP, apps.file_name("noise", APP), build=Path(kept))
    with virtual.start(program) as running:
        yield running


def test_a_run_is_a_file_to_send(board, called, tmp_path):
    words = ["board", "report-run", "noise", "--port", board.port, "--board", "my board, v3"]
    code, _, problem = called(words, tmp_path)
    assert (code, problem) == (0, "")
    text = (tmp_path / "seedbed-run.md").read_text()
    assert text.startswith("# A run of noise: as the model, bit for bit\n")
    assert "| board | my board, v3 |" in text
    assert f"| identifier | 0x{identifier(APP):08X} |" in text
    assert "norm: " in text
    assert dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|$", text, re.MULTILINE))["jobs"] == "1"
    # It is the user's file now.
    code, _, problem = called(words, tmp_path)
    assert code == 2
    assert problem == "error: seedbed-run.md exists already; --force overwrites it\n"


def test_a_run_that_fails_is_a_file_to_send(tmp_path, called):
    words = ["board", "report-run", "noise", "--port", str(tmp_path / "none")]
    code, _, problem = called(words, tmp_path)
    assert code == 2
    text = (tmp_path / "seedbed-run.md").read_text()
    assert text.startswith("# A run of noise: failed\n")
    assert "LinkFailure: " in text
    assert problem.startswith("error: ")


def test_an_application_that_is_not_there(called, tmp_path):
    code, _, problem = called(["board", "report-run", "nose", "--port", "x"], tmp_path)
    assert code == 2
    assert "did you mean" in problem
    assert not (tmp_path / "seedbed-run.md").exists()
