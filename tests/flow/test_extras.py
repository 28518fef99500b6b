"""The base install: what works without the extras, and which extra a command asks for.

The packages of the extras are hidden in a process of their own; which they are, pyproject says.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import typer
from safetensors.numpy import save_file

from seedbed.boards.cli.app import command_line
from seedbed.sim import tools

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def named(requirements):
    return {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in requirements}


BASE = named(PROJECT["dependencies"])
EXTRAS = {extra: named(lines) for extra, lines in PROJECT["optional-dependencies"].items()}
OWN = {extra: found for extra, found in EXTRAS.items() if extra not in ("all", "dev", "docs")}
#: The modules that each installed package brings.
MODULES = {}
for module, owners in metadata.packages_distributions().items():
    for owner in owners:
        MODULES.setdefault(owner.lower().replace("_", "-"), set()).add(module)

HIDDEN = """
import sys
from importlib import metadata

modules, packages = {modules}, {packages}


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in modules:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


def from_name(name, found=metadata.Distribution.from_name):
    if name.lower().replace("_", "-") in packages:
        raise metadata.PackageNotFoundError(name)
    return found(name)


sys.meta_path.insert(0, Hidden())
metadata.Distribution.from_name = staticmethod(from_name)
"""
MAIN = "\nfrom seedbed.boards.cli.app import main; main()\n"
#: Runs commands, each in a copy of a process that has imported the command line: to do so takes
#: longer than most of them.
SERVER = """
import json
import os
from seedbed.boards.cli.app import main

for line in sys.stdin:
    words, folder = json.loads(line)
    if not (child := os.fork()):
        os.chdir(folder)
        for stream, name in enumerate((os.devnull, f"{folder}.out", f"{folder}.err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), stream)
        sys.argv = ["seedbed", *words]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def python(code, *words, cwd, extras):
    """Run ``code`` as if no package of ``extras`` was installed."""
    command, env = hidden(code, *words, extras=extras)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def hidden(code, *words, extras):
    """Return a command, and its environment, that runs ``code`` without the ``extras``."""
    packages = set().union(*(OWN[extra] for extra in extras))
    modules = set().union(*(MODULES[package] for package in packages))
    remedies = {f"pip install 'seedbed[{extra}]'" for extra in extras}
    # Of optional tools, none: dieharder would run for minutes.
    absent = {n: f"no-{n}" for n in tools.OPTIONAL}
    absent |= {n: f"no-{n}" for n, tool in tools.TOOLS.items() if tool.remedy in remedies}
    command = [sys.executable, "-c", HIDDEN.format(modules=modules, packages=packages) + code]
    return [*command, *words], os.environ | {"COLUMNS": "200"} | absent


@pytest.fixture(scope="module")
def bare():
    """Return a function that runs a command of seedbed without any extra."""
    command, env = hidden(SERVER, extras=OWN)
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(line, folder):
            process.stdin.write(json.dumps([line.split(), str(folder)]) + "\n")
            process.stdin.flush()
            code = int(process.stdout.readline())
            out, err = (Path(f"{folder}.{name}").read_text() for name in ("out", "err"))
            return subprocess.CompletedProcess(line, code, out, err)

        yield run
        process.stdin.close()


def test_a_package_is_in_one_place():
    """The sentence about a missing package names one extra."""
    everything = [package for found in (BASE, *EXTRAS.values()) for package in found - {"seedbed"}]
    assert len(everything) == len(set(everything))
    [whole] = PROJECT["optional-dependencies"]["all"]
    assert set(whole.removeprefix("seedbed[").removesuffix("]").split(",")) == set(OWN)


@pytest.mark.parametrize("package", sorted(set().union(*OWN.values())))
def test_every_module_of_an_extra_leads_to_it(package):
    [extra] = [extra for extra, found in OWN.items() if package in found]
    imported = {
        line.split()[1].partition(".")[0]
        for folder in ("spec", "hw", "golden", "sim", "flow", "boards", "studies")
        for path in (ROOT / folder).rglob("*.py")
        for line in re.findall(r"^ *((?:from|import) \S+)", path.read_text(), re.MULTILINE)
    }
    for module in MODULES[package] & imported:
        problem = ModuleNotFoundError("none", name=f"{module}.part")
        said = tools.without(problem)
        assert said.replace("_", "-") == (
            f"{package} is not installed: pip install 'seedbed[{extra}]' brings it"
        )


def test_a_module_of_no_extra_is_a_fault():
    with pytest.raises(ModuleNotFoundError, match="none"):
        tools.without(ModuleNotFoundError("none", name="no_such_module"))


def test_every_tool_names_the_extra_that_brings_it():
    for tool in tools.TOOLS.values():
        extra = re.search(r"seedbed\[(\w+)\]", tool.remedy)
        files = {
            package
            for package in BASE.union(*OWN.values())
            for file in metadata.files(package) or ()
            if file.name == tool.names[0]
        }
        assert files <= (EXTRAS[extra[1]] if extra else BASE)
        assert bool(files) == tool.remedy.startswith("pip install")


#: Each command, and the extra that it asks for first where none is installed.
COMMANDS = [
    ("list", None),
    ("verilog lfsr --fusesoc", None),
    ("ports lfsr", None),
    ("testbench lfsr", None),
    ("sim lfsr", None),
    ("synth lfsr --target xcup", None),
    ("synth lfsr --target ecp5", "place"),
    ("constrain none.json --instance a -o b.json", None),
    ("cocotb lfsr", "sim"),
    ("formal lfsr", "sim"),
    ("mutate urng_array", "sim"),
    ("measure --kind simulation --core lfsr", None),
    ("statistics lfsr", None),
    ("energy lfsr", None),
    ("testu01 lfsr", None),
    ("report --quick", "report"),
    ("import in.onnx", None),
    ("tune net --data none --core instantft", None),
    ("compress in out --bits 4", "compress"),
    ("decompress in out", "compress"),
    ("inspect in", "compress"),
    ("sensitive in grad -o mask", "compress"),
    ("explore --bits 3", "report"),
    ("lutopt search --lanes 4 --width 4", None),
    ("trellis search --draws 1 --steps 0", "compress"),
    ("replay-log none.log none.npz -o out.npz", None),
    ("demo zo", "report"),
    ("demo seedlm", "compress"),
    ("demo lm", "compress"),
    ("demo formats", "compress"),
    ("demo sentences --model .", "compress"),
    ("demo sentiment", "compress"),
    ("demo llm", "compress"),
    ("import . --dry-run", "compress"),
    ("demo personalise", "compress"),
    ("demo personalise-mlp", "report"),
    ("demo sparse", "report"),
    ("demo sparse --core stream_engine", "report"),
    ("demo elasticzo", "report"),
    ("demo elasticzo-choices", "report"),
    ("demo elasticzo-passes", "report"),
    ("demo instantft", "report"),
    ("demo instantft --rtl", "report"),
    ("export --core lfsr", "compress"),
    ("drivers", "boards"),
    ("registers", "boards"),
    ("registers gemv_axi", None),
    ("fusesoc", None),
    ("project lfsr --tool icestorm -o out", "projects"),
    ("paper-tables -o -", None),
    ("ipxact gemv_axi -o out", "registers"),
    ("tour", "compress"),
    ("board list", "boards"),
    ("board report-run noise --port none", "boards"),
    ("board build ulx3s-85f noise", "boards"),
    ("board load ulx3s-85f noise", "boards"),
    ("board predict ulx3s-85f --cycles 1", None),
    ("board report", "boards"),
    ("board memories", "litex"),
    ("board run noise --port none", "boards"),
    ("board sim ulx3s-85f noise", "boards"),
]


def test_every_command_is_tried():
    group = typer.main.get_command(command_line)
    names = {*group.commands} - {"demo", "board", "doctor"}
    for kind in ("demo", "board"):
        names |= {f"{kind} {name}" for name in group.commands[kind].commands}
    for name in names:
        assert any(line == name or line.startswith(f"{name} ") for line, _ in COMMANDS), name


@pytest.mark.parametrize(("line", "extra"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_without_the_extras_a_command_works_or_names_one(line, extra, tmp_path, bare):
    done = bare(line, tmp_path)
    assert "Traceback" not in done.stderr
    if extra:
        assert done.returncode == 2
        assert done.stderr.endswith(f": pip install 'seedbed[{extra}]' brings it\n")
        # Where measuring had begun, a line above it is empty: the progress that was shown.
        assert done.stderr.strip().count("\n") == 0
    elif line.startswith(
        (
            "constrain", "statistics", "energy", "testu01", "replay-log", "import", "tune",
            "paper-tables",
        )
    ):  # fmt: skip
        # What they lack is a file, a folder, and a program that is no Python package.
        assert "seedbed[" not in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("explore --bits 3", "compress"),
        ("demo seedlm", "report"),
        ("demo llm", "models"),
        ("import in.onnx", "import"),
        ("import in.onnx", "compress"),
        ("tune . --data . --core instantft", "report"),
        ("compress in out --bits 4 --cluster tcp://127.0.0.1:1", "cluster"),
        ("sensitive in --by random -o mask --cluster tcp://127.0.0.1:1", "cluster"),
    ],
)
def test_of_several_extras_the_missing_one_is_named(line, extra, tmp_path):
    save_file({"weights": np.zeros((8, 64), np.float32)}, tmp_path / "in")
    (tmp_path / "in.onnx").write_bytes(b"none")
    done = python(MAIN, *line.split(), cwd=tmp_path, extras=[extra])
    assert done.returncode == 2
    assert done.stderr.endswith(f": pip install 'seedbed[{extra}]' brings it\n")


def test_every_core_is_built_without_the_extras(tmp_path):
    code = """
from amaranth.hdl import Fragment
from seedbed.flow.cores.registry import CORES, WRAPPERS
for core in (CORES | WRAPPERS).values():
    Fragment.get(core.component(core.configure(core.small)), None)
"""
    done = python(code, cwd=tmp_path, extras=OWN)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_doctor_names_the_extras(tmp_path):
    done = python(MAIN, "doctor", cwd=tmp_path, extras=OWN)
    assert done.returncode == 1
    assert "missing: pip install 'seedbed[sim]'" in done.stdout
    assert "missing: pip install 'seedbed[place]'" in done.stdout
