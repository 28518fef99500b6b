"""Checks how the engine's memories are used: by one reader at a time, and by none that writes."""

from random import Random
from typing import ClassVar

import numpy as np
import pytest
from amaranth.hdl import Assert
from amaranth.lib import memory

from seedbed.flow.registry import CORES
from seedbed.hw import activation_store, inference_pipeline, layer_engine, parameter_memory
from seedbed.hw.delay_line import delayed
from seedbed.hw.read_arbiter import ReadArbiter
from seedbed.hw.train_adapters import TrainAdapters
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


class Watched(ReadArbiter):
    """Ends the simulation where two readers ask in the same cycle."""

    asked: ClassVar[set[str]] = set()

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.sync += Assert(~self.conflict)
        Watched.asked |= set(self.readers)
        return m


@pytest.mark.parametrize("name", ["conv_engine", "lora", "instantft"])
def test_one_reader_asks_at_a_time(name, monkeypatch):
    core = CORES[name]
    config = core.configure(core.small)
    case = {"instantft": job}.get(name, core.case)(config, Random(8))
    monkeypatch.setattr(Watched, "asked", set())
    monkeypatch.setattr(inference_pipeline, "ReadArbiter", Watched)
    simulate(core.component(config), case)
    readers = () if name == "conv_engine" else ("factor_reads", "gradient_reads", "cache_reads")
    assert Watched.asked >= {"steps", *readers}


def test_a_conflict_ends_the_simulation(monkeypatch):
    """What the test above would see."""

    class Eager(TrainAdapters):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            m.d.comb += self.factor_reads.request.eq(1)
            return m

    monkeypatch.setattr(inference_pipeline, "ReadArbiter", Watched)
    monkeypatch.setattr(layer_engine, "TrainAdapters", Eager)
    core = CORES["lora"]
    config = core.configure(core.small)
    with pytest.raises(AssertionError, match="Assertion violated"):
        simulate(core.component(config), core.case(config, Random(8)))


def test_accumulators_settle_in_the_cycles_that_their_parts_take(monkeypatch):
    """The trainer's latency, a sum of others, ends in the cycle after the last row is written."""

    class Checked(TrainAdapters):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            settled = delayed(m, self.settling, 1, "before", reset=True) & ~self.settling
            announced = delayed(m, self.row_write.write, 2, "announced", reset=True)
            idle = ~self.settling & ~self.updating
            m.d.sync += [Assert(~settled | announced), Assert(~idle | ~self.row_write.write)]
            return m

    monkeypatch.setattr(layer_engine, "TrainAdapters", Checked)
    core = CORES["lora"]
    config = core.configure(core.small)
    simulate(core.component(config), core.case(config, Random(8)))
