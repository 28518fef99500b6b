"""Proofs of the LUT-optimised generator.

The harnesses step and shift a copy of the state by the definition, from the table of taps.
"""

from functools import reduce
from operator import xor

from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst, Initial

from seedbed.hw.generators.lutopt import Lutopt
from seedbed.sim.proofs.bench import (
    cover,
    duplicates_equal,
    free_inputs,
    past,
    stream_rules,
    transfer,
)
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import LutoptConfig
from seedbed.spec.lutopt import SEED_BITS, WARM_UP, expansion

__all__ = ["PROOFS"]


def harness_of(dut: Lutopt) -> tuple[Module, dict[str, Signal]]:
    """Return what :func:`free_inputs` does, and assert that all copies of ``valid`` are equal."""
    m, inside = free_inputs(dut)
    duplicates_equal(m, inside, r"valid_\d+", inside["valid"])
    return m, inside


def stepped(rows, state) -> Cat:
    """Return the next state, by the taps of each bit."""
    return Cat(reduce(xor, [state[tap] for tap in taps]) for taps in rows)


def shown(dut: Lutopt) -> Cat:
    """Return the words of all lanes, which are the state."""
    return Cat(dut.o.payload[lane] for lane in range(dut.config.lanes))


def frames(m: Module, dut: Lutopt) -> Signal:
    """Assume frames of exactly b beats; return how many beats of the frame came before."""
    count = Signal(range(dut.config.width))
    last = dut.i_state.payload.last
    m.d.comb += [
        Assume(last == (count == dut.config.width - 1)),
        Assert(count < dut.config.width),
    ]
    with m.If(transfer(dut.i_state)):
        m.d.sync += count.eq(Mux(last, 0, count + 1))
    with m.If(dut.o.valid):
        m.d.comb += Assert(count == 0)
    return count


def follow_seeder(m: Module, dut: Lutopt, seeder, state, begins) -> None:
    """Load ``state`` by the definition of the expansion; compare the seeder on the way."""
    config = dut.config
    expander, shifts = Signal(SEED_BITS + 1), Signal(range(WARM_UP + config.width))
    loading = Signal()
    with m.If(begins):
        m.d.sync += [expander.eq(Cat(dut.i_seed.payload, 1)), loading.eq(1), shifts.eq(0)]
    with m.If(loading):
        bits = [reduce(xor, [expander[tap] for tap in taps]) for taps in config.serial_taps]
        words = [state[k : k + config.width] for k in range(0, config.bits, config.width)]
        final = shifts == WARM_UP + config.width - 1
        m.d.sync += [
            state.eq(Cat(Cat(bit, word[:-1]) for bit, word in zip(bits, words, strict=True))),
            expander.eq(stepped(expansion(), expander)),
            shifts.eq(Mux(final, 0, shifts + 1)),
            loading.eq(~final),
        ]
    m.d.comb += [
        Assert(dut.o.valid == ~loading),
        Assert(seeder["o__valid"] == loading),
        Assert(seeder["count"] == shifts),
        Assert(shifts < WARM_UP + config.width),
    ]
    with m.If(loading):
        m.d.comb += [
            Assert(seeder["state"] == expander),
            Assert(expander.any()),
            Assert(shown(dut) == state),
        ]
    with m.Else():
        m.d.comb += Assert(shifts == 0)


def sequence(dut: Lutopt) -> Module:
    """Track the state: a load shifts it, a transfer steps it, but for the last before a load."""
    m, inside = harness_of(dut)
    config = dut.config
    state, now = Signal(config.bits), Signal(config.bits)
    reset = sum(w << (lane * config.width) for lane, w in enumerate(config.reset_state))
    m.d.comb += now.eq(Mux(Initial(), reset, state))
    m.d.sync += state.eq(now)
    beats, fire = Signal(range(4)), transfer(dut.o)
    if config.seeding == "serial":
        load, ends = dut.i_state, fire & dut.i_state.valid
    else:
        seeder = {name.removeprefix("seeder."): s for name, s in inside.items()}
        load, ends = None, transfer(dut.i_seed)
    words = [now[k : k + config.width] for k in range(0, config.bits, config.width)]
    if load is None:
        follow_seeder(m, dut, seeder, state, ends)
    else:
        bits = load.payload.bits
        with m.If(transfer(load)):
            shifted = Cat(Cat(bit, word[:-1]) for bit, word in zip(bits, words, strict=True))
            m.d.sync += state.eq(shifted)
        m.d.comb += Assert(Cat(dut.saved) == Cat(word[-1] for word in words))
    with m.If(fire & ~ends):
        m.d.sync += [state.eq(stepped(config.rows, now)), beats.eq(beats + (beats != 3))]
    with m.If(dut.o.valid | (load is not None)):
        m.d.comb += Assert(shown(dut) == now)
    loaded = Signal()
    with m.If(~dut.o.valid):
        m.d.sync += [loaded.eq(1), beats.eq(0)]
    cover(m, loaded & fire & (beats == 2) & now.any())
    return m


def never_zero(dut: Lutopt) -> Module:
    """The state is never zero while it is output, if no frame is: the step has an inverse."""
    m, _ = harness_of(dut)
    count = frames(m, dut)
    ones = Signal()
    bits = Cat(dut.i_state.payload.bits)
    so_far = (ones & (count != 0)) | bits.any()
    with m.If(transfer(dut.i_state)):
        m.d.sync += ones.eq(so_far)
        with m.If(dut.i_state.payload.last):
            m.d.comb += Assume(so_far)
    state = shown(dut)
    with m.If(dut.o.valid):
        m.d.comb += Assert(state.any())
    filled = [Cat(word[:done] for word in dut.o.payload) for done in range(dut.config.width)]
    for done in range(1, dut.config.width):
        with m.If(count == done):
            m.d.comb += Assert(filled[done].any() == ones)
    cover(m, past(m, ~dut.o.valid) & dut.o.valid & dut.o.payload[0].all())
    return m


def restore(dut: Lutopt) -> Module:
    """Save the state during a load; another load of what was saved gives the state again."""
    m, _ = harness_of(dut)
    config = dut.config
    count = frames(m, dut)
    begins = transfer(dut.i_state) & (count == 0)
    # The state at the start of the frame that is saved, and what came out during it.
    original, kept = Signal(config.bits), Signal(config.bits)
    saving, saved, restoring = Signal(), Signal(), Signal()
    words = [kept[k : k + config.width] for k in range(0, config.bits, config.width)]
    pushed = Cat(Cat(bit, word[:-1]) for bit, word in zip(dut.saved, words, strict=True))
    chosen = AnyConst(1)
    first = begins & ~saved & chosen
    with m.If(first):
        m.d.sync += [original.eq(shown(dut)), saving.eq(1)]
    with m.If(transfer(dut.i_state) & (first | saving)):
        m.d.sync += kept.eq(pushed)
        with m.If(dut.i_state.payload.last):
            m.d.sync += [saving.eq(0), saved.eq(1)]
    # In a later frame, as many beats as were what was saved.
    same = Signal()
    expected = Signal(config.lanes)
    with m.Switch(count):
        for done in range(config.width):
            with m.Case(done):
                m.d.comb += expected.eq(Cat(word[config.width - 1 - done] for word in words))
    equal = saved & (Cat(dut.i_state.payload.bits) == expected) & ((count == 0) | same)
    with m.If(transfer(dut.i_state)):
        m.d.sync += [same.eq(equal), restoring.eq(equal & dut.i_state.payload.last)]
    with m.Elif(transfer(dut.o)):
        m.d.sync += restoring.eq(0)
    with m.If(saved):
        m.d.comb += [Assert(kept == original), Assert(~saving)]
    with m.If(saving):
        m.d.comb += Assert(count != 0)
    lanes = [dut.o.payload[lane] for lane in range(config.lanes)]
    olds = [original[k : k + config.width] for k in range(0, config.bits, config.width)]
    for done in range(1, config.width):
        with m.If(count == done):
            for lane, old, word in zip(lanes, olds, words, strict=True):
                rest = config.width - done
                with m.If(saving):
                    m.d.comb += [
                        Assert(word[:done] == old[rest:]),
                        Assert(lane[done:] == old[:rest]),
                    ]
                with m.If(same):
                    m.d.comb += [Assert(saved), Assert(lane[:done] == old[rest:])]
    with m.If(restoring):
        m.d.comb += [Assert(dut.o.valid), Assert(shown(dut) == original), Assert(saved)]
    cover(m, restoring & dut.o.valid & original.any())
    return m


def stream(dut: Lutopt) -> Module:
    """Any frames: the stream rules; nothing of a state is accepted while a beat is pending."""
    m, _ = harness_of(dut)
    stream_rules(m, dut.o)
    load = dut.i_state if dut.config.seeding == "serial" else dut.i_seed
    waiting = dut.o.valid & ~dut.o.ready
    with m.If(waiting):
        m.d.comb += Assert(~load.ready)
    cover(m, waiting & load.valid, transfer(load))
    return m


WRONG_TAP = Mutant(
    "a bit taps the wrong bit",
    "_step(config.rows, [bit for state in lanes for bit in state])",
    "_step([config.rows[1], *config.rows[1:]], [bit for state in lanes for bit in state])",
)
RUNS_ON = Mutant(
    "steps while a beat is pending",
    "Mux(shows, self.o.ready & ~ends, load.valid)",
    "Mux(shows, ~ends, load.valid)",
)
STEPS_BEFORE_LOAD = Mutant(
    "steps with the transfer before a load",
    "Mux(shows, self.o.ready & ~ends, load.valid)",
    "Mux(shows, self.o.ready, load.valid)",
)
NOT_CHAINED = Mutant(
    "a load shifts towards the least significant end",
    "Cat(load.payload.bits[lane], state[:-1])",
    "Cat(state[1:], load.payload.bits[lane])",
)
SAVES_WRONG_BIT = Mutant(
    "the second bit of a lane leaves it",
    "Cat(word[-1] for word in self.o.payload)",
    "Cat(word[-2] for word in self.o.payload)",
)
LOADS_AT_ONCE = Mutant(
    "a load does not wait for the pending beat", "load.ready.eq(~valid)", "load.ready.eq(1)"
)
ENDS_AT_ONCE = Mutant(
    "a load ends the pending beat",
    "with m.If(Mux(valid, self.o.ready & ends, load.valid)):",
    "with m.If(Mux(valid, ends, load.valid)):",
)
ZERO_EXPANDER = Mutant(
    "the expanding generator starts with the word only",
    "Cat(self.i.payload, 1)",
    "Cat(self.i.payload, 0)",
)
CONFIGS = {
    "4x4": LutoptConfig(lanes=4, width=4),
    "8x5": LutoptConfig(lanes=8, width=5),
    "32x5_word": LutoptConfig(lanes=32, width=5, seeding="word"),
    "31x14": LutoptConfig(),
}
#: Proofs of the configurations.
APPLY = {
    "4x4": (sequence, never_zero, restore, stream),
    "8x5": (sequence, restore),
    "32x5_word": (sequence, stream),
    "31x14": (stream,),
}
SAYS = {
    sequence: (
        "The words are the state: a transfer steps it, by the taps of each bit, unless it is the "
        "last before a load; a load or a seed's expansion shifts it."
    ),
    never_zero: "The state is never zero if no loaded state is.",
    restore: "A state that was saved during a load is the same state when it is loaded again.",
    stream: "A valid beat is stable until its transfer, also when a state is offered.",
}
MUTANTS = {
    sequence: (WRONG_TAP, RUNS_ON, STEPS_BEFORE_LOAD, NOT_CHAINED),
    never_zero: (WRONG_TAP,),
    restore: (SAVES_WRONG_BIT, NOT_CHAINED),
    stream: (RUNS_ON, ENDS_AT_ONCE),
}


def proofs() -> tuple[Proof, ...]:
    """Return the proofs of all configurations."""
    found = []
    for size, config in CONFIGS.items():
        for harness in APPLY[size]:
            mutants = MUTANTS[harness]
            if harness is sequence:
                serial = config.seeding == "serial"
                mutants += (SAVES_WRONG_BIT,) if serial else (ZERO_EXPANDER,)
            elif harness is stream and config.seeding == "serial":
                mutants += (LOADS_AT_ONCE,)
            found.append(
                Proof(
                    name=f"lutopt_{harness.__name__}_{size}",
                    says=SAYS[harness],
                    component=Lutopt,
                    config=config,
                    harness=harness,
                    depth=2,
                    reach=2 * config.width + (10 if config.seeding == "serial" else WARM_UP + 5),
                    mutants=mutants,
                )
            )
    return tuple(found)


PROOFS = proofs()
