import os

# Two workers share two cores: threads of a BLAS that wait for one another in each of them made
# some tests ten times slower. To be said before NumPy is loaded; other processes get it, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from seedbed.sim.tools import setup_environment

setup_environment()


@pytest.fixture(scope="session")
def kept(pytestconfig):
    """A folder of emitted Verilog: what several tests ask for is elaborated once."""
    return pytestconfig.cache.mkdir("seedbed")
