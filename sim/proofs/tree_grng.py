"""Proofs of the baseline generator."""

from amaranth.hdl import Assert, Module

from seedbed.hw.tree_grng import TreeGrng
from seedbed.sim.proofs.bench import around, happens, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import TreeGrngConfig

__all__ = ["PROOFS"]


def stream(dut: TreeGrng) -> Module:
    """Any frames whatever: the stream rules, and no seed accepted over a waiting beat."""
    m, _ = around(dut)
    stream_rules(m, dut.o)
    waiting = dut.o.valid & ~dut.o.ready
    with m.If(waiting):
        m.d.comb += Assert(~dut.i_seeds.ready)
    happens(m, waiting & dut.i_seeds.valid, transfer(dut.o) & transfer(dut.i_seeds))
    return m


NOT_FREE = Mutant(
    name="moves whether or not the beat is taken",
    old="free.eq(~valid | self.o.ready)",
    new="free.eq(1)",
)
SEED_ANY = Mutant(
    name="seeds are accepted over a waiting beat",
    old="self.i_seeds.ready.eq(free)",
    new="self.i_seeds.ready.eq(1)",
)

PROOFS = tuple(
    Proof(
        name=f"tree_grng_stream_{tree}",
        core="tree_grng",
        says="A beat waits, unchanged, until it is taken, also when a seed is offered.",
        component=TreeGrng,
        config=TreeGrngConfig(tree=tree),
        harness=stream,
        mutants=(NOT_FREE, SEED_ANY),
    )
    for tree in ("published", "compact")
)
