# amaranth: UnusedElaboratable=no
"""A core as a process that is fed while it runs, at the skid buffer."""

import numpy as np
import pytest

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog import cosim

CORE = registry.find("skid_buffer")
CONFIG = CORE.configure({"width": 40})


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cosim")
    path = verilog.write(CORE, {"width": 40}, folder)
    return cosim.executable(path, CORE.name, CORE.component(CONFIG).signature, build=folder)


def start(bench, **options):
    return cosim.Cosim(bench, CORE.component(CONFIG), **options)


def payloads(numbers):
    return np.array([[n & 0xFFFFFFFF, n >> 32] for n in numbers], np.uint32)


@pytest.mark.parametrize("pauses", [0, 8])
def test_each_request_is_answered(bench, pauses):
    with start(bench, seed=3, pauses=pauses) as process:
        for numbers in ([1, 2**39 + 5, 7], [3], [], range(200)):
            sent = payloads(numbers).reshape(-1, 2)
            cycles, found = process.run({"i": sent}, {"o": len(sent)})
            assert np.array_equal(found["o"], sent)
            assert cycles >= len(sent)
            if not pauses:
                assert cycles <= len(sent) + 1


def test_stored_payloads_are_sent_as_often_as_asked(bench):
    first, second = payloads([4, 5, 6]), payloads([2**33])
    with start(bench) as process:
        assert (process.store(first), process.store(second)) == (1, 2)
        _, found = process.run({"i": (1, 7)}, {"o": 7})
        assert np.array_equal(found["o"], first[[0, 1, 2, 0, 1, 2, 0]])
        _, found = process.run({"i": (2, 2)}, {"o": 2})
        assert np.array_equal(found["o"], second[[0, 0]])


def test_a_core_that_gives_less_or_more_is_a_mismatch(bench):
    few = "3: no transfer for 100000 cycles, o has 1 left"
    for sent, count, message in (
        (payloads([1]), 2, few),
        (payloads([1, 2, 3]), 1, "4: o: a beat too many"),
        ((1, 1), 1, "2: no such payloads"),
    ):
        with start(bench) as process, pytest.raises(Mismatch, match=f"ended with {message}"):
            process.run({"i": sent}, {"o": count})
