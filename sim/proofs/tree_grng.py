"""Proofs of the baseline generator."""

from amaranth.hdl import Assert, Module

from seedbed.hw.generators.tree_grng import TreeGrng
from seedbed.sim.proofs.bench import cover, free_inputs, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import TreeGrngConfig

__all__ = ["PROOFS"]


def stream(dut: TreeGrng) -> Module:
    """Any frames: the stream rules; no seed is accepted while an output beat is pending."""
    m, _ = free_inputs(dut)
    stream_rules(m, dut.o)
    waiting = dut.o.valid & ~dut.o.ready
    with m.If(waiting):
        m.d.comb += Assert(~dut.i_seeds.ready)
    cover(m, waiting & dut.i_seeds.valid, transfer(dut.o) & transfer(dut.i_seeds))
    return m


NOT_FREE = Mutant("advances without a transfer", "ready.eq(~valid | self.o.ready)", "ready.eq(1)")
SEED_ANY = Mutant(
    "seeds are accepted while an output beat is pending",
    "self.i_seeds.ready.eq(ready)",
    "self.i_seeds.ready.eq(1)",
)

PROOFS = tuple(
    Proof(
        name=f"tree_grng_stream_{tree}",
        says="A valid beat is stable until its transfer, also when a seed is offered.",
        component=TreeGrng,
        config=TreeGrngConfig(tree=tree),
        harness=stream,
        mutants=(NOT_FREE, SEED_ANY),
    )
    for tree in ("published", "compact")
)
