import json
import os
import subprocess
import sys

# Two workers share two cores: threads of a BLAS that wait for one another in each of them made
# some tests ten times slower. To be said before NumPy is loaded; other processes get it, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import passed
import pytest

from seedbed.sim.tools import setup_environment

setup_environment()


#: Where nobody has searched yet, numba compiles for a quarter of a minute.
SEARCH = (
    "import numpy as np; from seedbed.flow.compress.search import search;"
    "from seedbed.spec import SeedlmConfig;"
    "search(SeedlmConfig(block=4, latent=2, width=5), np.ones((1, 4)))"
)


def pytest_sessionstart(session):
    """Begin to compile before the tests that search, each of which would, in several processes."""
    if not hasattr(session.config, "workerinput"):
        session.config.add_cleanup(subprocess.Popen([sys.executable, "-c", SEARCH]).wait)


def pytest_addoption(parser):
    parser.addoption(
        "--changed",
        action="store_true",
        help="leave out long modules that passed with today's source: tests/passed.py",
    )
    parser.addoption(
        "--record", action="store_true", help='with -m "": record which of these modules pass'
    )


def pytest_configure(config):
    parts = [*config.args, *(config.option.deselect or [])]
    in_part = any(part.startswith(f"{module}::") for part in parts for module in passed.MODULES)
    chosen = config.option.markexpr, config.option.keyword, in_part
    if config.getoption("record"):
        if any(chosen):
            raise pytest.UsageError(
                "--record needs all tests of a module: -m '' and no other choice"
            )
        # Those of the source that is tested, whatever is edited meanwhile.
        for module in passed.MODULES:
            passed.fingerprint(module)


def pytest_collection_modifyitems(config, items):
    if config.getoption("changed"):
        left_out = [item for item in items if _module(item.nodeid) in passed.unchanged()]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]


#: Modules with tests that have run, and those of which not all have passed.
_RUN, _NOT_PASSED = set(), set()


def _module(nodeid):
    return nodeid.partition("::")[0]


def pytest_runtest_logreport(report):
    _RUN.add(_module(report.nodeid))
    if not report.passed:
        _NOT_PASSED.add(_module(report.nodeid))


def pytest_sessionfinish(session):
    """Record the modules of which all tests have passed."""
    if session.config.getoption("record") and not hasattr(session.config, "workerinput"):
        passed.record({*passed.MODULES} & (_RUN - _NOT_PASSED))


def configs():
    """What is simulated of every core: :func:`small_configurations`."""
    from seedbed.flow.cores.configurations import small_configurations

    for core, name, params in small_configurations():
        yield pytest.param((core, params), id=f"{core.name} {name}")


def pytest_generate_tests(metafunc):
    """Give a test that asks for ``configured`` every core in every sort of configuration."""
    if "configured" in metafunc.fixturenames:
        metafunc.parametrize("configured", list(configs()))


@pytest.fixture
def reported(record_property):
    """Return a function that adds figures to a row of the report; they count if the test passes."""

    def record(core, config, command, **figures):
        record_property("row", json.dumps([core, config, command, figures]))

    return record


@pytest.fixture(scope="session")
def kept(pytestconfig):
    """A folder of emitted Verilog: what several tests ask for is elaborated once."""
    return pytestconfig.cache.mkdir("seedbed")


@pytest.fixture(scope="session")
def ports_of():
    """Return direction, sign, width and name of every port, in the order of the module."""
    from seedbed.flow.cores.registry import CORES, WRAPPERS
    from seedbed.sim.ports import ports

    def named(name, params):
        core = (CORES | WRAPPERS)[name]
        found = [
            ("input" if port.is_input else "output", port.signed, port.width, port.name)
            for port in ports(core.signature(core.configure(params)))
        ]
        common = [("input", False, 1, name) for name in ("clk", "rst")]
        return common + found if name in CORES else found

    return named


@pytest.fixture(scope="session")
def succeeds():
    """Call the command line in a folder, for the files of a fixture."""
    from seedbed.boards.cli.app import main

    def call(words, folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(sys, "argv", ["seedbed", *words])
            with pytest.raises(SystemExit) as left:
                main()
        assert not left.value.code

    return call


@pytest.fixture
def called(monkeypatch, capsys):
    """Call the command line in this process, which has imported it; return status and output."""
    from seedbed.boards.cli.app import main

    def call(words, folder):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["seedbed", *words])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return call
