# amaranth: UnusedElaboratable=no
"""A core as a process that is fed while it runs, at the skid buffer."""

import numpy as np
import pytest

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Act
from seedbed.sim.verilog import cosim

CORE = registry.find("skid_buffer")
BENCH = cosim.Bench(CORE.signature(CORE.configure({"width": 40})))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cosim")
    path = verilog.write(CORE, {"width": 40}, folder)
    return BENCH.executable(path, CORE.name, build=folder)


def start(bench, **options):
    return cosim.Cosim(bench, BENCH, **options)


def act(sent, count):
    return Act(name="pass", inputs={"i": sent}, counts={"o": count})


def payloads(numbers):
    return np.array([[n & 0xFFFFFFFF, n >> 32] for n in numbers], np.uint32)


@pytest.mark.parametrize("pauses", [0, 8])
def test_each_request_is_answered(bench, pauses):
    with start(bench, seed=3, pauses=pauses) as process:
        for numbers in ([1, 2**39 + 5, 7], [3], [], range(200)):
            sent = payloads(numbers).reshape(-1, 2)
            result = process.run(act(sent, len(sent)))
            assert np.array_equal(result.payloads["o"], sent)
            assert result.cycles >= len(sent)
            if not pauses:
                assert result.cycles <= len(sent) + 1


def test_stored_payloads_are_sent_as_often_as_asked(bench):
    first, second = payloads([4, 5, 6]), payloads([2**33])
    with start(bench) as process:
        assert (process.store(first), process.store(second)) == (1, 2)
        found = process.run(act((1, 7), 7)).payloads["o"]
        assert np.array_equal(found, first[[0, 1, 2, 0, 1, 2, 0]])
        found = process.run(act((2, 2), 2)).payloads["o"]
        assert np.array_equal(found, second[[0, 0]])


def test_a_core_that_gives_less_or_more_is_a_mismatch(bench):
    few = "3: no transfer for 1,000,000 cycles, o has 1 left"
    for sent, count, message in (
        (payloads([1]), 2, few),
        (payloads([1, 2, 3]), 1, "4: o: a beat too many"),
        ((1, 1), 1, "2: no such payloads"),
    ):
        with start(bench) as process, pytest.raises(Mismatch, match=f"ended with {message}"):
            process.run(act(sent, count))
