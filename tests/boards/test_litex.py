"""LiteX: a product in a SoC, by the bus; the trainers in a SoC; a width that the bus has not."""

import runpy
from pathlib import Path

import pytest

from seedbed.flow.cores.registry import WRAPPERS
from seedbed.sim import tools

litex = pytest.importorskip("seedbed.boards.litex")
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["litex_ulx3s.py"])
    return runpy.run_path(str(EXAMPLES / "litex_ulx3s.py"))


@pytest.mark.skipif(not tools.there("IVERILOG"), reason="Icarus Verilog is not installed")
def test_a_bus_master_runs_a_product(example, tmp_path):
    example["main"]()
    folder = tmp_path / "litex" / "gateware"
    files = [EXAMPLES / "litex_tb.v", "soc.v", "../core.v"]
    tools.run("IVERILOG", "-g2005", "-s", "litex_tb", "-o", "tb", *files, cwd=folder)
    assert "PASS: " in tools.run("VVP", "tb", cwd=folder, timeout=300)
    job = folder / "job.txt"
    job.write_text(job.read_text() + "r 40000100 0\n")
    assert "FAIL: " in tools.run("VVP", "tb", cwd=folder, timeout=300)


@pytest.mark.parametrize(
    ("core", "stream"),
    [
        ("zo_trainer_axi", "samples"),
        ("sparse_trainer_axi", "samples"),
        ("stream_trainer_axi", "tokens"),
    ],
)
def test_a_trainer_is_in_a_soc_for_the_board(core, stream, example, tmp_path):
    found = example["build"](tmp_path / core, core, dict(WRAPPERS[core].small), bench=False)
    assert f"core_{stream}_frame" in found["csr_registers"]
    text = (tmp_path / core / "gateware" / "soc.v").read_text()
    assert "core core(" in text
