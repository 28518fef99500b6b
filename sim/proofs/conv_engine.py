"""Proofs of the engine that layers run on: its walk over windows, and its store."""

from amaranth.hdl import Assert, Assume, Const, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.layer_sequencer import LayerSequencer
from seedbed.sim.proofs.bench import cover, free, free_inputs, past
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.conv_engine import ConvEngineConfig
from seedbed.spec.engine import FRAMES
from seedbed.spec.fixed import Fixed
from seedbed.spec.network import Layer, NetworkConfig

__all__ = ["PROOFS"]

#: Cycles between a write and the read that is followed, at most.
APART = 1


def walk(dut: LayerSequencer) -> Module:
    """Count seven loops for themselves, and form each beat's address and row by products."""
    m, inside = free_inputs(dut)
    beat, plan = dut.beat, dut.config.plan
    steps, ways, lanes = plan.steps, plan.ways, plan.lanes
    number, running, loading = inside["number"], inside["running"], inside["loading"]
    m.d.comb += [
        dut.start.eq(AnySeq(1)),
        dut.buffer_select.eq(AnyConst(1)),
        dut.retired.eq(AnySeq(1)),
        dut.written.eq(AnySeq(len(dut.written))),
        Assume(~dut.start | ~dut.busy),
        # All steps of a program; what has begun cannot be written.
        dut.first.eq(0),
        dut.stop.eq(len(steps)),
        Assume(dut.written <= inside["begun"]),
    ]
    sizes = [
        [s.pieces for s in steps],
        [s.reads for s in steps],
        [s.pool for s in steps],
        [s.pool for s in steps],
        [s.groups(ways) for s in steps],
        [s.width for s in steps],
        [s.height for s in steps],
    ]
    # Innermost first: the iteration of each loop.
    at = [Signal(range(max(size)), name=f"at_{k}") for k, size in enumerate(sizes)]

    def of(numbers):
        found = Const(0, 1)
        for k, value in enumerate(numbers):
            found = Mux(number == k, value, found)
        return found

    piece, read, x, y, group, column, line = at
    address = row = fits = Const(0, 1)
    for k, s in enumerate(steps):
        here = (
            s.window + (line * s.pool + y) * s.row_stride + (column * s.pool + x) * s.column_stride
        )
        here = here + read * s.read_stride + piece * lanes
        rows = s.weights + group * s.beats + read * s.pieces + piece
        address, row = Mux(number == k, here, address), Mux(number == k, rows, row)
        within = Const(1, 1)
        for place, size in zip(at, sizes, strict=True):
            within = within & (place < size[k])
        fits = Mux(number == k, within, fits)
    issue = inside["issue"]
    first, last = (piece == 0) & (read == 0), Signal()
    first_beat = Signal()
    m.d.comb += [
        last.eq((piece == of(sizes[0]) - 1) & (read == of(sizes[1]) - 1)),
        first_beat.eq(sum(at, Const(0)) == 0),
    ]
    # The loops, counted by themselves.
    advance = Const(1, 1)
    with m.If(issue):
        for place, size in zip(at, sizes, strict=True):
            wraps = place == of(size) - 1
            with m.If(advance):
                m.d.sync += place.eq(Mux(wraps, 0, place + 1))
            advance = advance & wraps
    buffer = dut.buffer_select << (len(beat.address) - 1)
    given = [
        (beat.address, address + buffer),
        (beat.row, row),
        (beat.skew, of(plan.skews.index(s.skew) for s in steps)),
        (beat.first, first),
        (beat.last, last),
        (beat.bias, last & of(s.bias for s in steps)),
        (beat.trainable, Const(0, 1)),
    ]
    waits = of(s.waits for s in steps) & first_beat & (dut.written != number)
    m.d.comb += Assert(beat.valid == past(m, issue))
    for value, expected in given:
        before = past(m, expected)
        with m.If(beat.valid):
            m.d.comb += Assert(value == before)
    in_flight = Signal(range(FRAMES + 1))
    m.d.sync += in_flight.eq(in_flight + (issue & last) - dut.retired)
    m.d.comb += [
        Assume(~dut.retired | (in_flight != 0)),
        Assert(in_flight <= FRAMES),
        Assert(issue == (running & ~waits & (in_flight != FRAMES))),
        Assert(inside["in_flight"] == in_flight),
        Assert(dut.busy == (running | loading)),
        Assert(~(running & loading)),
        Assert(number == inside["begun"]),
        Assert(~dut.busy | (number < len(steps))),
        Assert(~dut.busy | (inside["stop"] == len(steps))),
    ]
    with m.If(~running):
        m.d.comb += Assert(first_beat)
    with m.If(running):
        m.d.comb += [
            Assert(fits),
            Assert(inside["first_beat"] == first_beat),
            Assert((inside["address"] ^ (address + buffer))[: len(beat.address)] == 0),
            Assert(inside["row"] == row),
        ]
        for k, (place, size) in enumerate(zip(at, sizes, strict=True)):
            m.d.comb += Assert(inside[f"nest.left_{k}"] + place == of(size) - 1)
    with m.If(running | (loading & inside["loaded"])):
        roms: dict[str, list[int]] = {
            "window": [s.window for s in steps],
            "weights": [s.weights for s in steps],
            "skew": [plan.skews.index(s.skew) for s in steps],
            "trainable": [s.trainable for s in steps],
            "bias": [s.bias for s in steps],
            "waits": [s.waits for s in steps],
            "frame_stride": [1 - s.beats for s in steps],
            "step_stride": [1 - s.beats * s.groups(ways) for s in steps],
            **{f"stride_{k}": [s.strides[k] for s in steps] for k in range(7)},
            **{f"nest_limit_{k}": [n - 1 for n in size] for k, size in enumerate(sizes)},
        }
        for name, numbers in roms.items():
            for k, value in enumerate(numbers):
                with m.If(number == k):
                    m.d.comb += Assert(inside[name] == int(value))
    m.d.comb += Assert(~inside["loaded"] | dut.busy)
    cover(m, beat.valid & (number == len(steps) - 1) & past(m, last), waits & running)
    return m


def numbers(dut: ActivationStore) -> Module:
    """Follow a number from a write to a read of wherever it may be seen, and back by lanes."""
    m, inside = free_inputs(dut)
    del inside
    width, ways = dut.address_width, len(dut.values)
    place, known, age = AnyConst(width), Signal(), Signal(range(APART + 1))
    kept = Signal(dut.lanes[0].shape())
    free(m, dut.address, dut.write, dut.target, dut.count, dut.fill, dut.skew)
    for port in (dut.values, dut.filling):
        m.d.comb += port.as_value().eq(AnySeq(port.shape().size))
    filled = len(dut.filling)
    offset = (place - dut.target)[:width]
    m.d.comb += [
        Assume(dut.count <= ways),
        Assume(dut.skew < len(dut.config.plan.skews)),
        Assume(~dut.fill | (dut.target[: (filled - 1).bit_length()] == 0)),
    ]
    hit = dut.write & (offset < Mux(dut.fill, filled, dut.count))
    new = Mux(dut.fill, dut.filling[offset[: (filled - 1).bit_length()]], dut.values[offset[:1]])
    with m.If(hit):
        m.d.sync += [known.eq(1), age.eq(0), kept.eq(new)]
    with m.Elif(age == APART):
        m.d.sync += known.eq(0)
    with m.Else():
        m.d.sync += age.eq(age + 1)
    m.d.comb += Assert(age <= APART)
    # What is read in the cycle that writes it is anything.
    seen, addressed, skew, content = known & ~hit, dut.address, dut.skew, kept
    for _ in range(dut.latency):
        seen, addressed, skew, content = (
            past(m, value) for value in (seen, addressed, skew, content)
        )
    for k, lane in enumerate(dut.lanes):
        rows = Const(0, 1)
        for number, further in enumerate(dut.config.plan.skews):
            rows = Mux(skew == number, further[k], rows)
        at = (addressed + k + rows * len(dut.lanes))[:width]
        with m.If(seen & (at == place)):
            m.d.comb += Assert(lane == content)
        if k in (0, len(dut.lanes) - 1):
            cover(m, seen & (at == place) & (lane != 0) & (skew == 1))
    return m


#: Each of the seven loops has several iterations somewhere; windows in several beats, and
#: several rows in one.
LOOPS = ConvEngineConfig(
    network=NetworkConfig(
        (
            Layer(name="a", kind="conv", inputs=(8, 2, 4), outputs=2, kernel=1, pool=2),
            Layer(name="b", kind="conv", inputs=(2, 1, 2), outputs=1, kernel=2, padding=1),
        )
    ),
    lanes=8,
    ways=1,
).engine
#: Rows of a window that lie apart, for a skew.
APARTMENTS = ConvEngineConfig(
    network=NetworkConfig(
        (Layer(name="a", kind="conv", inputs=(1, 8, 8), outputs=1, kernel=2, relu=False),)
    ),
    lanes=8,
    ways=2,
    values=Fixed(2, 0),
    weights=Fixed(2, 0),
).engine

PROOFS = (
    Proof(
        name="conv_engine_walk",
        says="Beats have the address and the row of weights that seven nested loops give them, "
        "wait for the steps before, and no more frames are on their way than there is room for.",
        component=LayerSequencer,
        config=LOOPS,
        harness=walk,
        depth=2,
        reach=70,
        mutants=(
            Mutant(
                "a group begins with the weights of the one before",
                "[1, 1, frame, frame, 1, whole, whole]",
                "[1, 1, frame, frame, frame, whole, whole]",
            ),
            Mutant("no step waits", "ready.eq(~waits | (self.written == begun))", "ready.eq(1)"),
            Mutant(
                "every row of a window counts as a frame",
                "frame_issued.eq(issue & nest.last[0] & nest.last[1])",
                "frame_issued.eq(issue & nest.last[0])",
            ),
        ),
    ),
    Proof(
        name="conv_engine_numbers",
        says="A number that was written a cycle or two before is what a read gives in the lane "
        "that its address is for, with a window's rows apart or not.",
        component=ActivationStore,
        config=APARTMENTS,
        harness=numbers,
        depth=APART + 10,
        reach=11,
        mutants=(
            Mutant("no lane reads the next row", "+ further + ", "+ further + 0 * "),
            Mutant("all of a write's numbers are written", "place < here.count", "place < ways"),
            Mutant(
                "the rotation forgets its high bits",
                "kept.eq(Array(some)[by])",
                "kept.eq(Array(some)[by] if stage else some[0])",
            ),
        ),
    ),
)
