"""Proofs of requantization: a layer's beats, its shift, and the rounding."""

from functools import partial

from amaranth.hdl import Assert, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import data

from seedbed.hw.engine.requantize import Requantize
from seedbed.hw.parts.rounding_shifter import RoundingShifter
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import RequantizeConfig

__all__ = ["PROOFS"]

ISSUED = data.StructLayout({"valid": 1, "last": 1})


def layers(dut: Requantize) -> Module:
    """Count a layer's squares and outputs; all stored maxima are below 2^(shift + 7)."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    entries = dut.config.entries
    collecting, stored, reading, index = (
        inside[name] for name in ("collecting", "stored", "reading", "index")
    )
    first, second = (dut.flags(inside[f"flags_d{k}"]) for k in (1, 2))
    given = [ISSUED(inside[f"given_d{k}"]) for k in range(1, dut.latency - 2)]
    layer_done = transfer(dut.o) & dut.o.payload.last
    # Squares accepted, up to more than two above the entries, and outputs, of the current layer.
    squares, done = Signal(range(entries + 5)), Signal(range(entries + 1))
    square_end = transfer(dut.i) & (dut.i.payload.square_last | dut.i.payload.last)
    with m.If(square_end & (squares != entries + 4)):
        m.d.sync += squares.eq(squares + 1)
    with m.If(transfer(dut.o)):
        m.d.sync += done.eq(done + 1)
    with m.If(layer_done):
        m.d.sync += [squares.eq(0), done.eq(0)]
    in_stages = (first.valid & first.square_last) + (second.valid & second.square_last)
    arrived = squares - in_stages
    ends = [first.valid & first.last, second.valid & second.last, reading]
    ends += [beat.last for beat in given]
    passed = Const(0)
    for beat in reversed(given):
        m.d.comb += [Assert(beat.valid | ~beat.last), Assert(~(passed & beat.valid))]
        passed = passed | beat.last
    in_flight = sum((beat.valid for beat in given), Const(0))
    m.d.comb += [
        Assert(sum(ends, Const(0)) == ~collecting),
        Assert(~(first.valid & first.last) | first.square_last),
        Assert(~(second.valid & second.last) | (second.square_last & ~first.valid)),
        Assert(~(reading | passed) | ~(first.valid | second.valid)),
        Assert(reading | passed | (in_flight == 0)),
        Assert(squares <= entries + 4),
        Assert(arrived >= 0),
        Assert(stored == Mux(arrived > entries, entries, arrived)),
        Assert(inside["length_error"] == (arrived > entries)),
        Assert(Mux(reading, index < stored, index == 0)),
        Assert(done + in_flight == Mux(reading, index, Mux(passed, stored, 0))),
        Assert(~layer_done | (done + 1 == Mux(squares > entries, entries, squares))),
        Assert(~dut.o.valid | (dut.o.payload.last == (done + 1 == stored))),
    ]
    _magnitudes(m, dut, inside, first.valid, layer_done, [reading, *(b.valid for b in given)])
    cover(m, layer_done & (squares > entries), layer_done & (squares == 1))
    return m


def _magnitudes(m: Module, dut, inside, valid: Value, layer_done: Value, stages) -> None:
    """Assert that the shift is that of the peak, and that no maximum has a bit above the peak's."""
    config = dut.config
    peak, seen, shift = inside["peak"], inside["seen"], inside["shift"]
    maximum = inside["maximum_0"]
    begun = Signal()
    with m.If(valid):
        m.d.sync += begun.eq(1)
    with m.If(layer_done):
        m.d.sync += begun.eq(0)
    magnitude = (Mux(maximum < 0, -1 - maximum, maximum) >> 7)[: config.most_shift]
    bits, leading = Value.cast(0), Value.cast(0)
    for k in range(config.most_shift):
        bits, leading = Mux(peak[k], k + 1, bits), Mux(peak[k], 1 << k, leading)
    reading, *given = stages
    read = sum(given[1:], Const(0)) != 0
    first = dut.flags(inside["flags_d1"]).first
    m.d.comb += [
        Assert(~valid | begun | first),
        Assert((begun & inside["collecting"]) | valid | inside["first"]),
        Assert(inside["collecting"] | inside["first"]),
        Assert(~begun | ((magnitude & ~(peak | seen)) == 0)),
        Assert(~(reading | given[0] | read) | (seen == 0)),
        Assert(~(given[0] | read) | (inside["leading_one"] == leading)),
        Assert(~read | (shift == bits)),
    ]
    cover(m, dut.o.valid & (shift == config.most_shift), dut.o.valid & (shift == 1))


def rounding(dut: RoundingShifter) -> Module:
    """Divide and round each number by definition, and delay it."""
    m, _ = free_inputs(dut)
    config, latency = dut.config, dut.latency_of(dut.config)
    number, shift, started = Value.cast(dut.i), Signal(len(dut.shift)), Signal(range(latency + 3))
    m.d.comb += [
        number.eq(AnySeq(len(number))),
        shift.eq(AnyConst(len(shift))),
        dut.shift.eq(shift),
        dut.ce.eq(1),
        dut.relu.eq(AnySeq(1)),
    ]
    with m.If(started != latency + 2):
        m.d.sync += started.eq(started + 1)
    negative = number[-1]
    magnitude = Mux(negative, ~number, number)[: config.width]
    quotient = magnitude >> shift
    remainder = magnitude - (quotient << shift)[: config.width]
    if config.rounding == "nearest":
        up = (remainder << 1) >= (1 << shift)
        up = up & (shift != 0)
    else:
        low = shift >> 1
        probability = remainder >> low
        random = (remainder - (probability << low)) << shift[0]
        up = probability > random
    total = quotient + up
    total = Mux(total > 127, 127, total)
    expected = Mux(negative, Mux(dut.relu, 0, -total), total)
    valid = (quotient < 128) & (shift <= config.most_shift)
    for _ in range(latency):
        expected, valid = past(m, expected), past(m, valid)
    out = dut.o[0]
    m.d.comb += Assert(out != -128)
    with m.If(valid & (started >= latency + 2)):
        m.d.comb += Assert(out == expected)
    cover(
        m,
        valid & (started >= latency + 2) & (out == -127),
        valid & (started >= latency + 2) & (out == 1) & (shift == config.most_shift),
    )
    return m


narrow = partial(RequantizeConfig, ways=1, width=12, entries=2)
RANGE = Mutant("a quotient of 127 is rounded up", "(up & ~quotient.all()) ^ sign", "up ^ sign")
OPPOSITE = Mutant(
    "a negative number is its complement",
    "Mux(relu & sign, 0, flipped + up)",
    "Mux(relu & sign, 0, flipped)",
)

PROOFS = (
    Proof(
        name="requantize_layers",
        says="A layer gives a beat for each square, at most as many as there are entries, the last "
        "with `last`; no maximum has a bit above the shift's seven; a valid beat is stable until "
        "its transfer.",
        component=Requantize,
        config=RequantizeConfig(ways=1, width=10, entries=2),
        harness=layers,
        depth=2,
        reach=16,
        mutants=(
            Mutant(
                "the input is ready during the second pass",
                "self.i.ready.eq(collecting)",
                "self.i.ready.eq(1)",
            ),
            Mutant(
                "squares beyond the entries are counted",
                "stored.eq(stored + ~full)",
                "stored.eq(stored + 1)",
            ),
            Mutant(
                "a layer's last square stays open",
                "beat.square_last | beat.last",
                "beat.square_last",
            ),
            Mutant(
                "the second pass does not stall", "ce.eq(~self.o.valid | self.o.ready)", "ce.eq(1)"
            ),
            Mutant(
                "negative sums have no magnitude",
                "x[:-1] ^ x[-1].replicate(self.config.width)",
                "x[:-1] & ~x[-1].replicate(self.config.width)",
            ),
        ),
    ),
    Proof(
        name="requantize_nearest",
        says="A value is its number by 2^shift, rounded half away from zero, in -127..127, and at "
        "least 0 with ReLU.",
        component=RoundingShifter,
        config=narrow(),
        harness=rounding,
        depth=6,
        reach=10,
        mutants=(RANGE, OPPOSITE),
    ),
    Proof(
        name="requantize_stochastic",
        says="A value is its number by 2^shift, rounded by its own low bits, in -127..127, and at "
        "least 0 with ReLU.",
        component=RoundingShifter,
        config=narrow(rounding="pseudo-stochastic"),
        harness=rounding,
        depth=7,
        reach=11,
        mutants=(
            RANGE,
            Mutant(
                "equal numbers round up",
                "(fixed[:guard] & mask) > random",
                "(fixed[:guard] & mask) >= random",
            ),
            Mutant(
                "the random number counts as probability",
                "(fixed[:guard] & mask) > random",
                "fixed[:guard] > random",
            ),
        ),
    ),
)
