"""Proofs of the streamed engine: what it reads of memory, and room for sums of products."""

from dataclasses import replace

from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq

from seedbed.hw.stream.attend_products import AttendProducts
from seedbed.hw.stream.beat_writer import BeatWriter
from seedbed.hw.stream.burst_reader import BurstReader
from seedbed.hw.stream.cache_exchange import CacheExchange
from seedbed.hw.stream.greatest_element import GreatestElement
from seedbed.hw.stream.kept_sums import DEPTH as ROWS
from seedbed.hw.stream.kept_sums import KeptSums
from seedbed.hw.stream.operand_reader import DEPTH as OPERAND_BEATS
from seedbed.hw.stream.operand_reader import OPERANDS, OperandReader
from seedbed.hw.stream.product_sums import DEPTH, ProductSums
from seedbed.hw.stream.record_loops import matrix_flight
from seedbed.hw.stream.record_walker import RecordWalker
from seedbed.hw.stream.result_writer import ResultWriter
from seedbed.hw.stream.row_output import RowOutput, row_layout
from seedbed.hw.stream.row_products import WaySums
from seedbed.hw.stream.stream_layouts import is_given, is_unwritten, record_kinds
from seedbed.hw.stream.weight_tuner import WeightTuner
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.proofs.mac_array import fifo_invariants
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import KEPT_COUNT, NUMBERS
from seedbed.spec.stream_engine import TUNED_BEATS

__all__ = ["PROOFS"]

SMALL = StreamEngineConfig(
    lanes=2, products=2, beat_bits=128, store=16, cache=16, records=4, block=1, context=5,
    columns=8, address_bits=8, burst=4, timeout_cycles=16, drain_cycles=8,
)  # fmt: skip


def bursts(dut: BurstReader) -> Module:
    """Follow the bursts of parts, whatever the memory gives."""
    m, inside = free_inputs(dut)
    out, rest, outstanding = dut.o_command, inside["rest"], inside["outstanding"]
    for port in (dut.start, dut.clear, dut.address):
        m.d.comb += port.eq(AnySeq(len(port)))
    m.d.comb += [
        dut.beats.eq(AnySeq(3)),
        # A part is asked for when the one before has been taken.
        Assume(~(dut.start | dut.clear) | (dut.left == 0)),
        Assume(~(dut.start & dut.clear)),
    ]
    # Of the part: beats that are not asked for, and not given; where the next burst begins.
    left, missing = Signal.like(dut.left), Signal.like(dut.left)
    place = Signal.like(dut.address)
    length = out.payload.length + 1
    given = transfer(dut.o)
    # A burst of an earlier part, which failed, is not taken yet.
    stale = Signal()
    with m.If(transfer(out)):
        m.d.sync += stale.eq(0)
        with m.If(~stale):
            m.d.sync += [place.eq(place + length), left.eq(left - length)]
        m.d.comb += [
            Assert(stale | (out.payload.address == place)),
            Assert(stale | (length <= left)),
            Assert(~out.payload.write),
        ]
    with m.If(given):
        m.d.sync += missing.eq(missing - 1)
        m.d.comb += Assert(missing != 0)
    with m.If(dut.start | dut.clear):
        m.d.sync += [left.eq(0), stale.eq(out.valid & ~out.ready)]
    with m.If(dut.start):
        m.d.sync += [left.eq(dut.beats), missing.eq(dut.beats), place.eq(dut.address)]
    pending = Mux(out.valid & ~stale, length, 0)
    at = out.payload.address[:2]
    m.d.comb += [
        Assert(~out.valid | (at + length <= dut.config.burst)),
        # What an induction has to know.
        Assert(dut.left == missing),
        Assert(missing < 8),
        Assert(left < 8),
        Assert(~out.payload.write),
        Assert(~dut.failed | (rest == 0)),
        Assert(~dut.failed | ~dut.quiet | ((outstanding == 0) & ~out.valid)),
        Assert(dut.failed | (rest + pending == left)),
        Assert(dut.failed | dut.quiet | ((rest == missing) & (~out.valid | stale))),
        Assert(dut.failed | ~dut.quiet | ~stale),
        Assert(dut.failed | ~dut.quiet | (outstanding + rest + pending == missing)),
        Assert(stale | ~out.valid | (out.payload.address == place)),
        Assert(stale | ~out.valid | (length <= left)),
        Assert((rest == 0) | (inside["address"] == (place + pending)[: len(place)])),
        Assert(~stale | out.valid),
    ]
    stream_rules(m, out)
    # As many beats come as were asked for, of whatever memory.
    cover(m, past(m, given & (missing == 1)) & dut.failed & (outstanding == 2))
    cover(m, transfer(out) & (out.payload.length == 2) & (left == 4))
    return m


def products(dut: AttendProducts) -> Module:
    """Count the beats of sums that have begun, and where they are."""
    m, inside = free_inputs(dut)
    for port in (dut.mix, dut.tokens, dut.head):
        m.d.comb += port.eq(AnyConst(len(port)))
    for port in (dut.start, dut.pop):
        m.d.comb += port.eq(AnySeq(len(port)))
    token, word, running = (inside[name] for name in ("token", "word", "running"))
    begun, level, whole = (inside[f"sums.{name}"] for name in ("begun", "fifo.level", "whole_d1"))
    loading, filled = inside["loading"], inside["filled_d1"]
    issue, ends = inside["issue"], inside["ends"]
    lane = token[0]
    # A group of sums has begun and not ended; others are on their way to the queue.
    opened = running & Mux(dut.mix, token != 0, (word != 0) | lane)
    stages = [inside[f"sums.ends_d{k}"] for k in (1, 2, 3, 4)]
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
        Assert(running + loading + filled <= 1),
        Assert(~(loading | filled) | (~dut.mix & (token == 0) & (word == 0) & (ended == 0))),
        Assert(~running | ((token < dut.tokens) & (word < dut.head))),
        Assert(~running | (ended == Mux(dut.mix, word, token >> 1))),
    ]
    done = past(m, running) & ~running
    unwritten = is_unwritten(dut.unwritten, dut.address)
    m.d.comb += [
        Value.cast(dut.unwritten).eq(AnySeq(len(Value.cast(dut.unwritten)))),
        dut.waits.eq(AnySeq(1)),
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
    m.d.comb += [
        dut.start.eq(AnySeq(1)),
        dut.rows.eq(AnySeq(len(dut.rows))),
        dut.turns.eq(AnyConst(1)),
    ]
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
    for port in (dut.start, dut.write, dut.loaded, Value.cast(dut.values)):
        m.d.comb += port.eq(AnySeq(len(port)))
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


def beats(dut: BeatWriter) -> Module:
    """Follow a beat from where it is taken to its answer, whatever the memory does."""
    m, inside = free_inputs(dut)
    command, write, response = dut.o_command, dut.o_write, dut.i_response
    waits = past(m, dut.reads.valid & ~dut.reads.ready), past(m, Value.cast(dut.reads.payload))
    for port in (dut.first, dut.end):
        m.d.comb += port.eq(AnyConst(len(port)))
    m.d.comb += [
        dut.clear.eq(AnySeq(1)),
        Assume(~dut.clear | dut.idle),
        Assume(~dut.reads.payload.write),
        # Who reads keeps to the rules.
        Assume(~waits[0] | (dut.reads.valid & (Value.cast(dut.reads.payload) == waits[1]))),
    ]
    # The beat that was taken, and what has not been transferred of it.
    address, held = Signal.like(command.payload.address), Signal.like(write.payload.data)
    commands, datas = Signal(), Signal()
    # Beats that are not answered, while the memory has made no error.
    left = Signal(5)
    dirty, failed = inside["dirty"], dut.failed
    taken = transfer(dut.i) & ~failed
    with m.If(transfer(command) & command.payload.write):
        m.d.sync += commands.eq(0)
        m.d.comb += [
            Assert(commands),
            Assert(command.payload.address == address),
            Assert((address >= dut.first) & (address < dut.end)),
            Assert(command.payload.length == 0),
        ]
    with m.If(transfer(write)):
        m.d.sync += datas.eq(0)
        m.d.comb += [Assert(datas), Assert(write.payload.data == held), Assert(write.payload.last)]
    with m.If(taken):
        m.d.sync += [
            commands.eq(1), datas.eq(1), address.eq(dut.i.payload.address),
            held.eq(dut.i.payload.data),
        ]  # fmt: skip
        m.d.comb += [Assert(~commands & ~datas), Assert(~dirty)]
    with m.If(dirty):
        m.d.sync += left.eq(0)
    with m.Else():
        m.d.sync += left.eq(left + taken - (response.valid & (left != 0)))
    m.d.comb += [
        Assert(dirty | ~dut.idle | failed | ((left == 0) & ~commands & ~datas)),
        # What an induction has to know.
        Assert(dirty | (inside["outstanding"] == left)),
        Assert(inside["writes__valid"] == commands),
        Assert(write.valid == datas),
        Assert(~commands | (inside["writes__payload"][: len(address)] == address)),
        Assert(~datas | (write.payload.data == held)),
        Assert(~(commands | datas) | ((address >= dut.first) & (address < dut.end))),
    ]
    for port in (command, write):
        stream_rules(m, port)
    cover(m, taken & past(m, dirty) & (address != dut.i.payload.address) & (address != 0))
    cover(m, (left == 2) & ~dirty & commands & ~datas & dut.reads.valid)
    return m


def parts(dut: WeightTuner) -> Module:
    """Count the beats that are read and written, whatever the memory does."""
    m, inside = free_inputs(dut)
    for port in (dut.first, dut.end, dut.seed, dut.delta):
        m.d.comb += port.eq(AnyConst(len(port)))
    for port in (dut.start, dut.idle, dut.failed):
        m.d.comb += port.eq(AnySeq(1))
    left, level, address = Signal.like(dut.left), inside["beats.level"], inside["address"]
    fifo_invariants(m, inside, "beats", TUNED_BEATS)
    m.d.comb += [
        dut.left.eq(left),
        Assume(~dut.start | ~dut.busy),
        Assume(~dut.i.valid | (left != 0)),
        Assume(dut.end <= 1 << len(dut.first)),
    ]
    # The address after the last one that was read.
    until = Signal.like(address)
    with m.If(dut.start):
        m.d.sync += until.eq(dut.first)
    with m.If(dut.read):
        m.d.sync += [left.eq(dut.read_beats), until.eq(until + dut.read_beats)]
        m.d.comb += [
            Assert(left == 0),
            # It goes on where it ended, and all beats before have been written.
            Assert((dut.read_address == until) & (address == until)),
            Assert((dut.read_beats != 0) & (until + dut.read_beats <= dut.end)),
        ]
    with m.Elif(transfer(dut.i)):
        m.d.sync += left.eq(left - 1)
    # States are numbered in the order in which they are named.
    state = inside["fsm_state"]
    idle, part, ends, reads, writes = (state == k for k in range(5))
    m.d.comb += [
        Assert(~dut.o.valid | ((dut.o.payload.address == address) & (address < until))),
        Assert(~dut.o.valid | ((address >= dut.first) & (address < dut.end))),
        Assert(~dut.o.valid | ((left == 0) & ~dut.failed)),
        # What an induction has to know.
        Assert(state <= 4),
        Assert(idle | (inside["stop"] == dut.end)),
        Assert(idle | ((address >= dut.first) & (address <= until))),
        Assert(~(reads | writes) | (until <= dut.end)),
        Assert(~(idle | part | ends) | ((level == 0) & (left == 0))),
        Assert(~(part | ends) | (address == until)),
        Assert(~reads | (level + left == until - address)),
        Assert(~writes | ((left == 0) & (level == until - address))),
        Assert(until - address <= TUNED_BEATS),
    ]
    cover(m, dut.done & (until == dut.first + 2), transfer(dut.o) & (address != dut.first))
    return m


def rows(dut: CacheExchange) -> Module:
    """Count the words and the beats of rows that are saved or restored."""
    m, inside = free_inputs(dut)
    config = dut.config
    bits = (config.weights // config.products).bit_length() - 1
    for port in (dut.save, dut.tokens, dut.length, dut.at, dut.row, dut.address):
        m.d.comb += port.eq(AnyConst(len(port)))
    for port in (dut.start, dut.idle, Value.cast(dut.data)):
        m.d.comb += port.eq(AnySeq(len(port)))
    words = Signal(4)
    m.d.comb += [
        words.eq(dut.length + (config.products - 1) >> config.products.bit_length() - 1),
        Assume((dut.tokens <= 3) & (dut.length != 0) & (dut.length <= 10 * config.products)),
    ]
    of_row = 1 + (words + (1 << bits) - 1 >> bits)
    token, word, base = inside["token"], inside["word"], inside["base"]
    state, second, ended = inside["fsm_state"], inside["second"], inside["ended"]
    # States are numbered in the order in which they are named.
    idle, shifts, reads, restores, ends, takes, gives = (state == k for k in range(7))
    m.d.comb += Assume(~dut.start | idle)
    # Beats that were taken or given since the start, and those of the rows that are done.
    moved, before = Signal(6), Signal(6)
    with m.If(dut.start):
        m.d.sync += [moved.eq(0), before.eq(0)]
    with m.Elif(transfer(dut.i) | transfer(dut.o)):
        m.d.sync += moved.eq(moved + 1)
    last = transfer(dut.i) & restores & (word + 1 == words)
    last |= transfer(dut.o) & second & ended
    with m.If(last):
        m.d.sync += before.eq(before + of_row)
    of_this = Mux(second | restores, 1 + (word >> bits), 0)
    # The last word of the beat that is given has been counted.
    given = Mux(second, 1 + (word - 1 >> bits), 0)
    active = shifts | restores | reads | takes | gives
    finished = past(m, ends) & idle
    m.d.comb += [
        Assert(~(past(m, ~idle) & idle) | (moved == before)),
        Assert(~finished | (token == dut.tokens)),
        Assert(
            ~transfer(dut.o) | (dut.o.payload.address == (dut.address + moved)[: len(dut.address)])
        ),
        Assert(~dut.write | (dut.place == (base + word * len(dut.word))[: len(dut.place)])),
        # What an induction has to know.
        Assert(state <= 6),
        Assert(idle | (token <= dut.tokens)),
        Assert(~active | (token < dut.tokens)),
        Assert(~ends | ((token == dut.tokens) & (moved == before))),
        Assert(idle | (dut.save == (reads | takes | gives)) | ends),
        Assert(idle | (before == (token * of_row)[:6])),
        Assert(
            idle
            | (inside["address"] == (dut.address + Mux(dut.save, moved, 0))[: len(dut.address)])
        ),
        Assert(idle | ends | (base == (dut.at + token * dut.row)[: len(base)])),
        Assert(~(restores | reads | takes) | (word < words)),
        Assert(idle | ends | (dut.place == (base + word * len(dut.word))[: len(dut.place)])),
        Assert(~shifts | ((word == 0) & ~second & (moved == before))),
        Assert(~restores | (~second & (moved == before + of_this))),
        Assert(~(reads | takes) | (moved == before + of_this)),
        Assert(~gives | ((word != 0) & (word <= words) & (moved == before + given))),
        Assert(~gives | (ended == (word == words))),
        Assert(~gives | second | ended),
        Assert(~gives | ~second | ended | (word[:bits] == 0)),
    ]
    cover(m, finished & dut.save & (moved == 4), finished & ~dut.save & (moved == 9))
    return m


def row_results(dut: RowOutput) -> Module:
    """Follow the beats of a vector to the store, and those of all others past its ports."""
    m, inside = free_inputs(dut)
    config = dut.config
    for port in (dut.at, dut.stride, dut.rows, dut.tokens, dut.add, dut.given):
        m.d.comb += port.eq(AnyConst(len(port)))
    for port in (dut.start, Value.cast(dut.data)):
        m.d.comb += port.eq(AnySeq(len(port)))
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
    for port in (dut.start, *ports):
        m.d.comb += port.eq(AnySeq(len(port)))
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
    for name in ("start", "beats", "wrap", "pop", "data", "unwritten", "waits"):
        port = Value.cast(getattr(dut, name))
        m.d.comb += port.eq(AnySeq(len(port)))
    for name in OPERANDS:
        for port in (getattr(dut, f"{name}_on"), getattr(dut, f"{name}_at")):
            m.d.comb += port.eq(AnySeq(len(port)))
        level, comes = inside[f"{name}_fifo.level"], inside[f"{name}_comes"]
        m.d.comb += Assert(level + comes <= OPERAND_BEATS)
    m.d.comb += [
        Assume(~dut.pop | dut.valid),
        Assert(~dut.read | (inside["issue"] & (inside["issue"] - 1) == 0)),
        Assert(~(dut.read & dut.waits)),
        *(
            Assert(~inside["issue"][k] | ~is_unwritten(dut.unwritten, inside[f"{name}_place"]))
            for k, name in enumerate(OPERANDS)
        ),
    ]
    cover(m, dut.read & dut.unwritten.on & (dut.unwritten.first < dut.unwritten.end))
    return m


def begins(dut: RecordWalker) -> Module:
    """See when records begin."""
    m, _ = free_inputs(dut)
    for name in ("start", "header", "record", "ended", "idle", "failed", "count"):
        port = Value.cast(getattr(dut, name))
        m.d.comb += port.eq(AnySeq(len(port)))
    is_pass = record_kinds(dut.config, dut.record)["pass"]
    m.d.comb += Assert(~dut.begins | dut.idle | is_pass)
    cover(m, dut.begins & is_pass & ~dut.idle, dut.begins & ~is_pass)
    return m


def flights(dut: RecordWalker) -> Module:
    """See what is done while a matrix runs whose record has been left."""
    m, inside = free_inputs(dut)
    ports = (
        "start", "header", "record", "ended", "idle", "failed", "count", "left", "matrix_done",
        "matrix_loading",
    )  # fmt: skip
    for name in ports:
        port = Value.cast(getattr(dut, name))
        m.d.comb += port.eq(AnySeq(len(port)))
    record, vectors = dut.record, dut.config.vectors
    is_ = record_kinds(dut.config, record)
    # States are numbered in the order in which they are named.
    state = inside["fsm_state"]
    names = "IDLE", "FETCH", "PLACE", "MULTIPLY", "BEGIN", "ASK", "ROW", "CONSTANTS", "WEIGHTS"
    before = past(m, state), past(m, Value.cast(record))
    begins, runs_record = state == names.index("BEGIN"), state == len(names)
    leaves = dut.leaves & AnySeq(1)
    m.d.comb += [
        Assume(~dut.start | (state == names.index("IDLE"))),
        # A record comes in the cycle after its number.
        Assume((before[0] <= names.index("FETCH")) | (Value.cast(record) == before[1])),
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
    other = is_["keep"] & (record.number_place.place != target)
    of_others = ((is_["pass"] & ~given) | is_["keep"]) & ~of_it
    matrix_runs = runs_record & is_["matrix"]
    rows = [NUMBERS.index(name) for name in ("token", "position")]
    of_table = is_["pass"] & Cat(record.numbers == k for k in rows).any()
    m.d.comb += [
        Assert(~(dut.begins & runs) | of_others | other),
        Assert(~(dut.read & runs) | (is_["matrix"] & begins & (dut.left == 0))),
        Assert(~(dut.done & runs) | dut.matrix_done),
        Assert(dut.flight == (runs & ~matrix_runs)),
        # What an induction has to know.
        Assert(state <= len(names)),
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
        name="stream_engine_bursts",
        says="A part of memory is asked for once, in bursts that cross no boundary; as many beats "
        "are given as were asked for, whatever the memory gives; a valid command is stable until "
        "its transfer.",
        component=BurstReader,
        config=SMALL,
        harness=bursts,
        depth=2,
        reach=20,
        mutants=(
            Mutant(
                "a burst crosses a boundary",
                "room.eq(config.burst - address[:width])",
                "room.eq(config.burst)",
            ),
            Mutant(
                "bursts go on after an error",
                "with m.If(fault):\n            m.d.sync += rest.eq(0)",
                "with m.If(0):\n            m.d.sync += rest.eq(0)",
            ),
            Mutant(
                "beats go on after the last one",
                "Mux(self.failed, self.left != 0, read.valid & takes)",
                "Mux(self.failed, 1, read.valid & takes)",
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
        reach=24,
        mutants=(
            Mutant(
                "a beat begins without a place",
                "self.room.eq(begun != DEPTH)",
                "self.room.eq(1)",
                part=ProductSums,
            ),
            Mutant(
                "the last tokens of scores give no beat",
                "last & (self.mix | last_token | lane.all())",
                "last & (self.mix | lane.all())",
            ),
            Mutant("shares are read too early", "& (there | ~self.mix)", ""),
            Mutant("the port of a matrix is taken", " & ~self.waits", ""),
            Mutant("a query is read too early", "reads.eq(loading & there)", "reads.eq(loading)"),
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
        name="stream_engine_writes",
        says="A beat is written once, at its address, only where the command to load allows it; a "
        "valid command is stable, whoever reads; there is no answer to come when a record ends "
        "without an error.",
        component=BeatWriter,
        config=replace(SMALL, external=True),
        harness=beats,
        depth=2,
        reach=24,
        mutants=(
            Mutant(
                "beats are written anywhere",
                "(address < self.first) | (address >= self.end)",
                "address < self.first",
            ),
            Mutant(
                "a read takes the place of a write that was offered",
                "writes.valid & (held | ~reads.valid)",
                "writes.valid & ~reads.valid",
            ),
            Mutant(
                "a record ends before the answer",
                "~sending & (outstanding == 0)",
                "~sending",
            ),
        ),
    ),
    Proof(
        name="stream_engine_tuned",
        says="Beats of kept weights are read once each, in their order, and written at their "
        "addresses, in the range of the command; none is read from its write on, and none is "
        "written after an error.",
        component=WeightTuner,
        config=replace(SMALL, trellis=4, kept=4, tune=2),
        harness=parts,
        depth=2,
        reach=16,
        mutants=(
            Mutant(
                "a part ends after the range",
                "Mux(rest < part, rest, part)",
                "part",
            ),
            Mutant(
                "beats are written before all have come",
                "with m.If(self.left == 0):",
                "with m.If(beats.r_rdy):",
            ),
            Mutant(
                "beats are written after an error",
                "beats.r_rdy & ~self.failed",
                "beats.r_rdy",
            ),
        ),
    ),
    Proof(
        name="stream_engine_rows",
        says="Rows that are saved or restored have as many beats as their record asks for, each "
        "word goes to or comes from its own place in the cache, and addresses follow each other.",
        component=CacheExchange,
        config=replace(SMALL, external=True),
        harness=rows,
        depth=2,
        reach=60,
        mutants=(
            Mutant(
                "words of the next row are those of this one",
                "rows.base.eq(base), rows",
                "rows.base.eq(rows.base), rows",
            ),
            Mutant(
                "the last beat of a row is left",
                "whole = self.last_word | (self.part == parts - 1)",
                "whole = self.part == parts - 1",
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
        reach=8,
        mutants=(
            Mutant(
                "operands are read too early",
                "& ~is_unwritten(self.unwritten, place)",
                "",
            ),
            Mutant("a beat has no place", "fifo.level + comes < DEPTH", "fifo.level < DEPTH"),
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
        "record of its tokens but one that keeps another vector; memory is asked only for the "
        "rows of the next matrix, when those of this one have come; a program ends after it.",
        component=RecordWalker,
        config=replace(SMALL, vectors=2, block=5),
        harness=flights,
        depth=1,
        reach=18,
        mutants=(
            Mutant(
                "records of its tokens do not wait",
                "(quiet & ~same) | keeps",
                "quiet | keeps",
                part=matrix_flight,
            ),
            Mutant(
                "its results are kept before they have been written",
                'is_["keep"] & (record.number_place.place != target)',
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
        name="stream_engine_results",
        says="Each element of a matrix's result is written once, at its place, and the store is "
        "read and written for one vector in a cycle.",
        component=RowOutput,
        config=replace(SMALL, vectors=4),
        harness=row_results,
        depth=2,
        reach=24,
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
