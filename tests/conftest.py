import os
import subprocess
import sys

# Two workers share two cores: threads of a BLAS that wait for one another in each of them made
# some tests ten times slower. To be said before NumPy is loaded; other processes get it, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

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


@pytest.fixture(scope="session")
def kept(pytestconfig):
    """A folder of emitted Verilog: what several tests ask for is elaborated once."""
    return pytestconfig.cache.mkdir("seedbed")


@pytest.fixture(scope="session")
def ports_of():
    """Return direction, width and name of every port that signature and clock ask for."""
    from amaranth.hdl import Shape
    from amaranth.lib.wiring import In

    from seedbed.flow.registry import CORES

    def ports(name, params):
        core = CORES[name]
        found = {("input", 1, "clk"), ("input", 1, "rst")}
        for path, member in core.signature(core.configure(params)).members.flatten():
            if not member.is_signature:
                way = "input" if member.flow is In else "output"
                found.add((way, Shape.cast(member.shape).width, "__".join(map(str, path))))
        return found

    return ports


@pytest.fixture
def called(monkeypatch, capsys):
    """Call the command line in this process, which has imported it; return status and output."""
    from seedbed.flow.cli import main

    def call(words, folder):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["seedbed", *words])
        with pytest.raises(SystemExit) as left:
            main()
        told = capsys.readouterr()
        return left.value.code, told.out, told.err

    return call
