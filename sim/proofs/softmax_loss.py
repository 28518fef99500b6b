"""Proofs of softmax: the frames of samples, the class, and the gradient's arithmetic."""

from amaranth.hdl import Assert, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from seedbed.hw.loss.softmax_loss import SoftmaxLoss
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SoftmaxLossConfig
from seedbed.spec.fixed import Fixed

__all__ = ["PROOFS"]

READ = data.StructLayout({"valid": 1, "hit": 1, "last": 1})
GIVEN = data.StructLayout({"valid": 1, "last": 1})


def one_end(m: Module, dut: SoftmaxLoss, inside: dict[str, Signal]) -> Value:
    """Assert that exactly one stage has the end of a ``busy`` sample, and that none is after it.

    Return whether the end is still in the second pass.
    """
    flags_d1, flags_d2 = (READ(inside[name]) for name in ("flags_d1", "flags_d2"))
    first, second = (GIVEN(inside[name]) for name in ("stage_1", "stage_2"))
    ended, reading = inside["ended"], inside["reading"]
    ends = dut.o.valid & dut.o.payload.last
    ends_in_stage = [flags_d1.last, flags_d2.last, ended, reading, first.last, second.last, ends]
    in_second_pass = flags_d1.last | flags_d2.last | ended
    m.d.comb += [
        Assert(sum(ends_in_stage, Const(0)) == inside["busy"]),
        *(Assert(stage.valid | ~stage.last) for stage in (flags_d1, flags_d2, first, second)),
        Assert(dut.o.valid | ~dut.o.payload.last),
        Assert(~inside["busy"] | flags_d1.last | ~flags_d1.valid),
        Assert(~inside["busy"] | flags_d1.last | flags_d2.last | ~flags_d2.valid),
        Assert((inside["busy"] & ~in_second_pass) | ~(first.valid | second.valid | dut.o.valid)),
        Assert(~(second.last | ends) | ~first.valid),
        Assert(~ends | ~second.valid),
    ]
    return in_second_pass


def frames(dut: SoftmaxLoss) -> Module:
    """Count each sample's logits at the input and its gradients at the output."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    classes = dut.config.classes
    stored_count, read_index, count, index = (
        inside[name] for name in ("stored_count", "read_index", "count", "index")
    )
    full, busy, reading = (inside[name] for name in ("full", "busy", "reading"))
    flags, flags_d1, flags_d2 = (READ(inside[name]) for name in ("flags", "flags_d1", "flags_d2"))
    in_flight = dut.o.valid + sum(GIVEN(inside[name]).valid for name in ("stage_1", "stage_2"))
    given, expected, output_count = (Signal(range(classes + 1)) for _ in range(3))
    with m.If(transfer(dut.i) & (given != classes)):
        m.d.sync += given.eq(given + 1)
    with m.If(transfer(dut.o)):
        m.d.sync += output_count.eq(output_count + 1)
        m.d.comb += Assert(dut.o.payload.last == (output_count + 1 == expected))
    with m.If(flags.last):
        m.d.sync += [expected.eq(given), given.eq(0), output_count.eq(0)]
    in_second_pass = one_end(m, dut, inside)
    m.d.comb += [
        Assert(given == stored_count),
        Assert(stored_count <= classes),
        Assert(Mux(full, read_index < stored_count, read_index == 0)),
        Assert(Mux(reading, index < count, index == 0)),
        Assert(count + flags_d1.valid + flags_d2.valid == Mux(busy, expected, read_index)),
    ]
    with m.If(busy):
        m.d.comb += [
            Assert(read_index == 0),
            Assert(expected != 0),
            Assert(output_count + in_flight == Mux(in_second_pass, 0, Mux(reading, index, count))),
        ]
    cover(
        m,
        transfer(dut.o) & dut.o.payload.last & (expected == classes) & full,
        transfer(dut.o) & dut.o.payload.last & (expected == 1),
        transfer(dut.i) & (given == classes) & busy,
    )
    return m


def best(dut: SoftmaxLoss) -> Module:
    """Store all logits of the current sample, and compare them with one another."""
    m, inside = free_inputs(dut)
    classes = dut.config.classes
    flags, stored_count = READ(inside["flags"]), inside["stored_count"]
    logits = [Signal(signed(dut.config.logits.width), name=f"z_{k}") for k in range(classes)]
    given, due = Signal(range(classes + 1)), Signal(range(classes))
    for k, logit in enumerate(logits):
        with m.If(transfer(dut.i) & (given == k)):
            m.d.sync += [logit.eq(dut.i.payload.logit), given.eq(k + 1)]
    lowest, top = Value.cast(0), Value.cast(0)
    for k, logit in reversed(list(enumerate(logits))):
        greatest = given > k
        for j, other in enumerate(logits):
            greatest = greatest & ((given <= j) | (logit >= other))
        lowest, top = Mux(greatest, k, lowest), Mux(greatest, logit, top)
    with m.If(given != 0):
        m.d.comb += [Assert(inside["best"] == lowest), Assert(inside["greatest"] == top)]
    with m.If(flags.last):
        m.d.sync += [due.eq(lowest), given.eq(0)]
    m.d.comb += [
        Assert(given == stored_count),
        Assert(given <= classes),
        Assert(Mux(inside["full"], inside["read_index"] < stored_count, inside["read_index"] == 0)),
        Assert(dut.o.payload.best == due),
    ]
    cover(m, dut.o.valid & (due == classes - 1), dut.o.valid & (due == 1))
    return m


def gradients(dut: SoftmaxLoss) -> Module:
    """Compute each gradient from its product and the sum, by definition."""
    m, inside = free_inputs(dut)
    config, bits = dut.config, dut.config.probability_bits
    total, reading, enable = inside["total"], inside["reading"], inside["enable"]
    first, second = GIVEN(inside["stage_1"]), GIVEN(inside["stage_2"])
    least, *others = config.floors
    one_hot, divided = Value.cast(1), inside["product"] >> least
    for k, n in enumerate(others, 1):
        one_hot = Mux(total >= 1 << n, 1 << k, one_hot)
        divided = Mux(total >= 1 << n, inside["product"] >> n, divided)
    dropped_bits = bits - config.gradients.fraction
    probability = Mux(divided >= 1 << bits, (1 << bits) - 1, divided)
    difference = probability - (inside["hit"] << bits) + (1 << dropped_bits >> 1)
    gradient, valid = past(m, difference >> dropped_bits), past(m, enable & second.valid)
    one_end(m, dut, inside)
    m.d.comb += Assert(~(reading | first.valid | second.valid) | (inside["one_hot_d1"] == one_hot))
    with m.If(valid):
        m.d.comb += Assert(dut.o.payload.gradient == gradient)
    cover(
        m,
        valid & (gradient < 0) & (total >= 1 << others[-1]),
        valid & past(m, divided >= 1 << bits),
    )
    return m


TINY = SoftmaxLossConfig(
    classes=3,
    logits=Fixed(5, 1),
    gradients=Fixed(5, 3),
    probability_bits=8,
    exp_bits=6,
    exp_fraction=1,
    index_bits=4,
)

PROOFS = tuple(
    Proof(
        name=f"softmax_loss_{harness.__name__}",
        says=says,
        component=SoftmaxLoss,
        config=TINY,
        harness=harness,
        depth=depth,
        reach=reach,
        mutants=mutants,
    )
    for harness, depth, reach, says, mutants in [
        (
            frames,
            6,
            16,
            "A sample gives a gradient for each of its logits, at most `classes`, the last with "
            "`last`; a valid beat is stable until its transfer.",
            (
                Mutant(
                    "logits after the first classes are stored",
                    "store.eq(fire & (stored_count != config.classes))",
                    "store.eq(fire)",
                ),
                Mutant(
                    "a sample's second pass begins while the previous one is busy",
                    "flags.valid.eq(full & ~busy)",
                    "flags.valid.eq(full)",
                ),
                Mutant(
                    "the third pass does not stall",
                    "enable.eq(~self.o.valid | self.o.ready)",
                    "enable.eq(1)",
                ),
            ),
        ),
        (
            best,
            1,
            14,
            "The class is the lowest index of the greatest logit.",
            (
                Mutant(
                    "the last of equal logits is the class",
                    "beat.logit > greatest",
                    "beat.logit >= greatest",
                ),
                Mutant(
                    "the greatest is not cleared between samples",
                    "(stored_count == 0) | (beat.logit > greatest)",
                    "beat.logit > greatest",
                ),
            ),
        ),
        (
            gradients,
            2,
            16,
            "A gradient is its product by 2^n, n that of the sum, at most 1 - 2^-P, less 1 at the "
            "label, rounded half up.",
            (
                Mutant(
                    "a probability of 1 wraps around",
                    "Mux(scaled[bits], (1 << bits) - 1, scaled)",
                    "scaled",
                ),
                Mutant("truncated", "gradient + half_bit", "gradient"),
                Mutant(
                    "ones after the leading one count",
                    "(total[n] | (n == min(floors))) & ~higher",
                    "(total[n] | (n == min(floors)))",
                ),
            ),
        ),
    ]
)
