"""Proofs of the table of scaling exponents."""

from amaranth.hdl import Array, Assert, Const, Module

from seedbed.hw.generators.scale_lut import ScaleLut
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import ScaleConfig

__all__ = ["PROOFS"]


def table(dut: ScaleLut) -> Module:
    """Every state's exponent, one cycle later, and the stream rules."""
    m, _ = free_inputs(dut)
    stream_rules(m, dut.o)
    shape = dut.o.payload.shape()
    exponents = Array(Const(exponent, shape) for exponent in dut.config.exponents)
    arrived, state = past(m, transfer(dut.i)), past(m, dut.i.payload)
    with m.If(arrived):
        m.d.comb += [Assert(dut.o.valid), Assert(dut.o.payload == exponents[state])]
    with m.If(past(m, transfer(dut.o)) & ~arrived):
        m.d.comb += Assert(~dut.o.valid)
    cover(m, *(transfer(dut.o) & (dut.o.payload == e) for e in set(dut.config.exponents)))
    return m


NOT_READY = Mutant(
    "a state is accepted while an exponent is pending",
    "self.i.ready.eq(~valid | self.o.ready)",
    "self.i.ready.eq(1)",
)
STUCK_VALID = Mutant("valid does not fall", "valid.eq(self.i.valid)", "valid.eq(1)")
NEIGHBOUR = Mutant(
    "the neighbour's entry", "Array(offsets)[self.i.payload]", "Array(offsets)[self.i.payload ^ 1]"
)
OTHER_ROW = Mutant(
    "the neighbouring row", "port.addr.eq(self.i.payload)", "port.addr.eq(self.i.payload ^ 1)"
)

PROOFS = tuple(
    Proof(
        name=f"scale_lut_table_{size}",
        says="Every state's exponent is valid one cycle later and stable until its transfer.",
        component=ScaleLut,
        config=config,
        harness=table,
        depth=2,
        mutants=(NOT_READY, STUCK_VALID, address_mutant),
    )
    for size, config, address_mutant in [
        ("3x5", ScaleConfig(lanes=3, width=5), NEIGHBOUR),
        ("3x10", ScaleConfig(lanes=3, width=10), OTHER_ROW),
    ]
)
