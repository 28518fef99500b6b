"""Proofs of the table of scaling exponents."""

from amaranth.hdl import Array, Assert, Const, Module

from seedbed.hw.scale_lut import ScaleLut
from seedbed.sim.proofs.bench import around, happens, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import ScaleConfig

__all__ = ["PROOFS"]


def table(dut: ScaleLut) -> Module:
    """Every state's exponent, one cycle later, and the stream rules."""
    m, _ = around(dut)
    stream_rules(m, dut.o)
    shape = dut.o.payload.shape()
    exponents = Array(Const(exponent, shape) for exponent in dut.config.exponents)
    arrived, asked = past(m, transfer(dut.i)), past(m, dut.i.payload)
    with m.If(arrived):
        m.d.comb += [Assert(dut.o.valid), Assert(dut.o.payload == exponents[asked])]
    with m.If(past(m, transfer(dut.o)) & ~arrived):
        m.d.comb += Assert(~dut.o.valid)
    happens(m, *(transfer(dut.o) & (dut.o.payload == e) for e in set(dut.config.exponents)))
    return m


RUNS_OVER = Mutant(
    name="a state is taken over a waiting exponent",
    old="self.i.ready.eq(~valid | self.o.ready)",
    new="self.i.ready.eq(1)",
)
STAYS_VALID = Mutant(name="valid stays", old="valid.eq(self.i.valid)", new="valid.eq(1)")
NEIGHBOUR = Mutant(
    name="the neighbour's entry",
    old="Array(above)[self.i.payload]",
    new="Array(above)[self.i.payload ^ 1]",
)
OTHER_ROW = Mutant(
    name="the neighbouring row",
    old="port.addr.eq(self.i.payload)",
    new="port.addr.eq(self.i.payload ^ 1)",
)

PROOFS = tuple(
    Proof(
        name=f"scale_lut_table_{size}",
        core="scale_lut",
        says="Every state's exponent comes one cycle after it, and waits until it is taken.",
        component=ScaleLut,
        config=config,
        harness=table,
        depth=2,
        mutants=(RUNS_OVER, STAYS_VALID, wrong),
    )
    for size, config, wrong in [
        ("3x5", ScaleConfig(lanes=3, width=5), NEIGHBOUR),
        ("3x10", ScaleConfig(lanes=3, width=10), OTHER_ROW),
    ]
)
