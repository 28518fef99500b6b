"""Proofs of the skid buffer."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst

from seedbed.hw.skid_buffer import SkidBuffer
from seedbed.sim.proofs.bench import around, copies_agree, happens, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SkidBufferConfig

__all__ = ["PROOFS"]


def beats(dut: SkidBuffer) -> Module:
    """Follow one beat, whichever it is, from its transfer at the input to that at the output."""
    m, inside = around(dut)
    write, read = inside["write"], inside["read"]
    stream_rules(m, dut.o)
    level = Signal(2)
    puts, gets = transfer(dut.i), transfer(dut.o)
    m.d.sync += level.eq(level + puts - gets)
    # Beats that are ahead of the one that is followed, and what it is.
    followed, chosen = Signal(), Signal()
    ahead = Signal(2)
    payload = Signal.like(dut.i.payload)
    m.d.comb += chosen.eq(AnyConst(1))
    begins = puts & ~followed & chosen
    with m.If(begins):
        m.d.sync += [followed.eq(1), ahead.eq(level - gets), payload.eq(dut.i.payload)]
    with m.Elif(followed & gets):
        m.d.sync += ahead.eq(ahead - 1)
        with m.If(ahead == 0):
            m.d.sync += followed.eq(0)
    with m.If(followed & (ahead == 0)):
        m.d.comb += [Assert(dut.o.valid), Assert(dut.o.payload == payload)]
    m.d.comb += [
        Assert(dut.i.ready == (level != 2)),
        Assert(dut.o.valid == (level != 0)),
        # What an induction has to know.
        Assert(level <= 2),
        Assert((write ^ read) == level[0]),
        Assert(inside["full"] == level[1]),
        Assert(~followed | (ahead < level)),
    ]
    copies_agree(m, inside, r"selects_\d+", read)
    for k in range(2):
        copies_agree(m, inside, rf"opens_{k}_\d+", ~inside["full"] & (write == k))
    entry = Mux(read ^ ahead[0], inside["entry_1_0"], inside["entry_0_0"])
    m.d.comb += Assert(~followed | (entry == payload))
    happens(m, followed & (ahead == 1) & gets, past(m, puts & gets) & puts & gets)
    return m


PROOFS = (
    Proof(
        name="skid_buffer_beats",
        core="skid_buffer",
        says="Every beat that is taken comes out once, unchanged and in order; a beat is taken "
        "whenever fewer than two are inside.",
        component=SkidBuffer,
        config=SkidBufferConfig(width=4),
        harness=beats,
        mutants=(
            Mutant(
                name="the second entry is lost",
                old="Mux(puts, valid & ~gets, full & ~gets)",
                new="Mux(puts, valid & ~gets, 0)",
            ),
            Mutant(
                name="entries are read in the wrong order",
                old="Mux(selects, entries[1], entries[0])",
                new="Mux(selects, entries[0], entries[1])",
            ),
            Mutant(name="a beat is read twice", old="read ^ gets", new="read"),
            Mutant(
                name="a full entry takes what is at the input",
                old="open_.eq(~will_be_full & (will_write == k))",
                new="open_.eq(will_write == k)",
            ),
        ),
    ),
)
