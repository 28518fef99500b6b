"""A cluster of worker processes: the same bytes, though some of them are lost."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import save_file

from seedbed.flow.compress import run, workers
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.sensitive import sensitive
from seedbed.flow.compress.workers import SERIAL, cluster, processes
from seedbed.sim import tools
from seedbed.spec import SeedlmConfig

distributed = pytest.importorskip("distributed")

#: Enough work a piece that a worker is lost in the middle of one.
CONFIG = SeedlmConfig(block=8, latent=3, width=10)
PIECES = 24


def compress(source, target, pool):
    options, console = Options(config=CONFIG), Console(quiet=True)
    return run.compress(source, target, options, pool=pool, console=console, size=1024)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "in"
    weights = np.random.default_rng(1).normal(size=(PIECES, 1024)).astype(np.float32)
    save_file({"w": weights}, path)
    return path


@pytest.fixture(scope="module")
def wanted(source):
    with processes(1) as pool:
        compress(source, source.with_name("out"), pool)
    return source.with_name("out").read_bytes()


@pytest.fixture
def machines(tmp_path):
    """A scheduler and two workers: their processes, its first, how another begins, its address."""
    begun, printed = [], tmp_path / "scheduler"
    # So long is a result asked for whose worker was lost in the meantime; half a minute by default.
    env = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}

    def begin(name, *words):
        log = open(tmp_path / f"log{len(begun)}", "w")  # noqa: SIM115
        local = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(printed)]
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *local, *words]
        begun.append(subprocess.Popen(command, stdout=log, stderr=log, env=env))
        log.close()

    def worker():
        begin("worker", "--nthreads", "1", "--no-nanny")

    begin("scheduler", "--port", "0")
    worker()
    worker()
    try:
        yield begun, worker, printed
    finally:
        for each in begun:
            each.kill()
            each.wait()


def address(printed, workers):
    for _ in range(600):
        try:
            with distributed.Client(scheduler_file=str(printed), set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=60)
                return client.scheduler.address
        except (OSError, ValueError):
            time.sleep(0.1)
    raise AssertionError("the scheduler has not begun in a minute")


def lines(journal):
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def after(journal, more, action):
    """Do ``action`` in another thread when the journal has so many lines more."""
    count = lines(journal) + more

    def wait():
        while lines(journal) < count:
            time.sleep(0.002)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_mask_of_a_cluster(source, machines, tmp_path):
    """The mask, and the shares of the squared gradient."""
    *_, printed = machines

    def select(name, pool):
        found = sensitive(
            source, source, tmp_path / name, fraction=0.1, pool=pool, console=Console(quiet=True),
            chunk=1000,
        )  # fmt: skip
        return found.rows, (tmp_path / name).read_bytes()

    with cluster(address(printed, 2)) as pool:
        found = select("spread", pool)
    assert found == select("serial", SERIAL)


def test_what_is_lost_in_the_middle(source, wanted, machines, tmp_path, monkeypatch):
    """A worker; then the other one, which was the last; then the scheduler."""
    begun, worker, printed = machines

    def spread(name, count, who):
        with cluster(address(printed, count)) as pool:
            lost = after(tmp_path / f"{name}.journal", 4, who.kill)
            compress(source, tmp_path / name, pool)
            lost.join()

    spread("out", 2, begun[1])
    assert begun[1].wait() == -signal.SIGKILL
    assert begun[2].poll() is None
    assert (tmp_path / "out").read_bytes() == wanted
    assert not (tmp_path / "out.journal").exists()
    monkeypatch.setattr(workers, "PATIENCE", 3)
    kept = "; finished work is kept, and the"
    with pytest.raises(RuntimeError, match=f"at .* has no workers{kept}"):
        spread("again", 1, begun[2])
    worker()
    with pytest.raises(RuntimeError, match=f"the dask (cluster|scheduler) at .* was lost{kept}"):
        spread("again", 1, begun[0])
    assert sorted(path.name for path in tmp_path.glob("again*")) == ["again.journal", "again.part"]
    with processes(1) as pool:
        compress(source, tmp_path / "again", pool)
    assert (tmp_path / "again").read_bytes() == wanted


@pytest.mark.parametrize("found", ["tcp://127.0.0.1:1", "nonsense", "tcp://127.0.0.1", "a:b:c"])
def test_no_scheduler_answers(found, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 1)
    with (
        pytest.raises(RuntimeError, match=f"no dask scheduler answers at '{found}'"),
        cluster(found),
    ):
        pass


def test_extra_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ModuleNotFoundError) as found,
        cluster("tcp://127.0.0.1:1"),
    ):
        pass
    assert "pip install 'seedbed[cluster]' brings it" in tools.without(found.value)
