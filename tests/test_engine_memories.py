"""Holds the engine's memories to their word: no row is read in the cycle that writes it."""

from random import Random

import numpy as np
import pytest
from amaranth.lib import memory

from seedbed.flow.registry import CORES
from seedbed.hw import activation_store, parameter_memory
from seedbed.sim.case import Case
from seedbed.sim.cases.instantft import Session
from seedbed.sim.harness import simulate


class Through(memory.Memory):
    """Shows what is being written, where the memory's reads show what was there before."""

    reads = 0

    def __init__(self, *args, **fields):
        super().__init__(*args, **fields)
        self._write = super().write_port()

    def write_port(self):
        return self._write

    def read_port(self):
        Through.reads += 1
        return super().read_port(transparent_for=(self._write,))


def job(config, random):
    """Return a short job, of samples that are seen and of samples from the cache."""
    session = Session(config=config, rng=np.random.default_rng(random.getrandbits(32)))
    for trainable in (False, True):
        session.load(trainable=trainable)
    session.train([[0, 1], [1, 0]], batch=2, rate=config.lora.rate(0.02))
    session.order("read")
    return Case(phases=session.phases(), quiet=True)


@pytest.mark.parametrize("name", ["conv_engine", "lora", "instantft"])
def test_what_a_read_shows_of_a_write_in_the_same_cycle_is_not_used(name, monkeypatch):
    """In a block RAM it is anything, and the memories are marked so for synthesis."""
    core = CORES[name]
    config = core.configure(core.small)
    case = {"instantft": job}.get(name, core.case)(config, Random(7))
    Through.reads = 0
    for module in (activation_store, parameter_memory):
        monkeypatch.setattr(module, "Memory", Through)
    simulate(core.component(config), case)
    assert Through.reads
