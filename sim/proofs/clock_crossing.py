"""Proof of the FIFO between two clocks of the memory."""

from itertools import pairwise

from amaranth.hdl import (
    Assert,
    Cat,
    ClockDomain,
    Const,
    DomainRenamer,
    EnableInserter,
    Fragment,
    Module,
    Signal,
    Value,
)
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.hdl._mem import MemoryInstance
from amaranth.lib.fifo import AsyncFIFO

from seedbed.hw.parts.clock_crossing import ClockCrossing
from seedbed.sim.proofs.bench import cover, inside_of, past, transfer
from seedbed.sim.prove import Mutant, Proof

__all__ = ["CROSSING"]

#: Names of the clock domains: a step is an edge of one of the clocks, of both, or of none.
STEPS = "steps"


class _Skewed:
    """Synchronizers whose first register takes, bit by bit, the new value or that before it."""

    def get_ff_sync(self, synchronizer):
        m = Module()
        given = Value.cast(synchronizer.i)
        before, first, second = (Signal(len(given), name=n) for n in ("before", "first", "second"))
        newer = Signal(len(given))
        domain = synchronizer._o_domain
        m.d[STEPS] += before.eq(given)
        m.d.comb += [newer.eq(AnySeq(len(given))), Value.cast(synchronizer.o).eq(second)]
        m.d[domain] += [first.eq((given & newer) | (before & ~newer)), second.eq(first)]
        return m

    def get_async_ff_sync(self, synchronizer):
        """There is no reset."""
        m = Module()
        m.d.comb += synchronizer.o.eq(0)
        return m


def _binary(gray: Value) -> Value:
    """Return what a Gray code stands for."""
    gray = Value.cast(gray)
    return Cat((gray >> k).xor() for k in range(len(gray)))


def _memory(fragment) -> MemoryInstance:
    """Return the only memory in a fragment."""
    if isinstance(fragment, MemoryInstance):
        return fragment
    return next(filter(None, (_memory(child) for child, _, _ in fragment.subfragments)), None)


def order(dut: ClockCrossing) -> Module:
    """Track one beat; edges of both clocks come in any order."""
    m = Module()
    m.domains.sync = ClockDomain(reset_less=True)
    ticks = {dut.i_domain: Signal(name="i_tick"), dut.o_domain: Signal(name="o_tick")}
    i_tick, o_tick = ticks.values()
    inner = EnableInserter(ticks)(Fragment.get(dut, _Skewed()))
    names = dict.fromkeys((dut.o_domain, STEPS), "sync")
    fragment = Fragment.get(DomainRenamer(names)(inner), None)
    m.submodules.dut = fragment
    inside = dict(inside_of(fragment))
    for value in (i_tick, o_tick, dut.i.valid, Value.cast(dut.i.payload), dut.o.ready):
        m.d.comb += value.eq(AnySeq(len(value)))
    push, pop = i_tick & transfer(dut.i), o_tick & transfer(dut.o)
    produced, consumed = inside["fifo.produce_w_bin"], inside["fifo.consume_r_bin"]
    bits = len(produced)
    pushed, popped = Signal(bits), Signal(bits)
    m.d.sync += [pushed.eq(pushed + push), popped.eq(popped + pop)]
    m.d.comb += [
        Assert(produced == pushed),
        Assert(consumed == popped),
        Assert(inside["fifo.produce_w_gry"] == (produced ^ produced >> 1)),
        Assert(inside["fifo.consume_r_gry"] == (consumed ^ consumed >> 1)),
    ]
    # Places from the oldest one on: each domain has an older place of the other one.
    chain = {
        name: [_binary(inside[f"fifo.{name}_cdc.{part}"]) for part in ("second", "first", "before")]
        for name in ("consume", "produce")
    }
    places = [*chain["consume"], consumed, *chain["produce"], produced]
    oldest = places[0]
    distances = [(place - oldest)[:bits] for place in places]
    for near, far in pairwise(distances):
        m.d.comb += Assert(near <= far)
    m.d.comb += Assert(distances[-1] <= dut.depth)
    for now, before in ((produced, chain["produce"][2]), (consumed, chain["consume"][2])):
        m.d.comb += Assert((now - before)[:bits] <= 1)
    # A beat of the input, its place, and what memory has there.
    tracked, place = Signal(), Signal(bits)
    payload, stored = Signal.like(dut.i.payload), Signal.like(dut.i.payload)
    memory = _memory(fragment)
    memory.read_port(
        domain="comb", addr=place[:-1], data=Value.cast(stored), en=Const(1), transparent_for=()
    )
    with m.If(push & ~tracked & AnyConst(1)):
        m.d.sync += [tracked.eq(1), place.eq(produced), payload.eq(dut.i.payload)]
    is_next = tracked & (place == consumed)
    with m.If(pop & is_next):
        m.d.sync += tracked.eq(0)
    distance = (place - oldest)[:bits]
    with m.If(tracked):
        m.d.comb += [
            Assert(distances[3] <= distance),
            Assert(distance < distances[-1]),
            Assert(stored == payload),
        ]
    with m.If(is_next & dut.o.valid):
        m.d.comb += Assert(Value.cast(dut.o.payload) == Value.cast(payload))
    # A beat that is output stays: its payload is that of the tracked one all the time.
    with m.If(past(m, dut.o.valid & ~pop)):
        m.d.comb += Assert(dut.o.valid)
    cover(m, pop & is_next & (distances[-1] == dut.depth), past(m, push & pop) & ~dut.i.ready)
    return m


CROSSING = Proof(
    name="sdram_crossing",
    says="Between two clocks whose edges come in any order, with synchronizers that take any bits "
    "early or late, each beat is output once, unchanged and in order.",
    component=ClockCrossing,
    config=2,
    harness=order,
    reach=40,
    mutants=(
        Mutant(
            "the output has the input's clock", "r_domain=self.o_domain", "r_domain=self.i_domain"
        ),
        Mutant(
            "a beat is written that is not valid", "fifo.w_en.eq(self.i.valid)", "fifo.w_en.eq(1)"
        ),
        Mutant(
            "places are no Gray code",
            "produce_w_gry.eq(_gray_encode(produce_w_nxt))",
            "produce_w_gry.eq(produce_w_nxt)",
            part=AsyncFIFO,
        ),
        Mutant(
            "the output does not wait for the synchronizer",
            "r_empty.eq(consume_r_gry == produce_r_gry)",
            "r_empty.eq(consume_r_gry == produce_w_gry)",
            part=AsyncFIFO,
        ),
    ),
)
