"""Proofs of the single LFSR."""

from amaranth.hdl import Assert, Assume, Const, Module, Signal
from amaranth.hdl._ast import Initial

from seedbed.hw.generators.lfsr import Lfsr
from seedbed.sim.proofs.bench import cover, free_inputs, past, serial_step, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import LfsrConfig

__all__ = ["PROOFS"]


def never_zero(dut: Lfsr) -> Module:
    """No word is zero, assuming that no seed is zero."""
    m, _ = free_inputs(dut)
    with m.If(dut.i_seed.valid):
        m.d.comb += Assume(dut.i_seed.payload != 0)
    m.d.comb += Assert(dut.o.payload != 0)
    cover(m, past(m, transfer(dut.i_seed)) & dut.o.payload.all())
    return m


def words(dut: Lfsr) -> Module:
    """Every word equals a bit-serial reference; for any seed, including zero."""
    m, _ = free_inputs(dut)
    config = dut.config
    expected = Signal(config.width)
    state = Signal(config.width)
    m.d.comb += state.eq(expected)
    with m.If(Initial()):
        m.d.comb += state.eq(serial_step(config, Const(config.seed, config.width), config.leap))
    m.d.sync += expected.eq(state)
    with m.If(transfer(dut.i_seed)):
        m.d.sync += expected.eq(serial_step(config, dut.i_seed.payload, config.leap))
    with m.Elif(transfer(dut.o)):
        m.d.sync += expected.eq(serial_step(config, state, config.leap))
    m.d.comb += Assert(dut.o.payload == state)
    loaded = past(m, transfer(dut.i_seed))
    cover(m, past(m, loaded & transfer(dut.o)) & transfer(dut.o))
    return m


def stream(dut: Lfsr) -> Module:
    """The stream rules; valid does not depend on ready."""
    m, _ = free_inputs(dut)
    stream_rules(m, dut.o)
    m.d.comb += Assert(dut.o.valid)
    cover(m, dut.i_seed.valid & ~dut.o.ready)
    return m


SINGULAR = Mutant(
    "a singular step",
    "product(config.matrix, state)",
    "product((*config.matrix[:-1], config.matrix[0]), state)",
)
NO_ENABLE = Mutant("steps while the word is pending", "with m.If(self.o.ready):", "with m.If(1):")
SEED_SHOWN = Mutant(
    "the seed is output itself",
    "word.eq(product(config.matrix, state))",
    "word.eq(Mux(self.i_seed.valid, self.i_seed.payload, product(config.matrix, word)))",
)
CONFIGS = {
    "8": LfsrConfig(),
    "14_leap_3": LfsrConfig(width=14, leap=3),
}

PROOFS = tuple(
    Proof(
        name=f"lfsr_{harness.__name__}_{size}",
        says=says,
        component=Lfsr,
        config=config,
        harness=harness,
        mutants=mutants,
    )
    for size, config in CONFIGS.items()
    for harness, says, mutants in [
        (never_zero, "From a seed that is not zero, no word is ever zero.", (SINGULAR,)),
        (
            words,
            "After a seed, words are leap bit-serial steps apart; the seed is not output.",
            (SINGULAR, NO_ENABLE, SEED_SHOWN),
        ),
        (stream, "A valid word is stable until its transfer.", (NO_ENABLE,)),
    ]
)
