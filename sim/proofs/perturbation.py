"""Proofs of the stream of perturbations, with each of its sources."""

from functools import partial

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, Shape, Signal
from amaranth.hdl._ast import AnyConst
from amaranth.lib import data

from seedbed.hw.generators import prng_pool
from seedbed.hw.generators.perturbation import Perturbation
from seedbed.hw.parts.gf2 import product
from seedbed.sim.proofs.bench import (
    cover,
    duplicates_equal,
    free_inputs,
    past,
    stream_rules,
    transfer,
)
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import LfsrConfig, PerturbationConfig, gf2

__all__ = ["PROOFS"]

#: Replay is proven of this many first beats.
FIRST = 3


def length(dut: Perturbation) -> Module:
    """Track the remaining count of d; check ``count`` and ``last`` of every beat against it."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    config, lanes = dut.config, dut.config.lanes
    if config.source == "lutopt":
        duplicates_equal(m, inside, r"generator\.valid_\d+", inside["generator.valid"])
    busy, remaining_total = Signal(), Signal(config.count_width)
    with m.If(transfer(dut.i)):
        m.d.sync += [busy.eq(1), remaining_total.eq(dut.i.payload.numbers)]
    with m.If(transfer(dut.o)):
        m.d.sync += remaining_total.eq(remaining_total - dut.o.payload.count)
        with m.If(dut.o.payload.last):
            m.d.sync += busy.eq(0)
    m.d.comb += Assert(dut.i.ready == ~busy)
    with m.If(dut.o.valid):
        m.d.comb += Assert(busy)
    # The beats in flight, oldest first: the pool has one more than the output.
    beats = [(dut.o.valid, dut.o.payload)]
    if config.source == "pool":
        pool = data.View(prng_pool.beat_layout(config.pool), inside["pool.beat"])
        beats.append((inside["pool.valid"], pool))
    ended = Const(0)
    remaining = remaining_total
    for valid, beat in beats:
        with m.If(valid):
            m.d.comb += [
                Assert(busy & ~ended),
                Assert(beat.count == Mux(remaining < lanes, remaining, lanes)),
                Assert(beat.last == (remaining <= lanes)),
            ]
        ended = ended | (valid & beat.last)
        remaining = Mux(valid, remaining - beat.count, remaining)[: config.count_width]
    excess = inside["excess"]
    if config.source == "pool":
        m.d.comb += Assert(inside["requesting"] == (busy & ~ended))
        m.d.comb += Assert(excess == lanes - Mux(inside["requesting"], remaining, 0))
    else:
        m.d.comb += Assert(excess == lanes - Mux(busy, remaining_total, 0))
    fired = past(m, transfer(dut.o))
    shown = transfer(dut.o) & dut.o.payload.last
    cover(m, fired & shown & (dut.o.payload.count == 1), shown & (dut.o.payload.count == 0))
    return m


def replay(dut: Perturbation) -> Module:
    """Compare the first beats of two commands with one seed, with any activity in between.

    The signs, eps and lengths of the commands may differ. Seeds are assumed not to be zero.
    """
    m, inside = free_inputs(dut)
    config = dut.config
    array, n, width = config.array, config.lanes, config.width
    seed, which = AnyConst(width), AnyConst(range(FIRST))
    m.d.comb += [Assume(seed != 0), Assume(dut.i.payload.seed != 0), Assume(which < FIRST)]
    begins = transfer(dut.i)
    same, beat, count = Signal(), Signal(range(FIRST + 1), init=FIRST), Signal(range(n))
    command = Signal(dut.i.payload.shape())
    with m.If(begins):
        m.d.sync += [
            same.eq(dut.i.payload.seed == seed),
            beat.eq(0),
            count.eq(1),
            command.eq(dut.i.payload),
        ]
    with m.Elif(count != 0):
        m.d.sync += count.eq(Mux(count == n - 1, 0, count + 1))
    with m.If(transfer(dut.o) & (beat != FIRST)):
        m.d.sync += beat.eq(beat + 1)
    # The lane that generator 0 is at.
    lane = Signal(range(n))
    with m.If(begins):
        m.d.sync += lane.eq(n - 1)
    with m.Elif(inside["array.advance"]):
        m.d.sync += lane.eq(Mux(lane == 0, n - 1, lane - 1))
    states = [inside[f"array.state_{j}"] for j in range(n)]
    scale = inside["scale.o__payload"]
    scales = Array(Const(e, scale.shape()) for e in config.scale.exponents)
    counter = LfsrConfig(width=n.bit_length())
    counts = Array(Const(gf2.apply(counter.jump(k), 1), counter.width) for k in range(n))
    busy = inside["busy"]
    m.d.comb += [
        Assert(lane < n),
        Assert(count < n),
        Assert(beat <= FIRST),
        Assert(inside["array.growing"] == (count != 0)),
        Assert(inside["array.valid"] == (count == 0)),
        Assert(inside["array.count"] == counts[count]),
        Assert(inside["array.ahead"] == product(array.lfsr.matrix, Array(states)[lane])),
    ]
    with m.If(count != 0):
        m.d.comb += [Assert(busy), Assert(lane == n - count), Assert(beat == 0)]
    with m.If(busy):
        m.d.comb += Assert(inside["eps"] == command.eps)
        m.d.comb += Assert(inside["negative"] == command.negative)
        with m.If(count != 1):
            first = product(array.lfsr.matrix, Array(states)[lane])
            m.d.comb += Assert(scale == scales[first])
        with m.If(count == 0):
            above = scales[Array(states)[lane]] - config.scale.least
            m.d.comb += Assert(inside["above"] == above)
    for done in range(1, n):
        with m.If(same & (count == done)):
            for rotations in range(done):
                steps = array.leap * rotations + (done - 1 - rotations) * (
                    array.leap + array.spacing
                )
                state = product(array.lfsr.jump(steps), seed)
                m.d.comb += Assert(states[n - 1 - rotations] == state)
    words = [
        Cat(
            product(array.lfsr.jump(array.leap * (n - 1 + t) + (j + t) % n * array.spacing), seed)
            for j in range(n)
        )
        for t in range(FIRST)
    ]
    for t in range(FIRST):
        with m.If(same & busy & (count == 0) & (beat == t)):
            m.d.comb += [Assert(Cat(states) == words[t]), Assert(lane == -t % n)]
    captured, lanes = Signal(), Cat(dut.o.payload.lanes)
    reference = Signal(len(lanes))
    reference_scale = Signal(Shape.cast(config.exponents))
    scale = Signal.like(reference_scale)
    m.d.comb += scale.eq(dut.o.payload.exponent - command.eps)
    capture = same & (beat == which) & transfer(dut.o)
    with m.If(capture & ~captured):
        m.d.sync += [captured.eq(1), reference.eq(lanes), reference_scale.eq(scale)]
    flip = Const(sum(1 << (width * j + width - 1) for j in range(n)), n * width)
    firsts = [product(array.lfsr.jump(array.leap * (n - 1 + t)), seed) for t in range(FIRST)]
    with m.If(captured):
        m.d.comb += Assert(reference == Array(words)[which] ^ flip)
        m.d.comb += Assert(reference_scale == scales[Array(firsts)[which]] - config.scale.least)
    # The property itself; the assertions above make it inductive.
    with m.If(capture & captured):
        m.d.comb += [Assert(lanes == reference), Assert(scale == reference_scale)]
    with m.If(dut.o.valid):
        m.d.comb += Assert(dut.o.payload.negative == command.negative)
    cover(m, capture & captured & command.negative & (command.eps != 0))
    return m


ARRAY_RUNS_ON = Mutant(
    "the array advances while a beat is pending",
    "words.ready.eq(~busy | self.o.ready)",
    "words.ready.eq(1)",
)
SCALE_LATE = Mutant(
    "the scale is that of the previous beat",
    "scale.i.payload.eq(product(config.array.lfsr.matrix, array.ahead))",
    "scale.i.payload.eq(array.ahead)",
)
ANY_COMMAND = Mutant(
    "commands are accepted at any time", "self.i.ready.eq(~busy)", "self.i.ready.eq(1)"
)
COMMAND_RUNS = Mutant(
    "a command that is not accepted starts",
    "start.eq(self.i.valid & ~busy)",
    "start.eq(self.i.valid)",
)
ONE_SHORT = Mutant(
    "last comes with n + 1 numbers left", "last.eq(excess >= 0)", "last.eq(excess >= -1)"
)
ONE_MORE = Mutant("last comes one beat late", "last.eq(excess >= 0)", "last.eq(excess >= 1)")
REQUESTS_ON = Mutant(
    "requests continue after the last beat", "requesting.eq(~last)", "requesting.eq(1)"
)
POOL_RUNS = Mutant(
    "the pool advances while a beat is pending",
    "pool.o.ready.eq(self.o.ready)",
    "pool.o.ready.eq(1)",
)
small = partial(PerturbationConfig, count_width=8, eps_width=2)
URNG = small(lanes=3, width=5)
POOL = small(source="pool", size=5, lanes=2, width=4, banks=2)
LUTOPT = small(source="lutopt", lanes=32, width=5)
SAYS = {
    length: (
        "A command gives exactly d numbers, the last with `last`, before the next is accepted; "
        "a valid beat is stable until its transfer."
    ),
    replay: f"The same seed gives the same first {FIRST} beats of z, for all k, eps and d.",
}

PROOFS = tuple(
    Proof(
        name=f"perturbation_{harness.__name__}_{config.source}",
        says=SAYS[harness],
        component=Perturbation,
        config=config,
        harness=harness,
        depth=2,
        # The first beat comes 22 cycles after the seed of the smallest `lutopt`.
        reach=30 if config.source == "lutopt" else 18,
        mutants=mutants,
    )
    for config, harness, mutants in [
        (URNG, length, (ONE_SHORT, ONE_MORE, ANY_COMMAND, COMMAND_RUNS, ARRAY_RUNS_ON)),
        (URNG, replay, (ARRAY_RUNS_ON, SCALE_LATE)),
        (LUTOPT, length, (ONE_SHORT, ONE_MORE, ANY_COMMAND, COMMAND_RUNS, ARRAY_RUNS_ON)),
        (POOL, length, (ONE_SHORT, ONE_MORE, REQUESTS_ON, COMMAND_RUNS, POOL_RUNS)),
    ]
)
