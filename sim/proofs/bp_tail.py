"""Proofs of the tail's backpropagation: the walk over rows, and the updates."""

from amaranth.hdl import Assert, Assume, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from seedbed.hw.tail.row_walk import RowWalk
from seedbed.hw.tail.tail_update import LATENCY, SETTLING, TailUpdate
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import BpTailConfig

__all__ = ["PROOFS"]

#: The states of the updates' control, in the order in which they are named.
IDLE, LOAD, WALK, SETTLE, FLUSH = range(5)


#: Of the first layer and of the last one: its first word and its first output.
WORD_BASES, OUTPUT_BASES = (0, 3), (5, 0)


def rows(dut: RowWalk) -> Module:
    """Count groups, rows, ways and words, and compute what they ask for."""
    m, inside = free_inputs(dut)
    config, layers = dut.config, dut.config.layers
    layer = Signal()
    m.d.comb += [
        layer.eq(AnyConst(1)),
        dut.layer.eq(layer),
        dut.load.eq(AnySeq(1)),
        dut.advance.eq(AnySeq(1)),
    ]
    row_words = config.row_lanes // config.lanes

    def of_layer(values) -> Value:
        return Mux(layer, *reversed([Const(value, 8) for value in values]))

    word, way, row, group = counters = [Signal(3, name=f"counter_{k}") for k in range(4)]
    limits = [
        Const(row_words, 3),
        Const(config.ways, 3),
        of_layer(each.group_rows for each in layers),
        of_layer(each.groups for each in layers),
    ]
    walking, number = Signal(), Signal(8)
    inputs, output = row * row_words + word, group * config.ways + way
    padding = (inputs >= of_layer(each.words for each in layers)) | (
        output >= of_layer(each.outputs for each in layers)
    )
    carry: Value = dut.advance
    for counter, limit in zip(counters, limits, strict=True):
        with m.If(carry):
            m.d.sync += counter.eq(Mux(counter == limit - 1, 0, counter + 1))
        carry = carry & (counter == limit - 1)
    with m.If(dut.advance):
        m.d.sync += number.eq(number + ~padding)
    with m.If(carry):
        m.d.sync += walking.eq(0)
    first = layers[0].outputs * layers[0].words
    with m.If(dut.load):
        m.d.sync += [walking.eq(1), number.eq(Mux(layer, first, 0))]
        m.d.sync += [counter.eq(0) for counter in counters]
    lasts = [counter == limit - 1 for counter, limit in zip(counters, limits, strict=True)]
    with m.If(walking):
        m.d.comb += [
            Assert(dut.word == of_layer(WORD_BASES) + inputs),
            Assert(dut.output == of_layer(OUTPUT_BASES) + output),
            Assert(dut.address == number[: len(dut.address)]),
            Assert(dut.padding == padding),
            Assert(dut.partial == (inputs + 1 == of_layer(each.words for each in layers))),
            Assert(dut.last == (lasts[0] & lasts[1] & lasts[2] & lasts[3])),
            # What an induction has to know.
            *(
                Assert(inside[f"nest.left_{k}"] + counter + 1 == limit)
                for k, (counter, limit) in enumerate(zip(counters, limits, strict=True))
            ),
        ]
    cover(m, walking & dut.last & layer, walking & ~dut.padding & (group != 0) & (row != 0))
    return m


def updates(dut: TailUpdate) -> Module:
    """Count words and pairs of layers of any length, and the responses to a command."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    pairs = dut.config.lanes // 2
    at, given, limit = Signal(2), Signal(5), Signal(7)
    words = [Signal(2, name=f"words_{k}") for k in range(2)]
    m.d.comb += [each.eq(AnyConst(2)) for each in words]
    m.d.comb += [Assume(each != 0) for each in words]
    count = Mux(dut.layer, words[1], words[0])
    m.d.comb += [
        *(Value.cast(each).eq(AnySeq(len(Value.cast(each)))) for each in
          (dut.start, dut.update_bits, dut.errors, dut.empty, dut.padding, dut.gradients)),
        dut.last.eq(at == count - 1),
    ]  # fmt: skip
    with m.If(dut.load):
        m.d.sync += at.eq(0)
    with m.Elif(dut.advance):
        m.d.sync += at.eq(at + 1)
    with m.If(dut.start & ~dut.busy):
        m.d.sync += [given.eq(0), limit.eq((1 << dut.update_bits) - 1)]
    with m.If(transfer(dut.o)):
        m.d.sync += given.eq(given + 1)
    total = (words[0] + words[1]) * pairs
    state, rounding, pair = inside["fsm_state"], inside["rounding"], inside["pair"]
    stages = [inside[f"valid_d{k}"] for k in range(1, LATENCY)] + [dut.o.valid]
    ends = [inside[f"ends_d{k}"] for k in range(1, LATENCY)] + [dut.o.payload.last]
    in_flight = sum(stages, Const(0))
    before = Mux(dut.layer, words[0] * pairs, 0)
    walked = Mux(rounding & (state == WALK), before + at * pairs + pair, before)
    m.d.comb += [
        Assert(dut.busy == (state != IDLE)),
        Assert(state <= FLUSH),
        Assert(Mux(state == WALK, (at < count) & (pair < pairs), pair == 0)),
        Assert(Mux(state == SETTLE, inside["count"] < SETTLING, inside["count"] == 0)),
        Assert(~rounding | (state == LOAD) | (state == WALK)),
    ]
    with m.If(dut.busy):
        walked = Mux(state == FLUSH, total, walked)
        m.d.comb += [
            Assert(given + in_flight == walked),
            Assert(limit == (1 << inside["bits"]) - 1),
        ]
    with m.Else():
        m.d.comb += Assert(in_flight == 0)
    later = Const(0)
    for valid, last in reversed(list(zip(stages, ends, strict=True))):
        with m.If(valid):
            m.d.comb += Assert(last == (given + later + 1 == total))
        later = later + valid
    with m.If(dut.o.valid):
        for value in dut.o.payload.values:
            m.d.comb += [Assert(value <= limit), Assert(value >= -limit)]
    with m.If(past(m, dut.o.valid & dut.o.payload.last & dut.o.ready)):
        # The response is complete.
        m.d.comb += Assert(given == total)
    ended = transfer(dut.o) & dut.o.payload.last
    value = dut.o.payload.values[0]
    cover(
        m, ended & (words[0] == 2) & (words[1] == 1), dut.o.valid & (value == -limit) & (limit > 1)
    )
    return m


PROOFS = (
    Proof(
        name="bp_tail_rows",
        says="A walk over a layer has each of its words once, row by row and way by way, each with "
        "its own accumulators; what rows have more is padding.",
        component=RowWalk,
        config=BpTailConfig(inputs=(9, 3), classes=5, ways=2, row_lanes=8),
        harness=rows,
        reach=16,
        mutants=(
            Mutant("padding has accumulators", "self.advance & ~self.padding", "self.advance"),
            Mutant(
                "the next group begins where the one before ended",
                "[0, 1, 1 - config.ways, 1]",
                "[0, 1, 1, 1]",
            ),
        ),
    ),
    Proof(
        name="bp_tail_updates",
        says="A command gives each pair of the rows of all layers once, the last with `last`, "
        "under any stall; an update has as many bits as the command says, and a valid beat is "
        "stable until its transfer.",
        component=TailUpdate,
        config=BpTailConfig(inputs=(1, 1), classes=4, batch=1, exponent_range=0),
        harness=updates,
        depth=2,
        reach=34,
        mutants=(
            Mutant(
                "rounding up exceeds the limit", "Mux(rounded > limit, limit, rounded)", "rounded"
            ),
            Mutant(
                "the walk does not stall",
                "self.advance.eq(ce & word_ends)",
                "self.advance.eq(word_ends)",
            ),
            Mutant(
                "each layer ends the response", "ends.eq(layer_ends & final)", "ends.eq(layer_ends)"
            ),
        ),
    ),
)
