"""Proofs of the loss sign: the classes of passes, and the sums of batches."""

from amaranth.hdl import Assert, Assume, Module, Mux, Signal, Value, signed
from amaranth.lib import data

from seedbed.hw.loss.loss_sign import LossSign
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import LossSignConfig

__all__ = ["PROOFS"]

PHASE = data.StructLayout({"minus": 1, "terms": 1})


def _stable_input(m: Module, dut: LossSign) -> None:
    """Assume the stream rules at the input: a beat is read in more than one cycle."""
    stream = dut.i
    pending = past(m, stream.valid & ~stream.ready)
    before = past(m, stream.payload)
    with m.If(pending):
        m.d.comb += [Assume(stream.valid), Assume(Value.cast(stream.payload) == before)]


def passes(dut: LossSign) -> Module:
    """Count a pass's logits, store them, and compare them with one another."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o_classes)
    _stable_input(m, dut)
    config, beat = dut.config, dut.i.payload
    classes = config.classes
    way, stored_count, excess, closing = (
        inside[name] for name in ("way", "stored_count", "excess", "closing")
    )
    # Logits of the beats before the current one, up to one more than there are classes.
    given, minus = Signal(range(classes + 2)), Signal()
    count = Mux(beat.count > config.ways, config.ways, beat.count)
    arrived = given + way
    with m.If(transfer(dut.i)):
        m.d.sync += given.eq(Mux(given + count > classes + 1, classes + 1, given + count))
    label, exponent = Signal.like(beat.label), Signal.like(beat.exponent)
    with m.If(transfer(dut.i)):
        m.d.sync += [label.eq(beat.label), exponent.eq(beat.exponent)]
    error = (given != classes) | (label >= classes) | (exponent > config.most_exponent)
    logits = [Signal(signed(8), name=f"z_{k}") for k in range(classes)]
    for k, logit in enumerate(logits):
        with m.If(inside["store"] & (arrived == k)):
            m.d.sync += logit.eq(beat.logits.as_value().word_select(way, 8).as_signed())
    lowest, top = Value.cast(0), Value.cast(0)
    for k, logit in reversed(list(enumerate(logits))):
        greatest = stored_count > k
        for j, other in enumerate(logits):
            greatest = greatest & ((stored_count <= j) | (logit >= other))
        lowest, top = Mux(greatest, k, lowest), Mux(greatest, logit, top)
    with m.If(stored_count != 0):
        m.d.comb += [Assert(inside["best"] == lowest), Assert(inside["greatest_logit"] == top)]
    # One beat a pass: what is expected at the output.
    due = Signal(dut.o_classes.payload.shape())
    closed = inside["closed"]
    with m.If(closed):
        m.d.sync += [
            due.best.eq(inside["best"]),
            due.minus.eq(minus),
            due.error.eq(error),
            minus.eq(~minus),
            given.eq(0),
        ]
    owed = Signal(2)
    m.d.sync += owed.eq(owed + (transfer(dut.i) & beat.last) - transfer(dut.o_classes))
    m.d.comb += [
        Assert(given <= classes + 1),
        Assert(way < config.ways),
        Assert((way == 0) | past(m, dut.i.valid & ~dut.i.ready)),
        Assert((way == 0) | (past(m, beat.count) > way)),
        Assert(~closing | (way == 0)),
        Assert(stored_count == Mux(arrived > classes, classes, arrived)),
        Assert(excess == (arrived > classes)),
        Assert(inside["minus"] == minus),
        Assert(owed == closing + dut.o_classes.valid),
        Assert(~closing | (inside["label"] == label)),
        Assert(~closing | (inside["exponent"] == exponent)),
        Assert(~dut.o_classes.valid | (Value.cast(dut.o_classes.payload) == Value.cast(due))),
    ]
    cover(
        m,
        transfer(dut.o_classes) & ~due.error & (due.best == classes - 1),
        closed & (given > classes),
        closed & (given == 0),
    )
    return m


def batches(dut: LossSign) -> Module:
    """Add the differences of samples that count, with bits to spare."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    config = dut.config
    computing, finished, closing, tick = (
        inside[name] for name in ("computing", "finished", "closing", "tick")
    )
    phase = PHASE(inside["phase"])
    samples, wrong, total = (inside[n] for n in ("samples", "wrong", "total_difference"))
    most = 2 ** (config.most_log.bit_length() + config.fraction) - 1
    loss = Value.cast(inside["loss"])
    plus = Signal(len(loss))
    balance = Signal(signed(config.total_bits + 2))
    equal, left_out = Signal(init=1), Signal()
    counts = ~wrong & (samples != config.batch)
    phase_end = computing & (tick == dut.last_tick) & phase.terms
    difference = plus - loss
    with m.If(phase_end & ~phase.minus):
        m.d.sync += plus.eq(loss)
    with m.If(phase_end & phase.minus):
        m.d.sync += left_out.eq(left_out | ~counts)
        with m.If(counts):
            m.d.sync += [balance.eq(balance + difference), equal.eq(equal & (difference == 0))]
    with m.If(transfer(dut.o)):
        m.d.sync += [balance.eq(0), equal.eq(1), left_out.eq(0)]
    between = computing & phase.terms & phase.minus & counts
    m.d.comb += [
        Assert(computing + finished + closing <= 1),
        Assert(computing | (tick.all() & ~phase.terms & ~phase.minus)),
        Assert(tick.all() | (tick <= Mux(phase.terms, dut.last_tick, 3))),
        Assert(samples <= config.batch),
        Assert(total == balance + Mux(between, plus, 0)),
        Assert((balance <= samples * most) & (balance >= -samples * most)),
        Assert(~equal | (balance == 0)),
        Assert(inside["error"] == left_out),
    ]
    with m.If(dut.o.valid):
        sign = dut.o.payload.sign
        m.d.comb += [
            Assert(sign == Mux(balance < 0, -1, balance != 0)),
            Assert(~equal | (sign == 0)),
            Assert(sign != -2),
            Assert(dut.o.payload.error == left_out),
        ]
    cover(m, dut.o.valid & left_out, dut.o.valid & ~left_out & (balance == 0))
    return m


PROOFS = (
    Proof(
        name="loss_sign_passes",
        says="A pass gives one beat: the lowest index of its greatest logit, and an error exactly "
        "if it has another count of logits, a label that is no class, or too large an exponent; "
        "a valid beat is stable until its transfer.",
        component=LossSign,
        config=LossSignConfig(classes=3, ways=2, fraction=0, batch=1),
        harness=passes,
        depth=2,
        reach=10,
        mutants=(
            Mutant(
                "the last of equal logits is the class",
                "(logit > greatest_logit)",
                "(logit >= greatest_logit)",
            ),
            Mutant(
                "the greatest is not cleared between passes",
                "(stored_count == 0) | (logit > greatest_logit)",
                "(logit > greatest_logit)",
            ),
            Mutant(
                "a class is overwritten before it is taken",
                "closing & (~classes.valid | classes.ready)",
                "closing",
            ),
            Mutant("a beat of too large a count does not end", " | (way == config.ways - 1)", ""),
            Mutant("excess logits are no error", "excess.eq(excess | ~store)", "excess.eq(excess)"),
        ),
    ),
    Proof(
        name="loss_sign_batches",
        says="A batch's sign is -1, 0 or 1: that of the sum of the differences of the samples that "
        "count, which does not overflow; 0 if the losses of each are equal; a valid beat is stable "
        "until its transfer.",
        component=LossSign,
        config=LossSignConfig(classes=2, ways=1, fraction=1, batch=2),
        harness=batches,
        depth=2,
        reach=70,
        mutants=(
            Mutant(
                "samples with errors count",
                'phase_end & phase.terms & ~sample["wrong"]',
                "phase_end & phase.terms",
            ),
            Mutant("the losses are added", "Mux(minus, -loss, loss)", "loss"),
        ),
    ),
)
