"""Proofs of the generator array.

The harnesses track what was loaded, by the component's docstring and the bit-serial definition of
the step, and compare the lanes with it. During a load the lanes hold partly shifted states; the
assertions on those only make the proof inductive.
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst, Initial
from amaranth.lib import data

from seedbed.hw.generators.urng_array import UrngArray
from seedbed.hw.parts.gf2 import product
from seedbed.sim.proofs.bench import cover, past, serial_step, stream_rules, transfer
from seedbed.sim.proofs.urng_array_mutants import MUTANTS, NO_REPAIR_GROWN
from seedbed.sim.proofs.urng_array_record import (
    array_harness,
    follow,
    grown,
    lanes,
    loads,
    repaired_state,
    top,
)
from seedbed.sim.prove import Proof
from seedbed.spec import UrngConfig

__all__ = ["PROOFS"]

#: Replay is proven of this many first beats.
FIRST = 4


def never_zero(dut: UrngArray) -> Module:
    """No state is zero if no seed is; with repair, for any seeds."""
    m, inside = array_harness(dut)
    config = dut.config
    width, n = config.width, config.lanes
    states = lanes(dut)
    if config.seeding == "grown":
        # No state is zero at any time, loading or not: the step has an inverse.
        taken = transfer(dut.i_seeds)
        if not config.repair:
            m.d.comb += Assume(dut.i_seeds.payload != 0)
        for state in states:
            m.d.comb += Assert(state != 0)
        cover(m, past(m, inside["growing"]) & dut.o.valid & states[0].all())
        if config.repair:
            cover(m, past(m, taken & (dut.i_seeds.payload == 0)))
        return m
    if config.repair:
        begins, _, count = loads(m, dut)
        with m.Switch(count):
            for done in range(width):
                with m.Case(done):
                    for j, state in enumerate(states):
                        filled = top(state, done).any() if done else state != 0
                        expected = inside["ones"][j] if done else 1
                        m.d.comb += Assert(filled == expected)
        with m.If(count == 0):
            m.d.comb += Assert(inside["ones"] == 0)
        zeros = Signal()
        with m.If(transfer(dut.i_seeds)):
            quiet = ~Cat(dut.i_seeds.payload.bits).any()
            m.d.sync += zeros.eq(Mux(begins, quiet, zeros & quiet))
        cover(m, zeros & dut.o.valid & past(m, dut.i_seeds.valid))
        return m
    beats = Signal(range(width + 1))
    # For the generator at each lane: how many of its latest seed bits were zero.
    quiet = [Signal(range(width + 1), name=f"quiet_{j}") for j in range(n)]
    taken, seed = transfer(dut.i_seeds), dut.i_seeds.payload
    m.d.comb += Assert(dut.o.valid == (beats == 0))
    now = []
    for j in range(n):
        before = quiet[(j + 1) % n]
        more = Mux(before == width, width, before + 1)
        now.append(Mux(seed.bits[j], 0, more))
    with m.If(taken):
        m.d.sync += beats.eq(Mux(seed.last, 0, Mux(beats == width, width, beats + 1)))
        m.d.sync += [old.eq(Mux(seed.last, 0, new)) for old, new in zip(quiet, now, strict=True)]
        with m.If(seed.last):
            m.d.comb += Assume(beats >= width - 1)
            m.d.comb += [Assume(new != width) for new in now]
    m.d.comb += Assert(beats <= width)
    for state, zeros in zip(states, quiet, strict=True):
        m.d.comb += Assert(zeros <= beats)
        with m.If(dut.o.valid):
            m.d.comb += Assert(state != 0)
        with m.Elif(zeros < beats):
            m.d.comb += Assert((state << zeros)[width - 1])
    cover(m, past(m, taken) & dut.o.valid, beats == width)
    return m


def rotation(dut: UrngArray) -> Module:
    """Track an arbitrary generator g from its seed, with bit-serial steps."""
    m, inside = array_harness(dut)
    config = dut.config
    width, n = config.width, config.lanes
    g = AnyConst(range(n))
    m.d.comb += Assume(g < n)
    begins, ends, count = loads(m, dut)
    follow(m, dut, inside, count)
    word, beat, taken = Signal(width), Signal(range(n)), transfer(dut.o)
    now = Signal(width)
    m.d.comb += now.eq(word)
    with m.If(Initial()):
        m.d.comb += now.eq(Array(Const(seed, width) for seed in config.seeds)[g])
    m.d.sync += word.eq(now)
    if config.seeding == "serial":
        home = (g + (width - 1) - count) % n
        bits = Array(dut.i_seeds.payload.bits[j] for j in range(n))
        shifted = Cat(now[1:], bits[home])
        with m.If(transfer(dut.i_seeds)):
            repaired = repaired_state(config, shifted)
            m.d.sync += word.eq(Mux(ends, repaired, shifted))
        for done in range(1, width):
            with m.If(count == done):
                lane = Array(lanes(dut))[(g + (width - done)) % n]
                m.d.comb += Assert(top(lane, done) == top(now, done))
                if config.repair:
                    ones = Array(inside["ones"])[(g + (width - done)) % n]
                    m.d.comb += Assert(ones == top(now, done).any())
        if config.repair:
            with m.If(count == 0):
                m.d.comb += Assert(inside["ones"] == 0)
    else:
        word0 = Signal(width)
        with m.If(begins):
            m.d.sync += word0.eq(repaired_state(config, dut.i_seeds.payload))
        grown(m, dut, word0, count)
        starts = [config.leap * (n - 1) + i * config.spacing for i in range(n)]
        with m.If(ends):
            m.d.sync += word.eq(Array(product(config.lfsr.jump(k), word0) for k in starts)[g])
    with m.If(ends):
        m.d.sync += beat.eq(0)
    with m.Elif(taken & ~begins):
        m.d.sync += beat.eq(Mux(beat == n - 1, 0, beat + 1))
        m.d.sync += word.eq(serial_step(config, now, config.leap))
    m.d.comb += Assert(beat < n)
    with m.If(dut.o.valid):
        m.d.comb += Assert(Array(lanes(dut))[(g + n - beat) % n] == now)
        for k in range(n, config.tile):
            m.d.comb += Assert(dut.o.payload[k] == dut.o.payload[k % n])
    loaded = Signal()
    with m.If(ends):
        m.d.sync += loaded.eq(1)
    cover(m, loaded & taken & (g == n - 1) & (beat == 1) & (now != 0))
    return m


def replay(dut: UrngArray) -> Module:
    """Compare the first beats after two loads of one seed, with any activity in between."""
    m, inside = array_harness(dut)
    config = dut.config
    width, n = config.width, config.lanes
    begins, ends, count = loads(m, dut)
    follow(m, dut, inside, count)
    which = AnyConst(range(FIRST))
    serial = config.seeding == "serial"
    layout = data.ArrayLayout(width, n if serial else 1)
    seeds = data.View(layout, AnyConst(layout.size))
    fixed = [repaired_state(config, seed) for seed in seeds]
    same, beat = Signal(), Signal(range(FIRST + 1), init=FIRST)
    if serial:
        matches = Signal()
        for t in range(width):
            with m.If(count == t):
                bits = Cat(seeds[(j - (width - 1) + t) % n][t] for j in range(n))
                m.d.comb += matches.eq(Cat(dut.i_seeds.payload.bits) == bits)
        with m.If(transfer(dut.i_seeds)):
            m.d.sync += same.eq(matches & (begins | same))
        for done in range(1, width):
            with m.If(same & (count == done)):
                for j, lane in enumerate(lanes(dut)):
                    seed = seeds[(j + done - width) % n]
                    m.d.comb += Assert(top(lane, done) == seed[:done])
        if config.repair:
            for done in range(1, width):
                with m.If(count == done):
                    for j, lane in enumerate(lanes(dut)):
                        m.d.comb += Assert(inside["ones"][j] == top(lane, done).any())
            with m.If(count == 0):
                m.d.comb += Assert(inside["ones"] == 0)
        starts = fixed
    else:
        with m.If(begins):
            m.d.sync += same.eq(dut.i_seeds.payload == seeds[0])
        with m.If(same):
            grown(m, dut, fixed[0], count)
        starts = [
            product(config.lfsr.jump(config.leap * (n - 1) + i * config.spacing), fixed[0])
            for i in range(n)
        ]
    with m.If(ends):
        m.d.sync += beat.eq(0)
    with m.Elif(transfer(dut.o) & (beat != FIRST)):
        m.d.sync += beat.eq(beat + 1)
    m.d.comb += Assert(beat <= FIRST)
    words = [
        Cat(product(config.lfsr.jump(config.leap * t), starts[(j + t) % n]) for j in range(n))
        for t in range(FIRST)
    ]
    shown = Cat(lanes(dut))
    for t in range(FIRST):
        with m.If(same & dut.o.valid & (beat == t)):
            m.d.comb += Assert(shown == words[t])
    captured, reference = Signal(), Signal(width * n)
    capture = same & (beat == which) & transfer(dut.o)
    with m.If(capture & ~captured):
        m.d.sync += [captured.eq(1), reference.eq(shown)]
    with m.If(captured):
        m.d.comb += Assert(reference == Array(words)[which])
    # The property itself; the assertions above make it inductive.
    with m.If(capture & captured):
        m.d.comb += Assert(shown == reference)
    cover(m, capture & captured & reduce(or_, seeds))
    return m


def stream(dut: UrngArray) -> Module:
    """Any frames: the stream rules; no seed is accepted while an output beat is pending."""
    m, _ = array_harness(dut)
    stream_rules(m, dut.o)
    waiting = dut.o.valid & ~dut.o.ready
    with m.If(waiting):
        m.d.comb += Assert(~dut.i_seeds.ready)
    cover(m, waiting & dut.i_seeds.valid, transfer(dut.o) & transfer(dut.i_seeds))
    return m


def latency(dut: UrngArray) -> Module:
    """Valid falls with a seed and rises ``latency`` cycles after it, with ready high or low."""
    m, inside = array_harness(dut)
    _, ends, count = loads(m, dut)
    follow(m, dut, inside, count)
    arrived = past(m, ends)
    with m.If(arrived):
        m.d.comb += Assert(dut.o.valid)
    with m.If(past(m, transfer(dut.i_seeds)) & ~arrived):
        m.d.comb += Assert(~dut.o.valid)
    cover(m, arrived & ~past(m, dut.o.ready) & ~dut.o.ready)
    return m


def ahead(dut: UrngArray) -> Module:
    """Track generator 0, which enters at lane n - 1 and rotates down by one lane per beat."""
    m, inside = array_harness(dut)
    config = dut.config
    n = config.lanes
    _, _, count = loads(m, dut)
    follow(m, dut, inside, count)
    lane = Signal(range(n))
    with m.If(transfer(dut.i_seeds)):
        m.d.sync += lane.eq(n - 1)
    with m.Elif(dut.advance):
        m.d.sync += lane.eq(Mux(lane == 0, n - 1, lane - 1))
    first = Array(lanes(dut))[lane]
    previous = past(m, dut.ahead)
    m.d.comb += Assert(lane < n)
    with m.If(past(m, dut.advance & ~transfer(dut.i_seeds))):
        m.d.comb += Assert(first == previous)
    m.d.comb += Assert(dut.ahead == serial_step(config, first, config.leap))
    with m.If(count != 0):
        m.d.comb += Assert(lane == n - count)
    with m.If(past(m, ~dut.advance) & ~Initial()):
        m.d.comb += Assert(dut.ahead == previous)
    cover(m, past(m, count == n - 1) & transfer(dut.o))
    return m


CONFIGS = {
    "serial_3x4": UrngConfig(lanes=3, width=4),
    "serial_7x5": UrngConfig(lanes=7, width=5, leap=5, tile=9),
    "serial_31x8": UrngConfig(),
    "repair_3x4": UrngConfig(lanes=3, width=4, repair=True),
    "grown_3x4": UrngConfig(lanes=3, width=4, seeding="grown"),
    "grown_7x5": UrngConfig(lanes=7, width=5, leap=2, seeding="grown", repair=True),
    "grown_31x8": UrngConfig(seeding="grown"),
}
#: Proofs of the larger configurations; the others have all that apply.
ONLY = {
    "serial_7x5": {never_zero, rotation, replay},
    "serial_31x8": {never_zero, stream, latency},
    "grown_7x5": {never_zero, rotation, ahead},
    "grown_31x8": {never_zero, stream, latency},
}
SAYS = {
    never_zero: "No lane is ever zero when no seed is or, with repair, for any seeds.",
    rotation: (
        "Generator g, for every g, is at lane (g - t) mod n at beat t, with the state that t steps "
        "after its seed give it: rotation is a permutation."
    ),
    replay: f"The same seeds give the same first {FIRST} beats, with any activity in between.",
    stream: "A valid beat is stable until its transfer, also when a seed is offered.",
    latency: "The first beat is valid a fixed number of cycles after the seed, for any ready.",
    ahead: "`ahead` is the state that generator 0 has in the next beat.",
}


def proofs() -> tuple[Proof, ...]:
    """Return the proofs of all configurations."""
    found = []
    for size, config in CONFIGS.items():
        for harness, says in SAYS.items():
            mutants = MUTANTS.get((harness.__name__, size.split("_")[0]))
            if mutants is None or harness not in ONLY.get(size, SAYS):
                continue
            if config.repair and config.seeding == "grown" and harness is never_zero:
                mutants += (NO_REPAIR_GROWN,)
            found.append(
                Proof(
                    name=f"urng_array_{harness.__name__}_{size}",
                    says=says,
                    component=UrngArray,
                    config=config,
                    harness=harness,
                    depth=2,
                    reach=config.lanes + 2 * config.width + 5,
                    mutants=mutants,
                )
            )
    return tuple(found)


PROOFS = proofs()
