"""Proofs of the skid buffer."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst

from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.sim.proofs.bench import (
    cover,
    duplicates_equal,
    free_inputs,
    past,
    stream_rules,
    transfer,
)
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SkidBufferConfig

__all__ = ["PROOFS"]


def beats(dut: SkidBuffer) -> Module:
    """Track one arbitrary beat from its transfer at the input to its transfer at the output."""
    m, inside = free_inputs(dut)
    write, read = inside["write"], inside["read"]
    stream_rules(m, dut.o)
    level = Signal(2)
    push, pop = transfer(dut.i), transfer(dut.o)
    m.d.sync += level.eq(level + push - pop)
    # How many beats are before the tracked one, and the tracked beat's payload.
    tracked, select_this = Signal(), Signal()
    before = Signal(2)
    payload = Signal.like(dut.i.payload)
    m.d.comb += select_this.eq(AnyConst(1))
    begins = push & ~tracked & select_this
    with m.If(begins):
        m.d.sync += [tracked.eq(1), before.eq(level - pop), payload.eq(dut.i.payload)]
    with m.Elif(tracked & pop):
        m.d.sync += before.eq(before - 1)
        with m.If(before == 0):
            m.d.sync += tracked.eq(0)
    with m.If(tracked & (before == 0)):
        m.d.comb += [Assert(dut.o.valid), Assert(dut.o.payload == payload)]
    m.d.comb += [
        Assert(dut.i.ready == (level != 2)),
        Assert(dut.o.valid == (level != 0)),
        # Invariants that the induction needs.
        Assert(level <= 2),
        Assert((write ^ read) == level[0]),
        Assert(inside["full"] == level[1]),
        Assert(~tracked | (before < level)),
    ]
    duplicates_equal(m, inside, r"select_\d+", read)
    for k in range(2):
        duplicates_equal(m, inside, rf"enable_{k}_\d+", ~inside["full"] & (write == k))
    entry = Mux(read ^ before[0], inside["entry_1_0"], inside["entry_0_0"])
    m.d.comb += Assert(~tracked | (entry == payload))
    cover(m, tracked & (before == 1) & pop, past(m, push & pop) & push & pop)
    return m


PROOFS = (
    Proof(
        name="skid_buffer_beats",
        says="Every accepted beat is output once, unchanged and in order; a beat is accepted "
        "whenever fewer than two are stored.",
        component=SkidBuffer,
        config=SkidBufferConfig(width=4),
        harness=beats,
        mutants=(
            Mutant(
                "the second entry is lost",
                "Mux(push, valid & ~pop, full & ~pop)",
                "Mux(push, valid & ~pop, 0)",
            ),
            Mutant(
                "entries are read in the wrong order",
                "Mux(select, entries[1], entries[0])",
                "Mux(select, entries[0], entries[1])",
            ),
            Mutant("a beat is read twice", "read ^ pop", "read"),
            Mutant(
                "a full entry loads the input",
                "enable.eq(~next_full & (next_write == k))",
                "enable.eq(next_write == k)",
            ),
        ),
    ),
)
