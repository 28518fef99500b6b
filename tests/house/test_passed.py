"""Which test modules are left out where nothing has changed since they passed."""

import subprocess
import sys

import passed
import pytest


def test_modules_and_patterns_are_there():
    assert all((passed.ROOT / module).is_file() for module in passed.MODULES)
    assert all(any(passed.ROOT.glob(pattern)) for pattern in passed.OTHERS)


@pytest.mark.parametrize("module", passed.MODULES)
def test_a_module_depends_on_its_core_and_its_bench(module):
    """On its own text, on what it imports of the project, and on what no import names."""
    text = passed.sources(module)
    streamed = ("program_export", "stream_inputs", "stream_job", "stream_tuning")
    core = {"axi": "gemv_axi", "axi_driver": "gemv_axi", "hostile": "gemv", "unfinished": "lora"}
    core |= dict.fromkeys(streamed, "stream_engine")
    stem = module.rpartition("test_")[2].removesuffix(".py")
    name = core.get(stem, stem)
    (rtl,) = passed.ROOT.glob(f"hw/*/{name}.py")
    for path in (module, rtl, "sim/verilog/streams.h", "tests/conftest.py", "constraints.txt"):
        assert (passed.ROOT / path).read_text() in text


def test_what_has_changed_is_not_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(passed, "RECORD", tmp_path / "passed.json")
    first, second, *_ = passed.MODULES
    assert passed.unchanged() == set()
    passed.record({first})
    passed.record({second})
    assert passed.unchanged() == {first, second}
    text = passed.RECORD.read_text()
    passed.RECORD.write_text(text.replace(passed.fingerprint(first), "0" * 16))
    assert passed.unchanged() == {second}


@pytest.mark.parametrize("words", [["-m", "not long"], ["-m", "", "-k", "lfsr"]])
def test_a_part_of_a_module_is_not_recorded(words):
    command = [sys.executable, "-m", "pytest", "--record", "-n", "0", *words, passed.MODULES[0]]
    done = subprocess.run(command, cwd=passed.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "--record needs all tests of a module" in done.stderr
