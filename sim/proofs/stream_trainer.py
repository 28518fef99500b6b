"""Proofs of the trainer of programs: what a training adds to values, and what a sample is."""

from amaranth.hdl import Assert, Assume, Module, Signal, signed

from seedbed.hw.kept.sample_reader import SampleReader
from seedbed.hw.kept.stream_trainer_layouts import CHANGE_BITS
from seedbed.hw.kept.training_steps import TrainingSteps
from seedbed.sim.proofs.bench import cover, free, free_inputs, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.stream_engine import STREAM_ENGINE_KINDS
from seedbed.spec.stream_trainer import STREAM_TRAINER_KINDS, StreamTrainerConfig

__all__ = ["PROOFS"]

SMALL = StreamTrainerConfig(
    lanes=2, products=2, beat_bits=128, store=16, cache=16, records=4, block=1, context=5,
    columns=8, address_bits=8, burst=4, timeout_cycles=16, drain_cycles=8, kept=4, tune=1,
    classes=2, sample=4, batch=2, inputs=True,
)  # fmt: skip
_TUNE, _RUN = (STREAM_ENGINE_KINDS.index(name) for name in ("tune", "run"))
_TRAIN = STREAM_TRAINER_KINDS.index("train")
#: In the order in which the machine names them.
_STATES = (
    "IDLE", "CALL", "STATUS", "BATCH", "ANSWER", "NEXT", "DIFFERENCE", "STEP", "FETCH", "GAIN",
    "LOG",
)  # fmt: skip
_PHASES = ("given", "plus", "minus", "change", "restore")


def steps(dut: TrainingSteps) -> Module:
    """Add up what the engine was asked to add to values, and count the samples of both passes."""
    m, inside = free_inputs(dut)
    free(m, dut.beats, dut.fetched, dut.failed, dut.settled, dut.stuck)
    free(m, dut.differentiated, dut.gain)
    state, phase, runs = inside["fsm_state"], inside["phase"], inside["runs"]
    in_ = {name: state == k for k, name in enumerate(_STATES)}
    of = {name: phase == k for k, name in enumerate(_PHASES)}
    job, call = dut.job, dut.o_call.payload
    trains = (job.kind == _TRAIN) & ~in_["IDLE"]
    # What has been added to the values, but for the changes in the log.
    net, delta = Signal(signed(CHANGE_BITS + 2)), Signal(signed(CHANGE_BITS))
    waits, broken, tunes = Signal(), Signal(), Signal()
    counts = [Signal.like(job.batch, name=name) for name in ("up", "down")]
    up, down = counts
    m.d.comb += [
        Assume(~(dut.fetched | dut.failed) | dut.fetching),
        Assume(~(dut.fetched & dut.failed)),
        Assume(~dut.i_done.valid | waits),
        Assume(~dut.fetched | in_["FETCH"]),
    ]
    ends = transfer(dut.i_done)
    good = dut.i_done.payload.status == 0
    begins = transfer(dut.i) & in_["IDLE"] & (dut.i.payload.kind == _TRAIN)
    with m.If(begins):
        m.d.sync += [net.eq(0), broken.eq(0)]
    with m.If(transfer(dut.o_call)):
        m.d.sync += [waits.eq(1), delta.eq(call.delta), tunes.eq(call.kind == _TUNE)]
        with m.If(trains):
            m.d.comb += [
                Assert((call.kind == _TUNE) | (call.kind == _RUN)),
                Assert((call.first == job.first) & (call.end == job.end)),
            ]
    with m.If(ends):
        m.d.sync += waits.eq(0)
        with m.If(tunes & good):
            m.d.sync += net.eq(net + delta)
            with m.If(of["plus"]):
                m.d.sync += [up.eq(0), down.eq(0)]
        with m.If(tunes & ~good & trains):
            m.d.sync += broken.eq(1)
        with m.If(~tunes & good & of["plus"]):
            m.d.sync += up.eq(up + 1)
        with m.If(~tunes & good & of["minus"]):
            m.d.sync += down.eq(down + 1)
    # The memory takes no command.
    with m.If(in_["FETCH"] & inside["lost"] & dut.stuck & ~dut.settled):
        m.d.sync += broken.eq(1)
    with m.If(transfer(dut.o_log)):
        m.d.sync += net.eq(net + dut.o_log.payload.change)
        # Both passes are of the same samples.
        m.d.comb += Assert((up == down) & (up != 0))
    m.d.comb += [
        Assert(~(dut.o_status.valid & (job.kind == _TRAIN)) | broken | (net == 0)),
        # While a training runs, no other command is taken, but for an abort.
        Assert(~(trains & transfer(dut.i)) | (dut.i.payload.kind == len(STREAM_TRAINER_KINDS) - 1)),
    ]
    for out in (dut.o_call, dut.o_log, dut.o_status):
        stream_rules(m, out)
    _known(m, dut, inside, in_, of, runs, net, delta, waits, tunes, broken, up, down)
    cover(m, dut.o_status.valid & (dut.o_status.payload.steps == 1) & (up == 1))
    return m


def _known(m, dut, inside, in_, of, runs, net, delta, waits, tunes, broken, up, down) -> None:
    """Assert what an induction has to know."""
    job, eps = dut.job, dut.job.delta
    size, left = inside["size"], inside["left"]
    change, own = inside["change"], inside["delta"]
    asks = in_["CALL"] | in_["ANSWER"]
    train, rest = job.kind == _TRAIN, inside["rest"]
    busy = ~(in_["IDLE"] | in_["STATUS"]) & train
    passes = (asks & runs) | in_["NEXT"] | in_["FETCH"]
    half = 1 << (CHANGE_BITS - 1)
    m.d.comb += [
        Assert(inside["fsm_state"] < len(_STATES)),
        Assert(inside["phase"] < len(_PHASES)),
        Assert(waits == in_["ANSWER"]),
        Assert(in_["IDLE"] | in_["STATUS"] | ~of["given"] | ~train | in_["BATCH"]),
        Assert(of["given"] | train),
        Assert(~runs | ~asks | of["plus"] | of["minus"]),
        Assert(~waits | (tunes == ~runs) | of["given"]),
        Assert(~waits | of["given"] | runs | (delta == own)),
        Assert(~(passes | in_["DIFFERENCE"]) | of["plus"] | of["minus"]),
        Assert(~(in_["DIFFERENCE"] | in_["GAIN"] | in_["LOG"]) | of["minus"]),
        Assert(~in_["STEP"] | of["change"]),
        Assert(~busy | ((eps > 0) & (eps <= half // 2) & (eps + job.most < half))),
        Assert(~busy | ((rest != 0) & (job.samples != 0) & (job.batch != 0))),
        Assert(~busy | in_["BATCH"] | ((size != 0) & (size <= rest))),
        Assert(~passes | (left != 0)),
        Assert(~(asks & ~runs & of["plus"]) | (own == eps)),
        Assert(~(asks & ~runs & of["minus"]) | (own == -2 * eps)),
        Assert(~(asks & of["change"]) | (own == eps - change)),
        Assert(~(in_["LOG"] | of["change"]) | ((change <= job.most) & (change >= -job.most))),
    ]  # fmt: skip
    nets = (
        (in_["BATCH"] | in_["STEP"] | (asks & ~runs & of["plus"]), 0),
        (passes & of["plus"], eps),
        (asks & ~runs & of["minus"], eps),
        (passes & of["minus"], -eps),
        (in_["DIFFERENCE"] | in_["GAIN"] | in_["LOG"], -eps),
        (asks & of["change"], change - eps),
        (asks & of["restore"], -own),
    )
    for when, value in nets:
        m.d.comb += Assert(~(when & train) | broken | (net == value))
    m.d.comb += [
        Assert(~(passes & of["plus"]) | ((up + left == size) & (down == 0))),
        Assert(~(passes & of["minus"]) | ((down + left == size) & (up == size))),
        Assert(~(asks & ~runs & of["minus"]) | ((up == size) & (down == 0))),
        Assert(~(in_["DIFFERENCE"] | in_["GAIN"] | in_["LOG"]) | ((up == size) & (down == size))),
    ]


def sample(dut: SampleReader) -> Module:
    """Count the tokens and the beats of vectors of samples that hold any words."""
    m, inside = free_inputs(dut)
    config = dut.config
    free(m, dut.start, dut.address, dut.head, dut.vectors, dut.give)
    tokens, vectors = dut.o_tokens, dut.o_vectors
    state, head, left = inside["fsm_state"], inside["head"], inside["vectors_left"]
    index = inside["index"]
    # A sample is given once it has been read, and its sizes stay.
    busy = Signal()
    count, size = Signal(len(dut.head) + config.words.bit_length()), Signal.like(dut.head)
    given, wanted = Signal.like(dut.vectors), Signal.like(dut.vectors)
    # Beats of memory that have been used.
    used = Signal.like(dut.head)
    ended = Signal()
    m.d.comb += [
        Assume(~(dut.give | dut.start) | ~busy),
        Assume(~dut.give | ((dut.head != 0) & (dut.vectors != 0))),
        Assume(~busy | ((dut.vectors == wanted) & (dut.head == size))),
    ]
    with m.If(dut.give):
        m.d.sync += [
            busy.eq(1), count.eq(0), given.eq(0), used.eq(0), ended.eq(0), size.eq(dut.head),
            wanted.eq(dut.vectors),
        ]  # fmt: skip
    with m.If(inside["drop"]):
        m.d.sync += used.eq(used + 1)
    with m.If(transfer(tokens)):
        m.d.comb += [Assert(busy & ~ended), Assert(count < size * config.words)]
        m.d.sync += [count.eq(count + 1), ended.eq(tokens.payload.last)]
        m.d.comb += Assert(tokens.payload.last | (count + 1 < size * config.words))
    with m.If(transfer(vectors)):
        m.d.comb += [
            Assert(busy & ended), Assert(vectors.payload.last == (given + 1 == wanted)),
        ]  # fmt: skip
        with m.If(given == 0):
            # They begin in a beat of their own.
            m.d.comb += Assert((used == size) & (inside["vector_place"] == 0))
        m.d.sync += given.eq(given + 1)
        with m.If(vectors.payload.last):
            m.d.sync += busy.eq(0)
    m.d.comb += [
        # What an induction has to know.
        Assert(state < 4),
        Assert(busy == (state != 0)),
        Assert(~busy | (ended == (state > 1))),
        Assert(~busy | ((size != 0) & (wanted != 0))),
        Assert((state != 1) | ((head != 0) & (head <= size))),
        Assert((state != 1) | (count == (size - head) * config.words + index)),
        Assert((state != 2) | (head < size)),
        Assert((state != 3) | ((left != 0) & (given + left == wanted))),
        Assert((state == 3) | ~busy | (given == 0)),
        Assert((state == 0) | (state == 3) | (used + head == size)),
        Assert((state != 3) | (given != 0) | ((used == size) & (inside["vector_place"] == 0))),
    ]
    cover(m, transfer(vectors) & vectors.payload.last & (count == 2))
    return m


PROOFS = (
    Proof(
        name="stream_trainer_steps",
        says="Both passes of a step are of the same samples, and what has been added to values "
        "when a training ends is minus the changes in its log, times their signs, however it ends: "
        "unless weights could not be changed, or the memory takes no command; no other command "
        "than an abort is taken meanwhile, and a valid beat is stable until its transfer.",
        component=TrainingSteps,
        config=SMALL,
        harness=steps,
        depth=2,
        reach=40,
        mutants=(
            Mutant(
                "what the first pass added stays after an error",
                "Mux(plus, -self.job.delta, self.job.delta)", "self.job.delta",
            ),
            Mutant(
                "the second pass has a sample more",
                "self._left.eq(self._size)", "self._left.eq(self._size + ~self.silent)",
            ),
            Mutant("the change has the other sign", "job.delta - change", "job.delta + change"),
        ),
    ),
    Proof(
        name="stream_trainer_sample",
        says="Of a sample, tokens are given up to the first that is marked, or the last of its "
        "head, then as many beats of vectors as it has, the last one marked.",
        component=SampleReader,
        config=SMALL,
        harness=sample,
        depth=2,
        reach=20,
        mutants=(
            Mutant(
                "a head without a mark does not end",
                "word.last | ((head == 1) & (index == config.words - 1))", "word.last",
            ),
            Mutant(
                "the rest of a head is taken for vectors", "with m.If(head == 0):", "with m.If(1):"
            ),
        ),
    ),
)  # fmt: skip
