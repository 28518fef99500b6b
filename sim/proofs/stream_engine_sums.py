"""Proofs of the streamed engine: sums of products, and the greatest of them."""

from dataclasses import replace

from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst

from seedbed.hw.stream.attend_products import AttendProducts
from seedbed.hw.stream.greatest_element import GreatestElement
from seedbed.hw.stream.kept_sums import DEPTH as ROWS
from seedbed.hw.stream.kept_sums import KeptSums
from seedbed.hw.stream.product_sums import DEPTH, ProductSums
from seedbed.hw.stream.row_groups import PARTS, RowGroups
from seedbed.hw.stream.row_products import WaySums
from seedbed.hw.stream.stream_layouts import STORE_CYCLES, is_in
from seedbed.sim.proofs.bench import cover, free, free_inputs, past, steady, stream_rules, transfer
from seedbed.sim.proofs.mac_array import fifo_invariants
from seedbed.sim.proofs.stream_engine_memory import SMALL
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.engine_records import KEPT_COUNT

__all__ = ["PROOFS"]


def products(dut: AttendProducts) -> Module:
    """Count the beats of sums that have begun, and where they are."""
    m, inside = free_inputs(dut)
    steady(m, dut.mix, dut.tokens, dut.head)
    free(m, dut.start, dut.pop)
    token, word, running = (inside[name] for name in ("token", "word", "running"))
    begun, level, whole = (inside[f"sums.{name}"] for name in ("begun", "fifo.level", "whole_d1"))
    loading, comes = inside["loading"], [inside[f"filled_d{k + 1}"] for k in range(STORE_CYCLES)]
    filled = Cat(comes).any()
    issue, ends = inside["issue"], inside["ends"]
    lane = token[0]
    # A group of sums has begun and not ended; others are on their way to the queue.
    opened = running & Mux(dut.mix, token != 0, (word != 0) | lane)
    keys = dut.config.keys
    stages = [inside[f"sums.ends_d{k}"] for k in range(1, STORE_CYCLES + 5)]
    # Beats that were asked for, and that have ended.
    total = Mux(dut.mix, dut.head, (dut.tokens + 1) >> 1)
    ended = Signal(4)
    with m.If(dut.start):
        m.d.sync += ended.eq(0)
    with m.Elif(issue & ends):
        m.d.sync += ended.eq(ended + 1)
    m.d.comb += [
        Assume((dut.tokens != 0) & (dut.tokens <= dut.config.context)),
        Assume((dut.head != 0) & (dut.head <= 3)),
        Assume(~dut.start | ~(running | loading | filled)),
        Assume(~dut.pop | dut.valid),
        Assert(~whole | (level != DEPTH)),
        Assert(begun <= DEPTH),
        # What an induction has to know.
        Assert(begun == sum(stages, level + whole + opened)),
        Assert(sum(comes, running + loading) <= 1),
        Assert(~(loading | filled) | (~dut.mix & (token == 0) & (word == 0) & (ended == 0))),
        Assert(~running | ((token < dut.tokens) & (word < dut.head))),
        Assert(~running | ((token & keys - 1) == 0)),
        Assert(~running | (ended == Mux(dut.mix, word, token >> 1))),
    ]
    done = past(m, running) & ~running
    unwritten = is_in(dut.unwritten, dut.address) | is_in(dut.of_matrix, dut.address)
    free(m, dut.unwritten, dut.of_matrix, dut.waits)
    m.d.comb += [
        Assert(~(issue & dut.mix & (unwritten | dut.waits))),
        # The query that is written to its memory was read in the cycle before.
        Assert(~(inside["reads"] & (unwritten | dut.waits))),
        Assert(~done | (ended == total)),
    ]
    cover(m, done & dut.mix & (total == 3), done & ~dut.mix & (dut.tokens == 5))
    cover(m, stages[0] & stages[1])
    return m


def greatest(dut: GreatestElement) -> Module:
    """Follow any element of vectors of any length."""
    m, inside = free_inputs(dut)
    number, best, best_number, lane = (
        inside[name] for name in ("number", "best", "best_number", "lane")
    )
    count, place = AnyConst(len(dut.count)), AnyConst(len(dut.count))
    given, out = dut.i.payload, dut.o.payload
    waits = past(m, dut.i.valid & ~dut.i.ready)
    before = past(m, given)
    m.d.comb += [
        dut.on.eq(1),
        dut.count.eq(count),
        Assume(place < count),
        # A beat that waits is steady, and a vector has all its elements.
        Assume(~waits | (dut.i.valid & (Value.cast(given) == before))),
        Assume(~dut.i.valid | (given.last == (number + len(given.values) - lane >= count))),
    ]
    # Whether the element of the vector has been taken, and its value.
    seen, value = Signal(), Signal.like(best)
    with m.If(dut.i.valid & ~dut.o.valid & (number == place)):
        m.d.sync += [seen.eq(1), value.eq(Array(given.values)[lane])]
    with m.If(transfer(dut.o)):
        m.d.sync += seen.eq(0)
    # Elements of the beats that have been taken.
    taken = Signal.like(number)
    with m.If(transfer(dut.i)):
        m.d.sync += taken.eq(Mux(given.last, 0, taken + len(given.values)))
    begun = dut.o.valid | (number != 0)
    m.d.comb += [
        Assert(~seen | (best > value) | ((best == value) & (best_number <= place))),
        Assert(~seen | (best_number != place) | (best == value)),
        Assert(~begun | (best_number < count)),
        Assert(~dut.o.valid | seen),
        Assert(taken + lane == number),
        Assert(~dut.o.valid | (Value.cast(out.values[0]).as_unsigned() == best_number)),
        # What an induction has to know.
        Assert(dut.o.valid | (seen == (number > place))),
        Assert(~dut.o.valid | (number == 0)),
        Assert((number == 0) | (best_number < number)),
        Assert(lane == number[: len(lane)]),
        Assert(number < count + len(given.values)),
        Assert((lane == 0) | waits),
        Assert((lane != 0) | (number == 0) | (number < count)),
    ]
    stream_rules(m, dut.o)
    cover(m, dut.o.valid & (best_number == place) & (place == 2))
    cover(m, dut.o.valid & (best_number < place) & (best == value))
    return m


def way_sums(dut: WaySums) -> Module:
    """Count the sums of a matrix, and see which way each comes from."""
    m, inside = free_inputs(dut)
    free(m, dut.start, dut.rows)
    steady(m, dut.turns)
    # Sums that have been given, of the rows of the matrix.
    given, rows = Signal(len(dut.rows)), Signal(len(dut.rows))
    done = given == rows
    with m.If(transfer(dut.o)):
        m.d.sync += given.eq(given + 1)
    with m.If(dut.start):
        m.d.sync += [given.eq(0), rows.eq(dut.rows)]
    m.d.comb += Assume(~dut.start | done)
    for k, way in enumerate(dut.i):
        of_way = Mux(dut.turns, given[0] == k, not k)
        m.d.comb += [
            Assert(~transfer(way) | done | (of_way & transfer(dut.o))),
            Assert(~transfer(dut.o) | ~of_way | (dut.o.payload == way.payload)),
            Assert(~done | way.ready),
        ]
    m.d.comb += [
        Assert(~dut.o.valid | ~done),
        # What an induction has to know.
        Assert(inside["left"] == rows - given),
        Assert(given <= rows),
        Assert(inside["way"] == (given[0] & dut.turns)),
    ]
    cover(m, done & (rows == 3) & dut.turns & transfer(dut.i[1]))
    cover(m, done & (rows == 3) & ~dut.turns)
    return m


def kept_sums(dut: KeptSums) -> Module:
    """Count the kept weights of each row, and the rows on their way."""
    m, inside = free_inputs(dut)
    free(m, dut.start, dut.load, dut.ahead, dut.write, dut.loaded, dut.values)
    given = dut.i_constants
    waiting, before = past(m, given.valid & ~given.ready), past(m, given.payload)
    with m.If(waiting):
        m.d.comb += [Assume(given.valid), Assume(Value.cast(given.payload) == before)]
    count = given.payload.multiplier[-KEPT_COUNT:]
    # Kept weights of this row so far.
    seen = Signal(9)
    with m.If(inside["issue"]):
        m.d.sync += seen.eq(Mux(given.ready, 0, seen + 1))
    rows = [inside[f"valid_d{k}"] & inside[f"last_d{k}"] for k in range(1, 6)]
    levels = [inside[f"{name}.level"] for name in ("constants", "sums")]
    for name in ("constants", "sums"):
        fifo_invariants(m, inside, name, ROWS)
    m.d.comb += [
        Assert(~transfer(given) | (seen + 1 == Mux(count == 0, 1, count))),
        # A sum has a place in the queue before its row begins.
        Assert(~rows[-1] | (levels[1] != ROWS)),
        # What an induction has to know.
        Assert(inside["done"] == seen),
        Assert((seen == 0) | (seen < past(m, count))),
        Assert((seen == 0) | waiting),
        Assert(levels[0] == sum(rows, levels[1])),
    ]
    cover(m, transfer(dut.o) & (levels[1] == 1) & rows[0])
    cover(m, transfer(given) & (seen == 2))
    return m


def row_groups(dut: RowGroups) -> Module:
    """Count the weights that are to come, and the parts of beats that they take."""
    m, inside = free_inputs(dut)
    free(m, dut.start, dut.begin, dut.take)
    steady(m, dut.packed, dut.whole, dut.row_beats)
    config = dut.config
    left, part, level = (inside[name] for name in ("left", "part", "fifo.level"))
    rows, step = Signal(len(dut.row_beats) + 4), Mux(dut.whole, 1, 2)
    weights = Signal.like(rows)
    with m.If(dut.take):
        m.d.sync += weights.eq(weights - 1)
    with m.If(dut.begin):
        m.d.sync += weights.eq(rows)
    with m.If(dut.start):
        m.d.sync += weights.eq(0)
    fifo_invariants(m, inside, "fifo", dut.depth)
    # Beats of these rows: those of their weights of 4 bits would be no more than there is room for.
    most = Mux(dut.whole, dut.depth, dut.depth // 2)
    m.d.comb += [
        rows.eq(config.entries * dut.row_beats),
        Assume((dut.row_beats != 0) & (dut.row_beats <= most)),
        Assume(~dut.begin | ((weights == 0) & ~dut.i.ready)),
        Assume(~dut.take | ((weights != 0) & ~dut.i.ready)),
        Assert(~transfer(dut.i) | (inside["fifo.w_rdy"] & dut.packed)),
        Assert(~(dut.take & dut.packed) | inside["fifo.r_rdy"]),
        # What an induction has to know.
        Assert(~dut.packed | ((level + left) * PARTS == weights * step + part)),
        Assert(dut.packed | ((level == 0) & (left == 0) & (part == 0))),
        Assert(~left.any() | ((weights == rows) & (part == 0))),
        Assert((weights <= rows) & (part[0] <= dut.whole)),
    ]
    seen = past(m, dut.take) & (weights == 0)
    cover(m, seen & dut.whole & dut.packed & (level == 0), seen & ~dut.whole & dut.packed)
    return m


PROOFS = (
    Proof(
        name="stream_engine_greatest",
        says="The number that is given is that of the greatest element of a vector, and the lowest "
        "one of several that are equal.",
        component=GreatestElement,
        config=SMALL,
        harness=greatest,
        depth=2,
        reach=12,
        mutants=(
            Mutant("the last one of equal ones", "(value > best)", "(value >= best)"),
            Mutant("elements after the last one", "(number < self.count) & ", ""),
            Mutant("a vector that waits is overwritten", "self.on & ~found", "self.on"),
            Mutant(
                "the next vector is compared with it",
                "found.eq(1), number.eq(0)",
                "found.eq(1)",
            ),
        ),
    ),
    Proof(
        name="stream_engine_products",
        says="Every beat of sums has a place in the queue before it begins, and a pass gives as "
        "many as it has tokens, or as a head has; no query and no shares are read of beats that "
        "are not in the store yet.",
        component=AttendProducts,
        config=SMALL,
        harness=products,
        depth=2,
        reach=28,
        mutants=(
            Mutant(
                "a beat begins without a place",
                "self.room.eq(begun != DEPTH)",
                "self.room.eq(1)",
                part=ProductSums,
            ),
            Mutant(
                "the last tokens of scores give no beat",
                "last & (self.mix | last_token | full)",
                "last & (self.mix | full)",
            ),
            Mutant("shares are read too early", "& (there | ~self.mix)", ""),
            Mutant("the port of a matrix is taken", " & ~self.waits", ""),
            Mutant("a query is read too early", "reads.eq(loading & there)", "reads.eq(loading)"),
        ),
    ),
    Proof(
        name="stream_engine_keys",
        says="So it is with two tokens a cycle: an odd number of them has a beat for the last one.",
        component=AttendProducts,
        config=replace(SMALL, keys=2),
        harness=products,
        depth=2,
        reach=28,
        mutants=(
            Mutant("the last token has none", "left <= config.keys", "left < config.keys"),
            Mutant(
                "scores wait for a beat of one token a cycle",
                "(lane | config.keys - 1).all()",
                "lane.all()",
            ),
        ),
    ),
    Proof(
        name="stream_engine_kept",
        says="A row has as many products as kept weights, or one without any; every row has a "
        "place in the queue of sums before it begins.",
        component=KeptSums,
        config=replace(SMALL, trellis=4, kept=4),
        harness=kept_sums,
        depth=2,
        reach=22,
        mutants=(
            Mutant(
                "rows begin without a place",
                "self.loaded & given.valid & constants.w_rdy",
                "self.loaded & given.valid",
            ),
            Mutant(
                "a row has one product too many",
                "last.eq(done + 1 >= count)",
                "last.eq(done >= count)",
            ),
        ),
    ),
    Proof(
        name="stream_engine_groups",
        says="Each beat of weights of groups has the part of a beat of scales and minima that is "
        "its own; all of these have a place, and none is left over by whole rows.",
        component=RowGroups,
        config=replace(SMALL, groups=True, beat_bits=512, burst=4, columns=64),
        harness=row_groups,
        depth=1,
        reach=24,
        mutants=(
            Mutant("codes of 4 bits have too few", "self.row_beats << 1", "self.row_beats"),
            Mutant(
                "a matrix begins within a beat",
                "m.d.sync += [left.eq(0), part.eq(0)]",
                "m.d.sync += left.eq(0)",
            ),
            Mutant(
                "a beat is left too early",
                "fifo.r_en.eq(part + step == PARTS)",
                "fifo.r_en.eq(part + 2 == PARTS)",
            ),
        ),
    ),
    Proof(
        name="stream_engine_ways",
        says="Each row of a matrix with a trellis code has the sum of its way, in the order of "
        "rows; sums of ways without a row are discarded; int8 rows have those of the first way.",
        component=WaySums,
        config=replace(SMALL, trellis=4),
        harness=way_sums,
        depth=1,
        reach=8,
        mutants=(
            Mutant(
                "ways are not taken in turn",
                "way.eq(Mux(self.turns, way + 1, 0))",
                "way.eq(0)",
            ),
            Mutant(
                "ways without a row have sums",
                "self.o.valid.eq(valid & (left != 0))",
                "self.o.valid.eq(valid)",
            ),
            Mutant(
                "sums of other ways are discarded",
                "self.o.ready & (way == k)",
                "self.o.ready",
            ),
        ),
    ),
)
