"""Long test modules that have passed with today's source, so that CI need not run them again.

``pytest -m "" --record`` writes the fingerprints of those that have passed; with ``--changed``,
modules whose fingerprint is written are left out.
"""

import ast
import json
import sys
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from seedbed.flow.run.cache import code

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests/passed.json"
#: Modules that take minutes, and depend on what they import and on :data:`OTHERS`.
MODULES = (
    "tests/cores/test_axi.py",
    "tests/cores/test_conv_engine.py",
    "tests/cores/test_gemv.py",
    "tests/cores/test_instantft.py",
    "tests/cores/test_lora.py",
    "tests/cores/test_sparse_trainer.py",
    "tests/cores/test_stream_engine.py",
    "tests/cores/test_stream_inputs.py",
    "tests/cores/test_stream_trainer.py",
    "tests/cores/test_stream_tuning.py",
    "tests/cores/test_unfinished.py",
    "tests/cores/test_zo_trainer.py",
    "tests/drivers/test_axi_driver.py",
    "tests/flow/test_program_export.py",
    "tests/sim/test_hostile.py",
    "tests/sim/test_stream_job.py",
)
#: Sources that no import names: benches by name, other languages, tables, what tests share, and the
#: versions of packages.
OTHERS = (
    "sim/*.h", "sim/axi/*.py", "sim/verilog/*", "drivers/**/*", "flow/cores/*.toml", "flow/emit/*",
    "examples/*.v", "tests/*.py", "tests/drivers/*.py", "constraints.txt",
)  # fmt: skip


REGISTRY = "seedbed.flow.cores.registry"


@cache
def _others() -> str:
    paths = sorted({path for pattern in OTHERS for path in ROOT.glob(pattern) if path.is_file()})
    texts = [path.read_text() for path in paths if "__pycache__" not in path.parts]
    return "".join([repr(sys.version_info[:2]), *texts])


def _imports(text: str) -> list[str]:
    """Return the modules of this project that a module imports; of a package, it is all of it."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "seedbed":
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if _is_module(name) else str(node.module) for name in inside}
    return sorted(found)


def _is_module(name: str) -> bool:
    package, _, _ = name.rpartition(".")
    spec = find_spec(package)
    return bool(spec and spec.submodule_search_locations and find_spec(name))


def sources(module: str) -> str:
    """Return the text of everything that the tests of a module depend on."""
    text = (ROOT / module).read_text()
    seen: set[str] = set()
    parts = [text, *(code(each, seen) for each in _imports(text))]
    if REGISTRY in seen:
        # It imports the families of cores by name.
        names = sorted(path.stem for path in (ROOT / "flow/cores").glob("*.py"))
        parts += [code(f"seedbed.flow.cores.{name}", seen) for name in names]
    return "".join([*parts, _others()])


@cache
def fingerprint(module: str) -> str:
    """Return the hash of :func:`sources`."""
    return sha256(sources(module).encode()).hexdigest()[:16]


def recorded() -> dict[str, str]:
    """Return the fingerprints with which modules have passed."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def unchanged() -> set[str]:
    """Return the modules that have passed with today's source."""
    known = recorded()
    return {module for module in MODULES if known.get(module) == fingerprint(module)}


def record(passed: set[str]) -> None:
    """Write the fingerprints of modules that have passed."""
    found = recorded() | {module: fingerprint(module) for module in passed}
    kept = {module: found[module] for module in MODULES if module in found}
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")
