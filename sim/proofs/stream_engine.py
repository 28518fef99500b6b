"""Proofs of the streamed engine: room for sums of products, results, and their places."""

from dataclasses import replace

from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from seedbed.hw.stream.attend_products import AttendProducts
from seedbed.hw.stream.greatest_element import GreatestElement
from seedbed.hw.stream.kept_sums import DEPTH as ROWS
from seedbed.hw.stream.kept_sums import KeptSums
from seedbed.hw.stream.operand_reader import DEPTH as OPERAND_BEATS
from seedbed.hw.stream.operand_reader import OPERANDS, OperandReader
from seedbed.hw.stream.product_sums import DEPTH, ProductSums
from seedbed.hw.stream.record_loops import matrix_flight
from seedbed.hw.stream.record_walker import RecordWalker
from seedbed.hw.stream.result_writer import ResultWriter
from seedbed.hw.stream.row_groups import PARTS, RowGroups
from seedbed.hw.stream.row_output import RowOutput, row_layout
from seedbed.hw.stream.row_products import WaySums
from seedbed.hw.stream.stream_layouts import (
    STORE_CYCLES,
    is_given,
    is_in,
    record_kinds,
)
from seedbed.sim.proofs import stream_engine_memory
from seedbed.sim.proofs.bench import cover, free, free_inputs, past, steady, stream_rules, transfer
from seedbed.sim.proofs.mac_array import fifo_invariants
from seedbed.sim.proofs.stream_engine_memory import SMALL
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.engine_records import KEPT_COUNT, NUMBERS

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
    free(m, dut.start, dut.write, dut.loaded, dut.values)
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


def row_results(dut: RowOutput) -> Module:
    """Follow the beats of a vector to the store, and those of all others past its ports."""
    m, inside = free_inputs(dut)
    config = dut.config
    steady(m, dut.at, dut.stride, dut.rows, dut.tokens, dut.add, dut.given)
    free(m, dut.start, dut.data)
    reads, writes, left = (inside[name] for name in ("reads", "writes", "left"))
    vector = AnyConst(range(config.vectors))
    # Cycles since the reset: places of vectors are added up, a vector a cycle.
    age = Signal(range(config.vectors + 1))
    m.d.sync += age.eq(age + (age != config.vectors))
    # Rows that have been taken; those of them whose elements are not complete; elements written.
    begun = Signal()
    rows = Signal(4)
    written = Signal(4)
    with m.If(dut.start):
        m.d.sync += [begun.eq(1), rows.eq(dut.rows), written.eq(0)]
    with m.Elif(writes.bit_select(vector, 1)):
        m.d.sync += written.eq(written + sum(dut.mask))
    count = dut.latency + config.vectors - 1
    taken = [inside[f"taken_d{k}"] for k in range(1, count + 1)]
    done = rows - left
    pending = Signal(4)
    complete = Signal(4)
    ends = Array(sum(taken[: dut.latency + v]) for v in range(config.vectors))[vector]
    m.d.comb += [pending.eq(ends), complete.eq(done - pending)]
    unwritten = dut.given | (vector >= dut.tokens)
    place = (dut.at + vector * dut.stride + (written >> 1))[: len(dut.write_at)]
    offset = [inside[f"offset_{v}"] for v in range(1, config.vectors)]
    m.d.comb += [
        Assume(dut.rows <= 7),
        Assume(~dut.start | (past(m, dut.done) & (age == config.vectors))),
        Assert(sum(reads) <= 1),
        Assert(sum(writes) <= 1),
        Assert(~writes.bit_select(vector, 1) | (dut.write_at == place)),
        Assert(~(dut.done & begun) | (written == Mux(unwritten, 0, rows))),
        # What an induction has to know.
        Assert(left <= rows),
        Assert(begun | (rows == 0)),
        Assert(rows <= 7),
        Assert(~begun | (age == config.vectors)),
        *(
            Assert((age <= v) | (to == (dut.stride * v)[: len(to)]))
            for v, to in enumerate(offset, 1)
        ),
        Assert(unwritten | (written == Mux(complete == rows, rows, complete & ~1))),
        Assert(~unwritten | (written == 0)),
        Assert(begun | ~taken[0]),
        Assert(sum(taken) <= done),
    ]
    _taken_rows(m, dut, inside, taken, done, rows)
    row = row_layout(config)(inside["row"])
    m.d.comb += [
        Assert(~begun | (row.lane == done[0])),
        Assert(~begun | (row.place == (dut.at + (done[:4] >> 1))[: len(row.place)])),
    ]
    if config.chains:
        beats = dut.unwritten
        m.d.comb += [
            Assert(beats.on == (~dut.done & ~dut.given)),
            Assert(~begun | unwritten | (beats.first == (dut.at + (written + 1 >> 1))[:14])),
            Assert(~begun | (beats.end == dut.at + (rows + 1 >> 1))),
        ]
        cover(m, dut.done & (written == 5), beats.on & (written == 2))
        return m
    cover(m, dut.done & (written == 5) & (vector == 1), past(m, writes[0]) & writes[1])
    return m


def _taken_rows(m, dut: RowOutput, inside, taken, done, rows) -> None:
    """Assert where the rows on their way belong, and that no two of them begin or end together."""
    layout = row_layout(dut.config)
    for k, valid in enumerate(taken):
        row = layout(inside[f"row_d{k + 1}"])
        # The place of this row in the matrix.
        at = (done - sum(taken[: k + 1]))[:4]
        m.d.comb += [
            Assert(~valid | (row.lane == at[0])),
            Assert(~valid | (row.place == (dut.at + (at >> 1))[: len(row.place)])),
            Assert(~valid | (row.first == ~at[0])),
            Assert(~valid | (row.last == (at + 1 == rows))),
            Assert(~valid | (row.whole == (at[0] | row.last))),
        ]
        for after in range(k + 1, min(k + dut.config.vectors, len(taken))):
            later = layout(inside[f"row_d{after + 1}"])
            both = (row.first & later.first) | (row.whole & later.whole)
            m.d.comb += Assert(~(valid & taken[after] & both))


def pass_results(dut: ResultWriter) -> Module:
    """Follow the results of a record, and those of an earlier one that are on their way."""
    m, inside = free_inputs(dut)
    given = dut.i
    ports = dut.silent, dut.at, dut.beats, dut.stored, dut.gives
    free(m, dut.start, *ports)
    # Of the earlier record and of this one: results to come, the place of the next one, and what
    # becomes of it.
    left, own_left = Signal(4, name="left"), Signal(4, name="own_left")
    place, own_place = Signal.like(dut.at, name="next"), Signal.like(dut.at, name="own_next")
    flags, own_flags = Signal(2, name="flags"), Signal(2, name="own_flags")
    of_earlier = left != 0
    fire = transfer(given)
    with m.If(fire & of_earlier):
        m.d.sync += [left.eq(left - 1), place.eq(place + 1)]
    with m.Elif(fire):
        m.d.sync += [own_left.eq(own_left - 1), own_place.eq(own_place + 1)]
    with m.If(dut.start):
        with m.If(own_left != 0):
            m.d.sync += [left.eq(own_left - fire), place.eq(own_place + fire), flags.eq(own_flags)]
        m.d.sync += [
            own_left.eq(Mux(dut.silent, 0, dut.beats)),
            own_place.eq(dut.at),
            own_flags.eq(Cat(dut.stored, dut.gives)),
        ]
    count, at = Mux(of_earlier, left, own_left), Mux(of_earlier, place, own_place)
    stored, gives = Mux(of_earlier, flags, own_flags)
    steady = (dut.at == own_place) & (dut.beats == own_left)
    unwritten = dut.unwritten
    m.d.comb += [
        Assume(~dut.start | ~dut.waiting),
        Assume((dut.at <= 7) & (dut.beats != 0) & (dut.beats <= 7) & ~(dut.stored & dut.gives)),
        Assume(~dut.waiting | (steady & (Cat(dut.stored, dut.gives) == own_flags))),
        # As many results come as each record has, and none before it has begun.
        Assume(~given.valid | of_earlier | (~dut.waiting & (own_left != 0))),
        Assume(~given.valid | (given.payload.last == (count == 1))),
        dut.waits.eq(AnySeq(1)),
        Assert(dut.write == (transfer(given) & stored)),
        Assert(~(dut.write & dut.waits)),
        Assert(~dut.write | (dut.write_at == at[: len(dut.write_at)])),
        Assert(dut.o.valid == (given.valid & gives)),
        Assert(unwritten.on == (of_earlier & flags[0])),
        Assert(~unwritten.on | ((unwritten.first == place) & (unwritten.end == place + left))),
        Assert((dut.waiting | dut.draining) == (of_earlier | (own_left != 0))),
        # What an induction has to know.
        Assert(dut.draining == (of_earlier | (~dut.waiting & (own_left != 0)))),
        Assert(~dut.waiting | (own_left != 0)),
        Assert(~of_earlier | dut.waiting | (own_left == 0)),
        Assert(inside["earlier"] == of_earlier),
        Assert(~dut.draining | (Cat(inside["stores"], inside["out"]) == Cat(stored, gives))),
        Assert(~dut.draining | ~stored | (inside["place"] == at)),
        Assert(~dut.draining | ~stored | (inside["end"] == at + count)),
        Assert((left <= 7) & (own_left <= 7) & (place + left <= 14) & (own_place + own_left <= 14)),
        Assert(~flags.all() & ~own_flags.all()),
    ]
    cover(m, unwritten.on & fire & dut.waiting & (left == 1))
    cover(m, fire & gives & past(m, fire & of_earlier) & ~of_earlier)
    return m


def operands(dut: OperandReader) -> Module:
    """See which beats of the store are read, and count those that wait."""
    m, inside = free_inputs(dut)
    ports = "start", "beats", "wrap", "pop", "data", "unwritten", "of_matrix", "waits"
    free(m, *(getattr(dut, name) for name in ports))
    for name in OPERANDS:
        free(m, getattr(dut, f"{name}_on"), getattr(dut, f"{name}_at"))
        comes = [inside[f"{name}_comes_d{k + 1}"] for k in range(STORE_CYCLES)]
        m.d.comb += Assert(sum(comes, inside[f"{name}_fifo.level"]) <= OPERAND_BEATS)
    m.d.comb += [
        Assume(~dut.pop | dut.valid),
        Assert(~dut.read | (inside["issue"] & (inside["issue"] - 1) == 0)),
        Assert(~(dut.read & dut.waits)),
        *(
            Assert(~inside["issue"][k] | ~is_in(beats, inside[f"{name}_place"]))
            for k, name in enumerate(OPERANDS)
            for beats in (dut.unwritten, dut.of_matrix)
        ),
    ]
    cover(
        m,
        *(
            dut.read & beats.on & (beats.first < beats.end)
            for beats in (dut.unwritten, dut.of_matrix)
        ),
    )
    return m


def begins(dut: RecordWalker) -> Module:
    """See when records begin."""
    m, _ = free_inputs(dut)
    free(
        m,
        *(
            getattr(dut, name)
            for name in ("start", "header", "record", "ended", "idle", "failed", "count")
        ),
    )
    is_pass = record_kinds(dut.config, dut.record)["pass"]
    m.d.comb += Assert(~dut.begins | dut.idle | is_pass)
    cover(m, dut.begins & is_pass & ~dut.idle, dut.begins & ~is_pass)
    return m


def flights(dut: RecordWalker) -> Module:
    """See what is done while a matrix runs whose record has been left."""
    m, inside = free_inputs(dut)
    ports = "start", "record", "ended", "idle", "failed", "left", "matrix_done", "matrix_loading"
    free(m, *(getattr(dut, name) for name in ports))
    # A program and a block stay what they are.
    steady(m, dut.header, dut.count)
    record, vectors = dut.record, dut.config.vectors
    is_ = record_kinds(dut.config, record)
    # States are numbered in the order in which they are named.
    state = inside["fsm_state"]
    names = (
        "IDLE", "FETCH", "TAKE", "PLACE", "MULTIPLY", "BEGIN", "ASK", "ROW", "CONSTANTS", "WEIGHTS",
    )  # fmt: skip
    begins, runs_record = state == names.index("BEGIN"), state == len(names)
    leaves = dut.leaves & AnySeq(1)
    m.d.comb += [
        Assume(~dut.start | (state == names.index("IDLE"))),
        # A record comes in the cycle after it is taken.
        Assume(past(m, dut.take) | (Value.cast(record) == past(m, Value.cast(record)))),
        Assume(~is_["matrix"] | (dut.ended == (dut.matrix_done | leaves))),
    ]
    # A matrix that has begun and not ended: its first token, and where its results belong.
    runs, target = Signal(), Signal.like(record.target_place.place)
    token = Signal.like(inside["token"])
    with m.If(dut.begins & is_["matrix"]):
        m.d.sync += [
            runs.eq(1),
            token.eq(inside["token"]),
            target.eq(record.target_place.place),
        ]
        m.d.comb += Assert(~runs)
    with m.Elif(dut.matrix_done):
        m.d.sync += runs.eq(0)
    of_it = (inside["token"] >= token) & (inside["token"] < token + vectors)
    given = is_given(dut.config, record)
    quiet = (is_["pass"] & ~given) | is_["keep"]
    places = {name: record[f"{name}_place"] for name in ("number", "factor", "addend", "target")}
    has = {name: (place.place == target) & ~place.shared for name, place in places.items()}
    if dut.config.chains:
        # It has results as they come, or writes elsewhere.
        in_place = (record.numbers == NUMBERS.index("store")) & has["number"]
        other = quiet & (is_["keep"] | ~has["target"] | in_place)
    else:
        keeps = is_["keep"] & ~has["number"]
        other = quiet & (keeps | ~Cat(has.values()).any())
    matrix_runs = runs_record & is_["matrix"]
    ends = inside["ends"] & ~dut.failed
    rows = [NUMBERS.index(name) for name in ("token", "position")]
    of_table = is_["pass"] & Cat(record.numbers == k for k in rows).any()
    m.d.comb += [
        Assert(~(dut.begins & runs) | (quiet & ~of_it) | other),
        Assert(~(dut.read & runs) | (is_["matrix"] & begins & (dut.left == 0))),
        Assert(~(dut.done & runs) | dut.matrix_done),
        Assert(dut.flight == (runs & ~matrix_runs)),
        # What an induction has to know.
        Assert(state <= len(names)),
        Assert(~(runs_record & inside["may_leave"]) | (is_["matrix"] & ~given & ~ends)),
        Assert(~matrix_runs | (runs & (inside["token"] == token))),
        Assert(~matrix_runs | (record.target_place.place == target)),
        Assert(~dut.flight | (inside["flight_token"] == token)),
        Assert(~dut.flight | (inside["flight_target"] == target)),
        Assert((state <= names.index("PLACE")) | ~inside["blocked"]),
        Assert((state < names.index("ROW")) | runs_record | of_table),
        Assert(~runs | matrix_runs | (state != names.index("IDLE"))),
    ]
    cover(m, dut.begins & is_["pass"] & runs, dut.begins & runs & of_it, dut.read & runs)
    return m


PROOFS = (
    *stream_engine_memory.PROOFS,
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
    Proof(
        name="stream_engine_drains",
        says="Each result of a pass is written at its own place, goes out or is discarded, while "
        "the next pass runs; the beats that are not to be read yet are those of the earlier pass "
        "that have not been written.",
        component=ResultWriter,
        config=SMALL,
        harness=pass_results,
        depth=1,
        reach=12,
        mutants=(
            Mutant(
                "a pass takes the place of the one before",
                "self.waiting & (ended | ~self.draining)",
                "self.waiting",
            ),
            Mutant(
                "results of an earlier pass are read too early",
                "earlier.eq(self.draining & ~ended)",
                "earlier.eq(0)",
            ),
            Mutant(
                "a pass waits for its own results",
                "[self.draining.eq(0), earlier.eq(0)]",
                "self.draining.eq(0)",
            ),
            Mutant(
                "beats that have been written are not read",
                "place.eq(place + 1)",
                "place.eq(place)",
            ),
            Mutant(
                "a result is lost while the port is a matrix's",
                " & ~(stores & self.waits)",
                "",
            ),
        ),
    ),
    Proof(
        name="stream_engine_operands",
        says="No operand is read of beats that are not in the store yet, and each beat has a place "
        "to wait.",
        component=OperandReader,
        config=SMALL,
        harness=operands,
        depth=1,
        reach=14,
        mutants=(
            Mutant(
                "operands are read too early",
                "& ~is_unwritten(self, place)",
                "",
            ),
            Mutant("a beat has no place", "fifo.level + sum(on_way) < DEPTH", "fifo.level < DEPTH"),
            Mutant("the port of a matrix is taken", "& ~self.waits", ""),
        ),
    ),
    Proof(
        name="stream_engine_begins",
        says="A record of another kind than a pass begins when no result of a pass is on its way.",
        component=RecordWalker,
        config=SMALL,
        harness=begins,
        depth=1,
        reach=12,
        mutants=(
            Mutant(
                "a matrix begins before its vector has been written",
                "self.idle | walk.is_",
                "1 | walk.is_",
            ),
        ),
    ),
    Proof(
        name="stream_engine_flights",
        says="While a matrix runs whose record has been left, no other matrix begins, and no "
        "record of its tokens but one with other vectors than its results; memory is asked only "
        "for the rows of the next matrix, when those of this one have come; a program ends after "
        "it.",
        component=RecordWalker,
        config=replace(SMALL, vectors=2, block=5),
        harness=flights,
        depth=1,
        reach=18,
        mutants=(
            Mutant(
                "records of its tokens do not wait",
                "(quiet & (~same | apart)) | keeps",
                "quiet | keeps",
                part=matrix_flight,
            ),
            Mutant(
                "its results are kept before they have been written",
                'is_["keep"] & ~has["number"]',
                'is_["keep"]',
                part=matrix_flight,
            ),
            Mutant(
                "words of memory are asked for between its rows",
                " & ~walk.words",
                "",
                part=matrix_flight,
            ),
            Mutant(
                "the next matrix begins before its end",
                "walk.asked & ~walk.flight &",
                "walk.asked &",
            ),
            Mutant(
                "rows are asked for before those of this one have come",
                "& ~walk.asked & (self.left == 0)",
                "& ~walk.asked",
            ),
            Mutant(
                "a program ends before it",
                "self.ended & ~(walk.flight & walk.ends)",
                "self.ended",
            ),
        ),
    ),
    Proof(
        name="stream_engine_chains",
        says="So it is with one token, whose results are read as they come: no record writes in "
        "their place but one that reads them.",
        component=RecordWalker,
        config=replace(SMALL, block=5),
        harness=flights,
        depth=1,
        reach=18,
        mutants=(
            Mutant(
                "a record writes where results are yet to come",
                '| ~has["target"] | (walk.numbers["store"] & has["number"])',
                '| ~has["target"] | has["number"]',
                part=matrix_flight,
            ),
        ),
    ),
    Proof(
        name="stream_engine_unwritten",
        says="A beat of a matrix's result for one token is said to be in the store from the cycle "
        "after its write on, and no earlier.",
        component=RowOutput,
        config=SMALL,
        harness=row_results,
        depth=2,
        reach=30,
        mutants=(
            Mutant(
                "it is said so too early", "first.eq(beats.first + 1)", "first.eq(beats.first + 2)"
            ),
            Mutant("a vector is said to be there", "on.eq(~self.done & ~self.given)", "on.eq(0)"),
            Mutant(
                "its last beat is said to be there",
                "self.rows + (1 << bits) - 1 >> bits",
                "self.rows >> bits",
            ),
        ),
    ),
    Proof(
        name="stream_engine_results",
        says="Each element of a matrix's result is written once, at its place, and the store is "
        "read and written for one vector in a cycle.",
        component=RowOutput,
        config=replace(SMALL, vectors=4),
        harness=row_results,
        depth=2,
        reach=30,
        mutants=(
            Mutant("beats of two vectors begin or end together", "& ~crowded", ""),
            Mutant(
                "a last beat ends with that of another vector",
                " | (rows[k].whole & row.whole)",
                "",
            ),
            Mutant(
                "the elements of a beat that is not whole are lost",
                "(row.lane == lanes - 1) | (left == 1)",
                "row.lane == lanes - 1",
            ),
            Mutant(
                "the record ends before the last vector has been written",
                "~Cat(taken[1:]).any()",
                "~Cat(taken[1:6]).any()",
            ),
        ),
    ),
)
