"""Proofs of the decompressor of trellis-coded weights: each is the function of its state."""

from amaranth.hdl import Assert, Cat, Const, Module, Signal, Value

from seedbed.hw.weights.trellis_decompress import TrellisDecompress
from seedbed.sim.proofs.bench import cover, free_inputs, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import TrellisDecompressConfig
from seedbed.spec.trellis import draw

__all__ = ["PROOFS"]


def fields(config: TrellisDecompressConfig, state) -> list[Value]:
    """Return the fields of a state, by the definition."""
    return [
        Cat(sum((state[p] for p in range(len(state)) if mask >> p & 1), Const(0))[0] for mask in f)
        for f in config.masks
    ]


def weights(dut: TrellisDecompress) -> Module:
    """Compare every weight with the function of its state, with any stalls.

    The states follow each other symbol by symbol, from 0 at the start of a row, and are delayed as
    the pipeline is. The invariants are about the history and the sums of two fields.
    """
    config = dut.config
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    enable = ~dut.o.valid | dut.o.ready
    state = Signal(config.state_bits)
    states, before = [], state
    for lane, symbol in enumerate(dut.i.payload.symbols):
        now = Signal(config.state_bits, name=f"state_{lane}")
        m.d.comb += now.eq(Cat(symbol, before))
        states.append(now)
        before = now
    with m.If(transfer(dut.i)):
        m.d.sync += state.eq(before)
        with m.If(dut.i.payload.last):
            m.d.sync += state.eq(0)
    m.d.comb += [
        Assert(transfer(dut.i) == (dut.i.valid & enable)),
        Assert(inside["history"] == state[: config.history]),
    ]
    valid, last = dut.i.valid, dut.i.payload.last
    for stage in range(1, dut.latency + 1):
        given = Cat(valid, last, *states)
        delayed = Signal(len(given), name=f"given_{stage}")
        with m.If(enable):
            m.d.sync += delayed.eq(given)
        valid, last = delayed[0], delayed[1]
        states = [delayed[2:].word_select(k, config.state_bits) for k in range(config.lanes)]
        m.d.comb += Assert(valid == inside[f"valid_d{stage}"])
        with m.If(valid):
            if stage < dut.latency:
                m.d.comb += Assert(last == inside[f"last_d{stage}"])
                _assert_sums(m, config, inside, states)
    m.d.comb += Assert(dut.o.valid == valid)
    most = (1 << config.field_bits) - 1
    with m.If(valid):
        m.d.comb += Assert(dut.o.payload.last == last)
        for weight, one in zip(dut.o.payload.weights, states, strict=True):
            m.d.comb += Assert(weight == sum(2 * field - most for field in fields(config, one)))
    ended = Signal()
    with m.If(transfer(dut.i) & dut.i.payload.last & (before != 0)):
        m.d.sync += ended.eq(1)
    cover(
        m, ended & ~enable & (state >> config.bits != 0), ended & transfer(dut.o) & (states[0] != 0)
    )
    return m


def _assert_sums(m: Module, config: TrellisDecompressConfig, inside, states) -> None:
    """Assert that the sums of the first stage, of a code of three fields, are those of the states.

    The sum of two fields is one more.
    """
    for lane, state in enumerate(states):
        a, b, c = fields(config, state)
        m.d.comb += [
            Assert(inside[f"sum_{lane}_0_0"] == a + b + 1),
            Assert(inside[f"sum_{lane}_0_1"] == c),
        ]


NOT_CLEARED = Mutant(
    "the bits of a row are left to the next one", "history.eq(0)", "history.eq(history)"
)
SHIFTED = Mutant(
    "the history takes bits that are not transferred", "m.If(enable & self.i.valid)", "m.If(enable)"
)
REVERSED = Mutant(
    "the symbols of a beat are reversed", "*reversed(list(beat.symbols))", "*beat.symbols"
)
NO_CARRY = Mutant("a sum is one less", "Const(not stage, 1)", "Const(0, 1)")
NOT_CENTRED = Mutant("weights are not centred", "Const(last, 1)", "Const(0, 1)")
NOT_EXTENDED = Mutant("a third field keeps its offset", "(~high)", "high")
ALL_RUNS = Mutant(
    "the pipeline is always enabled", "enable.eq(~self.o.valid | self.o.ready)", "enable.eq(1)"
)
LAST_EARLY = Mutant(
    "last is a cycle early",
    "delayed(m, beat.last, self.latency,",
    "delayed(m, beat.last, self.latency - 1,",
)


def _proof(name: str, mutants: tuple[Mutant, ...], **params) -> Proof:
    return Proof(
        name=f"trellis_decompress_{name}",
        says="Each weight is the function of the last L bits of its row, with any stalls, and of "
        "no bit of the row before; a valid beat is stable until its transfer.",
        component=TrellisDecompress,
        config=TrellisDecompressConfig(**params),
        harness=weights,
        depth=2,
        mutants=mutants,
    )


#: The default code; a history that is shorter than a beat; one of many beats and a broken symbol.
PROOFS = (
    _proof("4x12", (NOT_CLEARED, SHIFTED, NO_CARRY, NOT_CENTRED, NOT_EXTENDED, ALL_RUNS), lanes=1),
    _proof(
        "3x6",
        (NOT_CLEARED, REVERSED, LAST_EARLY),
        bits=3,
        state_bits=6,
        lanes=4,
        code=draw(6, 1, fields=3, field_bits=2),
    ),
    _proof(
        "2x9",
        (NOT_CLEARED, SHIFTED, REVERSED),
        bits=2,
        state_bits=9,
        lanes=2,
        code=draw(9, 1, fields=2, field_bits=3),
    ),
)
