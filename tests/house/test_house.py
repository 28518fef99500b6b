"""Checks the project's structure: imports one way, one stem per core, nothing missing."""

import ast
import re
import subprocess
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from seedbed.flow.cores.registry import CORES, FAMILIES, WRAPPERS
from seedbed.flow.report.jobs import plan

ROOT = Path(__file__).parents[2]
#: Which floors a floor may import, its own included.
ALLOWED = {
    "spec": {"spec"},
    "hw": {"hw", "spec"},
    "golden": {"golden", "spec"},
    "sim": {"sim", "hw", "golden", "spec"},
    "flow": {"flow", "sim", "hw", "golden", "spec"},
    "boards": {"boards", "flow", "sim", "hw", "golden", "spec"},
    "drivers": {"drivers"},
    "studies": {"studies", "flow", "sim", "hw", "golden", "spec"},
    "main": {"main", "boards", "flow"},
}
#: What may import the studies: the commands, and nothing that they are made of.
COMMANDS = "flow/cli"
BANNED = {
    "spec": {"numpy", "amaranth"},
    "hw": {"numpy"},
    "golden": {"amaranth"},
}
FILES = [path for floor in ALLOWED for path in sorted((ROOT / floor).rglob("*.py"))]


def room(path):
    """Return the folder that a file belongs to: a floor's folder, or the floor."""
    return "/".join(path.relative_to(ROOT).parts[:-1][:2])


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module
            if node.module == "seedbed":
                yield from (f"seedbed.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    floor = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        first, *rest = name.split(".")
        assert first not in BANNED.get(floor, set()), f"{floor} must not import {first}"
        if first == "seedbed" and rest:
            allowed = ALLOWED[floor] | ({"studies"} if room(path) == COMMANDS else set())
            assert rest[0] in allowed, f"{floor} must not import {rest[0]}"


def test_the_rule_sees_a_breach():
    """The check itself can fail: what flow imports would be refused in spec."""
    names = {name.split(".")[1] for name in imports(ROOT / "flow/emit/verilog.py") if "." in name}
    assert not names <= ALLOWED["spec"]


def corridors():
    """Return which rooms each room imports. A package's face, which hands names on, is in none."""
    found = {room(path): set() for path in FILES}
    for path in FILES:
        for name in imports(path) if path.name != "__init__.py" else ():
            parts = name.split(".")[1:] if name.startswith("seedbed.") else []
            other = "/".join(parts[:2])
            if parts and (ROOT / parts[0]).is_dir():
                found[room(path)].add(other if (ROOT / other).is_dir() else parts[0])
    return {name: others - {name} for name, others in found.items()}


def circle(corridors):
    """Return rooms that import one another in a circle, or nothing."""
    try:
        list(TopologicalSorter(corridors).static_order())
    except CycleError as error:
        return error.args[1]
    return []


def test_rooms_import_each_other_without_circles():
    assert len(corridors()) > 30
    assert not circle(corridors())


def test_the_rule_of_rooms_sees_a_circle():
    assert circle(corridors() | {"hw/parts": {"hw/axi"}})


@pytest.mark.parametrize("path", [p for p in FILES if p.name == "__init__.py"],
                         ids=lambda path: str(path.parent.relative_to(ROOT)))  # fmt: skip
def test_each_room_is_described(path):
    """In one sentence; a room of cores lists them, too."""
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text
    assert text.split("\n\n")[0].endswith(".")
    cores = {name for name, core in (CORES | WRAPPERS).items() if room(source(core)) == room(path)}
    if room(path).count("/"):
        listed = re.search(r"(?:Cores|Wrappers): (.*)\.", " ".join(text.split()))
        assert set(listed[1].split(", ") if listed else []) == cores


def source(core):
    """Return the file of a core's component."""
    return ROOT / f"{core.component.__module__.removeprefix('seedbed.').replace('.', '/')}.py"


def test_families_are_the_rooms_of_their_cores():
    for core in CORES.values():
        assert room(source(core)) == f"hw/{core.family}"
    rooms = {path.parent.name for path in (ROOT / "hw").glob("*/__init__.py")}
    assert {*FAMILIES, "axi"} == rooms


def test_cores_are_handed_on_by_their_package():
    from seedbed import hw

    assert {core.component for core in (CORES | WRAPPERS).values()} == {
        getattr(hw, name) for name in hw.__all__
    }


#: The first column of the table of places at which a core is added.
PLACES = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/howto/core.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("core", CORES)
def test_the_places_on_the_page_are_those_of_every_core(core):
    assert 0 < len(PLACES) <= 8
    family, component = CORES[core].family, CORES[core].component.__name__
    listed = [path for place in PLACES for path in re.findall(r"`(\S+)`", place)]
    paths = [ROOT / path.replace("FAMILY", family).replace("NAME", core) for path in listed]
    for pattern, path in zip(listed, paths, strict=True):
        if "NAME" not in pattern:
            assert re.search(rf"\b({core}|{component}|{component}Config)\b", path.read_text()), path
    # And there are no others: files of its name, and tables with an entry of it.
    named = {
        path
        for folder in ("spec", "hw", "golden", "sim", "tests", "docs/cores")
        for path in (ROOT / folder).rglob("*.*")
        if path.stem.removeprefix("test_") == core and path.parent.name != "__pycache__"
    }
    assert named == {path for path, pattern in zip(paths, listed, strict=True) if "NAME" in pattern}
    tables = {
        path for path in (ROOT / "flow").rglob("*.toml") if core in tomllib.loads(path.read_text())
    }
    assert tables <= set(paths)


def test_every_package_is_in_the_wheel():
    """A folder that pyproject.toml does not name imports in place and is missing when installed."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {"seedbed"} | {
        f"seedbed.{path.parent.relative_to(ROOT).as_posix().replace('/', '.')}"
        for floor in ALLOWED
        if floor != "main"
        for path in (ROOT / floor).rglob("__init__.py")
    }
    assert set(setup["packages"]) == folders == set(setup["package-dir"])


def test_every_package_is_checked_for_types(tmp_path):
    """The tree that mypy reads has every package under its name, and no older links."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    for folder in setup["setuptools"]["package-dir"].values():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "__init__.py").touch()
    tree = tmp_path / setup["mypy"]["mypy_path"]
    old = tree / "seedbed/renamed"
    old.parent.mkdir(parents=True)
    old.symlink_to("../../../renamed")
    subprocess.run(
        ["make", "--silent", "--file", ROOT / "Makefile", "types"], cwd=tmp_path, check=True
    )
    assert not old.is_symlink()
    for package, folder in setup["setuptools"]["package-dir"].items():
        found = tree / package.replace(".", "/") / "__init__.py"
        assert found.is_file(), f"mypy does not see {package}"
        assert found.samefile(tmp_path / folder / "__init__.py")


def test_every_file_beside_the_modules_is_in_the_wheel():
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    for floor in ALLOWED:
        package = "seedbed" if floor == "main" else f"seedbed.{floor}"
        named = {
            path
            for name, patterns in setup["package-data"].items()
            if f"{name}.".startswith(f"{package}.") and (floor != "main" or name == package)
            for pattern in patterns
            for path in (ROOT / setup["package-dir"][name]).glob(pattern)
        }
        others = {
            path
            for path in (ROOT / floor).rglob("*")
            if path.is_file()
            and path.parent.name != "__pycache__"
            and not (path.suffix == ".py" and path.with_name("__init__.py").exists())
        }
        assert others == named


def test_the_version_is_stated_once():
    """What states the version has that of pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    stated = {
        "CITATION.cff": rf"^version: {re.escape(version)}$",
        "docs/install.md": rf"`pip install seedbed` brings version {re.escape(version)}",
    }
    for path, line in stated.items():
        assert re.search(line, (ROOT / path).read_text(), re.M), path
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == version


def test_make_simulates_every_core_and_counts_what_it_places():
    """A core that no configuration of is in the main job would be left out without a word."""
    main = [job for job in plan(ROOT / "build") if job.main]
    assert {job.core for job in main if job.kind == "simulation"} == set(CORES)
    assert len({(job.kind, job.core, job.config, job.target) for job in main}) == len(main)
    mapped = {(job.core, job.config, job.target) for job in main if job.kind == "synthesis"}
    placed = {(job.core, job.config, job.target) for job in main if job.kind == "place"}
    assert placed
    assert placed <= mapped


def test_the_page_on_installing_names_what_the_report_leaves_out():
    main = {job.core for job in plan(ROOT / "build") if job.main and job.kind == "synthesis"}
    page = (ROOT / "docs" / "install.md").read_text()
    (row,) = re.findall(r"^\| `make report` \| (.*)$", page, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == [core for core in CORES if core not in main]


def test_cores_are_in_files_and_methods_that_can_be_read_at_once():
    """350 lines: a core of 20 or 30 fields describes each of them in its file."""
    for path in sorted((ROOT / "hw").rglob("*.py")):
        text = path.read_text()
        assert text.count("\n") <= 350, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                lines = node.end_lineno - node.lineno + 1
                assert lines <= 60, f"{path.name}: {node.name} has {lines} lines"
