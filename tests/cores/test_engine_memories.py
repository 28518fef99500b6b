"""Checks how the engine's memories are used: by one reader at a time, and by none that writes."""

from random import Random
from typing import ClassVar

import numpy as np
import pytest
from amaranth.hdl import Assert
from amaranth.lib import memory

from seedbed.flow.cores.registry import CORES
from seedbed.hw.adapters import layer_engine
from seedbed.hw.adapters.train_adapters import TrainAdapters
from seedbed.hw.engine import activation_store, inference_pipeline, parameter_memory
from seedbed.hw.generators.perturbation_rows import Kind
from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.read_arbiter import ReadArbiter
from seedbed.hw.zeroth_order import zo_trainer
from seedbed.hw.zeroth_order.perturb_stage import PerturbStage
from seedbed.hw.zeroth_order.zo_steps import ZoSteps
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases import zo_trainer as cases
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


def training(config, random):
    """Return a short training whose step has an update."""
    rng = np.random.default_rng(random.getrandbits(32))
    model = cases.drawn(config, rng)
    loaded = Phase(inputs={"i_parameters": cases.word_payloads(config, model.words())})
    phases = cases.training(model, rng, samples=2, batch=2, schedule=[(0, 3, 0, 7)])
    return Case(phases=[loaded, *phases, cases.read_out(model)], quiet=True)


#: Cases that are shorter than the core's own.
SHORT = {"instantft": job, "zo_trainer": training}


@pytest.mark.parametrize("name", ["conv_engine", "lora", "instantft", "zo_trainer"])
def test_what_a_read_shows_of_a_write_in_the_same_cycle_is_not_used(name, monkeypatch):
    """In a block RAM it is anything, and the memories are marked so for synthesis."""
    core = CORES[name]
    config = core.configure(core.small)
    case = SHORT.get(name, core.case)(config, Random(7))
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


class WatchedStage(PerturbStage):
    """Ends the simulation where a row comes while the generator is busy."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.sync += Assert(~self.conflict)
        return m


#: Readers of the parameter memory or of the activation store, before the steps.
READERS = {
    "conv_engine": (),
    "lora": ("factor_reads", "gradient_reads", "cache_reads"),
    "instantft": ("factor_reads", "gradient_reads", "cache_reads"),
    "zo_trainer": ("readout_reads", "update_reads"),
}


@pytest.mark.parametrize("name", READERS)
def test_one_reader_asks_at_a_time(name, monkeypatch):
    core = CORES[name]
    config = core.configure(core.small)
    case = SHORT.get(name, core.case)(config, Random(8))
    monkeypatch.setattr(Watched, "asked", set())
    monkeypatch.setattr(inference_pipeline, "ReadArbiter", Watched)
    monkeypatch.setattr(zo_trainer, "PerturbStage", WatchedStage)
    simulate(core.component(config), case)
    assert Watched.asked >= {"steps", *READERS[name]}


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


def test_a_row_that_the_generator_is_not_ready_for_ends_the_simulation(monkeypatch):
    """What the test of the readers would see."""

    class Hasty(ZoSteps):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            # An update does not wait until the generator has returned to row 0.
            command = self.o_command
            restarts = command.payload.kind == Kind.RESTART
            m.d.comb += self.update.eq(command.valid & command.ready & restarts)
            return m

    monkeypatch.setattr(zo_trainer, "PerturbStage", WatchedStage)
    monkeypatch.setattr(zo_trainer, "ZoSteps", Hasty)
    core = CORES["zo_trainer"]
    config = core.configure(core.small)
    with pytest.raises(AssertionError, match="Assertion violated"):
        simulate(core.component(config), training(config, Random(8)))


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
