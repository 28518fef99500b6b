"""Proofs of the single LFSR."""

from amaranth.hdl import Assert, Assume, Const, Module, Signal
from amaranth.hdl._ast import Initial

from seedbed.hw.lfsr import Lfsr
from seedbed.sim.proofs.bench import around, happens, past, serial_step, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import LfsrConfig

__all__ = ["PROOFS"]


def never_zero(dut: Lfsr) -> Module:
    """Under the loader's contract that no seed is zero."""
    m, _ = around(dut)
    with m.If(dut.i_seed.valid):
        m.d.comb += Assume(dut.i_seed.payload != 0)
    m.d.comb += Assert(dut.o.payload != 0)
    happens(m, past(m, transfer(dut.i_seed)) & dut.o.payload.all())
    return m


def words(dut: Lfsr) -> Module:
    """Every word against one that is stepped bit by bit; any seed, zero included."""
    m, _ = around(dut)
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
    happens(m, past(m, loaded & transfer(dut.o)) & transfer(dut.o))
    return m


def stream(dut: Lfsr) -> Module:
    """The stream rules, and that valid does not wait for ready."""
    m, _ = around(dut)
    stream_rules(m, dut.o)
    m.d.comb += Assert(dut.o.valid)
    happens(m, dut.i_seed.valid & ~dut.o.ready)
    return m


SINGULAR = Mutant(
    name="a singular step",
    old="product(config.matrix, state)",
    new="product((*config.matrix[:-1], config.matrix[0]), state)",
)
RUNS_ON = Mutant(
    name="steps while the word waits", old="with m.If(self.o.ready):", new="with m.If(1):"
)
SEED_SHOWN = Mutant(
    name="the seed is output itself",
    old="word.eq(product(config.matrix, state))",
    new="word.eq(Mux(self.i_seed.valid, self.i_seed.payload, product(config.matrix, word)))",
)
CONFIGS = {
    "8": LfsrConfig(),
    "14_leap_3": LfsrConfig(width=14, leap=3),
}

PROOFS = tuple(
    Proof(
        name=f"lfsr_{harness.__name__}_{size}",
        core="lfsr",
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
            "After a seed, words are leap bit-serial steps apart, the seed left out.",
            (SINGULAR, RUNS_ON, SEED_SHOWN),
        ),
        (stream, "A word waits, unchanged, until it is taken.", (RUNS_ON,)),
    ]
)
