"""Proofs of softmax: what belongs to which sample, the class, and the gradient's arithmetic."""

from amaranth.hdl import Assert, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from seedbed.hw.softmax_loss import SoftmaxLoss
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SoftmaxLossConfig
from seedbed.spec.fixed import Fixed

__all__ = ["PROOFS"]

READ = data.StructLayout({"valid": 1, "hit": 1, "last": 1})
GIVEN = data.StructLayout({"valid": 1, "last": 1})


def one_end(m: Module, dut: SoftmaxLoss, inside: dict[str, Signal]) -> Value:
    """Assert that a ``busy`` sample has one mark of its end, in one stage, and nothing behind it.

    Return whether it is still in the stages that add.
    """
    looked, found = (READ(inside[name]) for name in ("looked", "found"))
    first, second = (GIVEN(inside[name]) for name in ("mark_1", "mark_2"))
    ended, gives = inside["ended"], inside["gives"]
    ends = dut.o.valid & dut.o.payload.last
    marks = [looked.last, found.last, ended, gives, first.last, second.last, ends]
    adds = looked.last | found.last | ended
    m.d.comb += [
        Assert(sum(marks, Const(0)) == inside["busy"]),
        *(Assert(stage.valid | ~stage.last) for stage in (looked, found, first, second)),
        Assert(dut.o.valid | ~dut.o.payload.last),
        Assert(~inside["busy"] | looked.last | ~looked.valid),
        Assert(~inside["busy"] | looked.last | found.last | ~found.valid),
        Assert((inside["busy"] & ~adds) | ~(first.valid | second.valid | dut.o.valid)),
        Assert(~(second.last | ends) | ~first.valid),
        Assert(~ends | ~second.valid),
    ]
    return adds


def frames(dut: SoftmaxLoss) -> Module:
    """Count each sample's logits at one port and its gradients at the other."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    classes = dut.config.classes
    taken, place, count, step = (inside[name] for name in ("taken", "place", "count", "step"))
    full, busy, gives = (inside[name] for name in ("full", "busy", "gives"))
    mark, looked, found = (READ(inside[name]) for name in ("mark", "looked", "found"))
    flying = dut.o.valid + sum(GIVEN(inside[name]).valid for name in ("mark_1", "mark_2"))
    given, owed, came = (Signal(range(classes + 1)) for _ in range(3))
    with m.If(transfer(dut.i) & (given != classes)):
        m.d.sync += given.eq(given + 1)
    with m.If(transfer(dut.o)):
        m.d.sync += came.eq(came + 1)
        m.d.comb += Assert(dut.o.payload.last == (came + 1 == owed))
    with m.If(mark.last):
        m.d.sync += [owed.eq(given), given.eq(0), came.eq(0)]
    adds = one_end(m, dut, inside)
    m.d.comb += [
        Assert(given == taken),
        Assert(taken <= classes),
        Assert(Mux(full, place < taken, place == 0)),
        Assert(Mux(gives, step < count, step == 0)),
        Assert(count + looked.valid + found.valid == Mux(busy, owed, place)),
    ]
    with m.If(busy):
        m.d.comb += [
            Assert(place == 0),
            Assert(owed != 0),
            Assert(came + flying == Mux(adds, 0, Mux(gives, step, count))),
        ]
    cover(
        m,
        transfer(dut.o) & dut.o.payload.last & (owed == classes) & full,
        transfer(dut.o) & dut.o.payload.last & (owed == 1),
        transfer(dut.i) & (given == classes) & busy,
    )
    return m


def best(dut: SoftmaxLoss) -> Module:
    """Keep all logits of the sample that is taken, and compare them with one another."""
    m, inside = free_inputs(dut)
    classes = dut.config.classes
    mark, taken = READ(inside["mark"]), inside["taken"]
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
        m.d.comb += [Assert(inside["best"] == lowest), Assert(inside["top"] == top)]
    with m.If(mark.last):
        m.d.sync += [due.eq(lowest), given.eq(0)]
    m.d.comb += [
        Assert(given == taken),
        Assert(given <= classes),
        Assert(Mux(inside["full"], inside["place"] < taken, inside["place"] == 0)),
        Assert(dut.o.payload.best == due),
    ]
    cover(m, dut.o.valid & (due == classes - 1), dut.o.valid & (due == 1))
    return m


def gradients(dut: SoftmaxLoss) -> Module:
    """Form each gradient from its product and the sum, straight from the definition."""
    m, inside = free_inputs(dut)
    config, bits = dut.config, dut.config.probability_bits
    total, gives, moves = inside["total"], inside["gives"], inside["moves"]
    first, second = GIVEN(inside["mark_1"]), GIVEN(inside["mark_2"])
    least, *others = config.floors
    ways, divided = Value.cast(1), inside["product"] >> least
    for k, n in enumerate(others, 1):
        ways = Mux(total >= 1 << n, 1 << k, ways)
        divided = Mux(total >= 1 << n, inside["product"] >> n, divided)
    behind = bits - config.gradients.fraction
    probability = Mux(divided >= 1 << bits, (1 << bits) - 1, divided)
    apart = probability - (inside["hit"] << bits) + (1 << behind >> 1)
    gradient, valid = past(m, apart >> behind), past(m, moves & second.valid)
    one_end(m, dut, inside)
    m.d.comb += Assert(~(gives | first.valid | second.valid) | (inside["ways"] == ways))
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
        core="softmax_loss",
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
            "`last`; a beat waits, unchanged, until it is taken.",
            (
                Mutant(
                    name="logits beyond the classes are stored",
                    old="stored.eq(moved & (taken != config.classes))",
                    new="stored.eq(moved)",
                ),
                Mutant(
                    name="a sample does not wait for the one before",
                    old="mark.valid.eq(full & ~busy)",
                    new="mark.valid.eq(full)",
                ),
                Mutant(
                    name="gradients move on while one waits",
                    old="moves.eq(~self.o.valid | self.o.ready)",
                    new="moves.eq(1)",
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
                    name="the last of equal logits wins",
                    old="beat.logit > top",
                    new="beat.logit >= top",
                ),
                Mutant(
                    name="a sample goes on with the greatest of the last one",
                    old="(taken == 0) | (beat.logit > top)",
                    new="beat.logit > top",
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
                    name="a probability of 1 wraps around",
                    old="Mux(scaled[bits], (1 << bits) - 1, scaled)",
                    new="scaled",
                ),
                Mutant(name="cut off", old="gradient + rounds", new="gradient"),
                Mutant(
                    name="a one behind the leading one counts",
                    old="(total[n] | (n == min(floors))) & ~above",
                    new="(total[n] | (n == min(floors)))",
                ),
            ),
        ),
    ]
)
