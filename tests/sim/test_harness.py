"""The testbench detects each kind of error, with the stalls that reveal it."""

from dataclasses import replace
from random import Random

import pytest
from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.flow.cores.registry import CORES
from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase
from seedbed.sim.harness import Mismatch, Stalls, simulate
from seedbed.sim.split import split

CASE = Case(
    phases=[Phase(inputs={"i": list(range(20))}, outputs={"o": list(range(1, 21))})], quiet=True
)


class Increment(wiring.Component):
    """Adds one to each beat, with a register; ``fault`` injects an error."""

    def __init__(self, fault=""):
        self.fault = fault
        super().__init__({"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        full, word, beats = Signal(), Signal(8), Signal(8)
        m.d.comb += [
            self.i.ready.eq(~full | self.o.ready),
            self.o.valid.eq(full),
            self.o.payload.eq(word),
        ]
        with m.If(self.i.ready):
            m.d.sync += [full.eq(self.i.valid), word.eq(self.i.payload + 1)]
            m.d.sync += beats.eq(beats + self.i.valid)
        if self.fault == "wrong":
            m.d.comb += self.o.payload.eq(word + (beats == 7))
        if self.fault == "changes":
            with m.If(full & ~self.o.ready):
                m.d.sync += word.eq(word + 1)
        if self.fault == "falls":
            with m.If(full & ~self.o.ready & (beats > 5)):
                m.d.sync += full.eq(0)
        if self.fault == "waits":
            m.d.comb += self.o.valid.eq(full & self.o.ready)
        if self.fault == "too many":
            with m.If((beats == 20) & self.o.ready):
                m.d.sync += full.eq(1)
        if self.fault == "stops":
            with m.If(beats == 9):
                m.d.comb += [self.i.ready.eq(0), self.o.valid.eq(0)]
        if self.fault == "late":
            cycles = Signal(range(TIMEOUT_CYCLES + 101))
            with m.If(cycles < TIMEOUT_CYCLES + 100):
                m.d.sync += cycles.eq(cycles + 1)
                m.d.comb += [self.i.ready.eq(0), self.o.valid.eq(0)]
        return m


@pytest.mark.parametrize("stalls", Stalls)
def test_passes_a_correct_component(stalls):
    simulate(Increment(), CASE, stalls=stalls, seed=2)


@pytest.mark.parametrize(
    ("fault", "stalls", "sentence"),
    [
        ("wrong", Stalls.NONE, r"o, phase 0, beat 6 of the run:\n  expected 7\n  got      8"),
        ("changes", Stalls.READY, "o: the payload changed before the transfer"),
        ("falls", Stalls.READY, "o: valid fell before the transfer"),
        ("waits", Stalls.READY, "phase 0 timed out with payloads left at"),
        ("too many", Stalls.NONE, "o: a beat after the last one"),
        ("stops", Stalls.NONE, "phase 0 timed out with payloads left at"),
    ],
)
def test_detects(fault, stalls, sentence):
    with pytest.raises(Mismatch, match=sentence) as caught:
        simulate(Increment(fault), CASE, stalls=stalls, seed=2)
    assert f"stalls={stalls.value} seed=2" in str(caught.value)


def test_a_case_may_wait_longer():
    late = replace(CASE, timeout_cycles=TIMEOUT_CYCLES + 200)
    assert simulate(Increment("late"), late).cycles > TIMEOUT_CYCLES
    with pytest.raises(Mismatch, match="phase 0 timed out"):
        simulate(Increment("late"), CASE)


def test_same_seed_same_run():
    runs = [simulate(Increment(), CASE, stalls=Stalls.BOTH, seed=9).transfers for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0] != simulate(Increment(), CASE, stalls=Stalls.BOTH, seed=10).transfers


def test_waveform(tmp_path):
    simulate(Increment(), CASE, vcd=tmp_path / "run.vcd")
    assert "$enddefinitions" in (tmp_path / "run.vcd").read_text()


def test_case_survives_json():
    assert Case.from_json(CASE.to_json()) == CASE


class Asserting(wiring.Component):
    """Drives bits of a word in several statements, and asserts on it."""

    i: In(stream.Signature(4))
    o: Out(stream.Signature(4))

    def elaborate(self, platform):
        m = Module()
        word, seen = Signal(4), Signal()
        m.d.sync += seen.eq(1)
        m.d.comb += [self.i.ready.eq(self.o.ready), self.o.valid.eq(self.i.valid)]
        m.d.comb += word[:2].eq(3)
        m.d.comb += self.o.payload.eq(word)
        m.d.comb += Assert(word != 9, "nine")
        with m.If(self.i.valid):
            m.d.comb += [word[2:].eq(self.i.payload[2:]), word[:2].eq(self.i.payload)]
        return m


def test_split_statements_behave_the_same():
    def run(payloads):
        case = Case(phases=[Phase(inputs={"i": payloads}, outputs={"o": payloads})])
        return simulate(Asserting(), case, stalls=Stalls.BOTH)

    assert len(run([*range(9), *range(10, 16)]).transfers["o"]) == 15
    with pytest.raises(AssertionError, match="nine"):
        run(list(range(16)))
    design = split(Asserting())
    groups = [inner.statements["comb"] for inner, _, _ in design.subfragments]
    assert sorted(map(len, groups)) == [1, 1, 1, 2]
    assert len(design.statements["comb"]) == 1


@pytest.mark.parametrize("name", ["nf4", "perturbation", "prng_pool"])
def test_split_cores_behave_the_same(name, tmp_path):
    """Compared cycle by cycle: with a waveform, the core is not split."""
    core = CORES[name]
    config = core.configure(core.small)
    unsplit, splitted = (
        simulate(core.component(config), core.case(config, Random(2)), stalls=Stalls.BOTH, vcd=vcd)
        for vcd in (tmp_path / "whole.vcd", None)
    )
    assert unsplit == splitted
    assert unsplit.cycles > 200
