"""Proofs of the streamed engine: results are written once, and read after that."""

from dataclasses import replace

from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq

from seedbed.hw.stream.operand_reader import DEPTH as OPERAND_BEATS
from seedbed.hw.stream.operand_reader import OPERANDS, OperandReader
from seedbed.hw.stream.result_writer import ResultWriter
from seedbed.hw.stream.row_output import RowOutput, row_layout
from seedbed.hw.stream.stream_layouts import STORE_CYCLES, is_in
from seedbed.sim.proofs.bench import cover, free, free_inputs, past, steady, transfer
from seedbed.sim.proofs.stream_engine_memory import SMALL
from seedbed.sim.prove import Mutant, Proof

__all__ = ["PROOFS"]


def row_results(dut: RowOutput) -> Module:
    """Follow the beats of a vector to the store, and those of all others past its ports."""
    m, inside = free_inputs(dut)
    config = dut.config
    steady(m, dut.at, dut.stride, dut.rows, dut.tokens, dut.add, dut.given)
    free(m, dut.start, dut.data)
    reads, writes, left, busy = (inside[name] for name in ("reads", "writes", "left", "busy"))
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
        # A program whose matrices have no rows is refused.
        Assume((dut.rows != 0) & (dut.rows <= 7)),
        Assume(~dut.start | (dut.done & (age == config.vectors))),
        Assert(sum(reads) <= 1),
        Assert(sum(writes) <= 1),
        Assert(~writes.bit_select(vector, 1) | (dut.write_at == place)),
        Assert(~(dut.done & begun) | (written == Mux(unwritten, 0, rows))),
        # What an induction has to know.
        Assert(left <= rows),
        Assert(busy == ((left != 0) | Cat(taken).any())),
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
            Assert(dut.given | (beats.on == ~dut.done)),
            Assert(~dut.given | ~beats.on),
            Assert(dut.given | (inside["queue.level"] == 0)),
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
        beats = sum(comes, inside[f"{name}_fifo.level"])
        m.d.comb += [
            Assert(inside[f"{name}_outstanding"] == beats),
            Assert(beats <= OPERAND_BEATS),
        ]
    m.d.comb += [
        Assume(~dut.pop | dut.valid),
        Assert(~dut.read | (inside["issue"] & (inside["issue"] - 1) == 0)),
        Assert(~(dut.read & dut.waits)),
        *(
            Assert(~inside["issue"][k] | ~is_in(unread, inside[f"{name}_place"]))
            for k, name in enumerate(OPERANDS)
            for unread in (dut.unwritten, dut.of_matrix)
        ),
    ]
    cover(
        m,
        *(
            dut.read & unread.on & (unread.first < unread.end)
            for unread in (dut.unwritten, dut.of_matrix)
        ),
    )
    return m


PROOFS = (
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
            Mutant("a beat has no place", "(outstanding < DEPTH)", "(fifo.level < DEPTH)"),
            Mutant("the port of a matrix is taken", "& ~self.waits", ""),
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
            Mutant("a vector is said to be there", "on.eq(busy & ~self.given)", "on.eq(0)"),
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
                "taken[-1] & rows[-1].last",
                "taken[self.latency] & rows[self.latency].last",
            ),
        ),
    ),
)
